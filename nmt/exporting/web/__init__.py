"""Export a model as a page, or a module for JavaScript, that translates by itself."""
