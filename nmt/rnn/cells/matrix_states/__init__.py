"""Cells whose state is a matrix for each head: memories that are read and written by keys."""
