"""Tokens of texts with markup, and what divides or joins them: ICU messages and the marks of notes."""
