"""Estimates before training: batch size, memory, time, budget."""
