"""Emit and run the loops that the compiler has made from a cell."""
