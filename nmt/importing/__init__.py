"""Import models trained by other systems: read their files as data and write our model folders. No pickle is ever
executed. A module for each system maps its tensors to our parameters; `sources` detects the system."""
