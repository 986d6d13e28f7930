"""Batches: grouping by length, streaming, the index of large corpora."""
