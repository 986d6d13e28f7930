"""The studio: from a table to a translator in the browser. All work is done by the commands, as children."""
