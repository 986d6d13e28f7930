"""Word alignments: from attention, and learned from a corpus."""
