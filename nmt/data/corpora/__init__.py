"""Training text: files, rows and lines of parallel corpora."""
