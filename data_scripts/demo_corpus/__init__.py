"""The demo corpus: English number words and their German, made by rule. See ../number_words.py."""
