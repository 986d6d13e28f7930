"""Limits: keys and rates, bodies in memory, turns of clients, what is kept for them."""
