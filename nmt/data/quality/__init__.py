"""Quality of a corpus: encoding faults, filters, overlap with the test text."""
