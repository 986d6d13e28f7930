"""The commands: parse, call, print. Errors become one line in `command.py` alone."""
