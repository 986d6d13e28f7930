"""Import models trained by other systems: read their files as data and write our model folders.

The code that reads the files trusts nothing (`torch_file`, `array_files`, `marian_file`): no pickle is ever executed.
For each system, a module maps its tensors to our parameters; `sources` detects which system a model comes from.
"""
