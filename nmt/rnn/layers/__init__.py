"""Stacks of recurrent layers with the interface people know."""
