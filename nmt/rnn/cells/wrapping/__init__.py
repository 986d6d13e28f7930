"""Cells that wrap other cells."""
