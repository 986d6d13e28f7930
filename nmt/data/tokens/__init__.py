"""Tokenization: subwords, characters; vocabularies."""
