"""Compile functions to machine code, store it, and load it again."""
