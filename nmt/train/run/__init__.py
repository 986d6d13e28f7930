"""The training run: trainer, loop, limits, report."""
