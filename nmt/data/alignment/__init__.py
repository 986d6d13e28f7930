"""Word alignments, taken from attention, read from a file, or learned from the pairs."""
