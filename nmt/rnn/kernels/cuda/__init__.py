"""Kernels for NVIDIA cards, how they are compiled, and what runs them. Imported only where a card is asked for."""
