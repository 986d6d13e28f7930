"""Batches: grouping by length, streaming."""
