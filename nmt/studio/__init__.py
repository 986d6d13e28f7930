"""The studio: from a table to a translator in the browser. A supervisor: all work is done by the commands, as children,
and all files are theirs."""
