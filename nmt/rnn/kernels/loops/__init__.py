"""Emit and run the loops that the compiler has made of a cell."""
