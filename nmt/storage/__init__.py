"""A model on disk: its folder, its one file, its checkpoints; what is read is checked, what is written is whole."""
