"""Running a cell one step at a time, for search: with rows that come, share and go, or with fixed rows."""
