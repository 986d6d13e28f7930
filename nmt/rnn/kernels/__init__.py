"""Compiled arithmetic on arrays: products, activations, losses and parameter updates. The only home of Numba."""
