"""Cells run over time: the runs, their checks, what they keep, and what is prepared for them."""
