"""Compilation of kernels to machine code of a GPU, and their launch."""
