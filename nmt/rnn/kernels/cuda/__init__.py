"""Kernels for NVIDIA GPUs, their compilation and their runtime. Imported only when a GPU is requested."""
