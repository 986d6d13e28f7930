"""Export models to formats that run without this package."""
