"""The training task, its preparation and validation."""
