"""Checkpoints: writing, keeping, resuming, averaging."""
