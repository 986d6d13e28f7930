"""Input and output of the commands: lines, tables, documents, progress."""
