"""Models that other systems trained, read as data and written as our folders.

Files are read by code that trusts nothing (`torch_file`, `array_files`, `marian_file`): no pickle is ever
run. Each system has a module that says which tensor is which of our parameters; `sources` finds out which one it is.
"""
