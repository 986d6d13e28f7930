"""Stacks of recurrent layers with the customary interface."""
