"""Kernels for row work on a GPU."""
