"""Word alignments, taken from attention or read from an alignment file."""
