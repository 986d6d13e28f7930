"""Training tasks: translation and language modelling, their preparation and validation."""
