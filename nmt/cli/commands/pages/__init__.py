"""Commands whose result is a page."""
