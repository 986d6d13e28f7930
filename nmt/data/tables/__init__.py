"""Read tables as people have them: rows of cells (grids), or records with named fields (lexicons, memories)."""
