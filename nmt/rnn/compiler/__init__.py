"""One pass a file, graph in, graph out."""
