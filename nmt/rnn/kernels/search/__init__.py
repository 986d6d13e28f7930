"""Kernels of beam search: the loop, its rules, the choice of candidates."""
