"""Programs: lists of steps over named buffers, which run a whole translation without Python."""
