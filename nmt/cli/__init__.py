"""The commands: parse arguments, call the library, print results. Only `command.py` turns errors into messages."""
