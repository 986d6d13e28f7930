"""Limits of the server: keys and rates, request bodies in memory, fair turns for clients, and stored results."""
