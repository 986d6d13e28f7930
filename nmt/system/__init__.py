"""The operating system: files, streams, the terminal, signals, the heap."""
