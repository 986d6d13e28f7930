"""`python -m nmt COMMAND ...`: the front command, where no script is on the path."""

from nmt.cli import entry

if __name__ == "__main__":
    entry.front("python -m nmt")
