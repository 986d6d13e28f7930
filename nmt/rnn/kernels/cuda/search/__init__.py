"""Beam search on a GPU."""
