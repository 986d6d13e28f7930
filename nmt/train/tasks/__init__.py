"""What is trained: the translation and the language model task, their preparation and validation."""
