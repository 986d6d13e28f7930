"""Independent witnesses: the papers' formulas by loops in plain NumPy; imports nothing from nmt."""
