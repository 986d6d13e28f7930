"""Tokenization: subwords, characters, vocabularies, factors."""
