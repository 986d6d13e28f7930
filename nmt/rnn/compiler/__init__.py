"""The compiler's passes, one per file, each from graph to graph."""
