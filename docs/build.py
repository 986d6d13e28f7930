"""Writes what the code knows about itself: docs/commands.md, configs/reference.yaml, schema.json, the tests named in
docs/engine-rows.md, the lines that docs/tour.md links to, and the pictures of the compiler's passes, of the rooms and
of the walks.

Run by `make docs`. tests/test_docs.py, tests/test_tour.py, tests/rows/test_page.py and tests/rnn/test_show.py fail when
something is missing from these files.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import click
import engine_rows
import passes
import rooms
import tour

from nmt.files import write_bytes

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = (
    *("train", "translate", "evaluate", "score", "generate", "average", "shortlist", "bundle", "quantize"),
    *("cache", "serve", "import", "export", "report", "sweep"),
)
# The page must not depend on the terminal of whoever runs this.
HELP_WIDTH = 96
HEADER = """\
# Commands

What `--help` prints; written by `make docs`.
Settings: [configs/reference.yaml](../configs/reference.yaml).
"""


def load_command(name: str) -> click.Command:
    """Returns the click command behind nmt-NAME."""
    module = {"import": "import_model"}.get(name, name)  # a word of Python is no name of a module
    command = getattr(importlib.import_module(f"nmt.cli.{module}"), module)
    if not isinstance(command, click.Command):
        raise TypeError(f"nmt-{name} must be a click command, got {type(command).__name__}")
    return command


def commands_page() -> str:
    """Returns the page of all commands."""
    sections = []
    for name in COMMANDS:
        context = click.Context(
            load_command(name),
            info_name=f"nmt-{name}",
            terminal_width=HELP_WIDTH,
            max_content_width=HELP_WIDTH,
        )
        sections.append(f"\n## nmt-{name}\n\n```text\n{context.get_help()}\n```\n")
    return HEADER + "".join(sections)


def main() -> None:
    """Writes all files."""
    write_bytes(engine_rows.PAGE, engine_rows.refreshed(engine_rows.PAGE.read_text("utf-8")).encode())
    passes.main()
    rooms.main()
    tour.main()
    write_bytes(ROOT / "docs" / "commands.md", commands_page().encode())
    for kind, name in (("reference", "reference.yaml"), ("schema", "schema.json")):
        answer = subprocess.run([sys.executable, "-m", "nmt.config", kind], cwd=ROOT, check=True, capture_output=True)
        write_bytes(ROOT / "configs" / name, answer.stdout)


if __name__ == "__main__":
    main()
