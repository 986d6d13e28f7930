"""Cells around other cells."""
