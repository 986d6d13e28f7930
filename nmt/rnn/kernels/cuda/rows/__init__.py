"""Work on rows, for a GPU."""
