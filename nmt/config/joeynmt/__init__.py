"""Conversion of JoeyNMT configurations."""
