"""`python -m nmt COMMAND ...`: the front command, where no script is on the path. NMT_PROGRAM: what a user typed."""

import os

from nmt.cli import entry

if __name__ == "__main__":
    entry.front(os.environ.get("NMT_PROGRAM", "python -m nmt"))
