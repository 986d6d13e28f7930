"""A model at work: text in, translations, continuations and scores out."""
