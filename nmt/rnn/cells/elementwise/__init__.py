"""Cells whose recurrence multiplies each number of the state by itself alone: no matrix reads the state."""
