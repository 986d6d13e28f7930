"""Kernels for NVIDIA GPUs, how they are compiled, and what runs them. Imported only where a GPU is asked for."""
