"""A cell one step at a time, for search: rows that come, share and go, or that stay where they are."""
