"""Write what the code knows about itself: docs/commands.md, configs/reference.yaml, schema.json, the tests named in
results/engine-rows.md, the files that docs/tour.md links to, the listings of docs/lstm-step.md, the options in
docs/python.md, manual pages and shell completion, and the public interface, docs/interface.txt. With the argument
`pictures`, draw docs/pictures by Graphviz instead.

Run by `make docs` and `make pictures`. tests/test_docs.py, tests/test_tour.py, tests/cli/test_cli_front.py and
tests/rows/test_page.py fail when something is missing from these files.
"""

import json
import sys
from pathlib import Path

import click
import interface
import lstm_step
import passes
import python_page
import rooms
import shell
import tour

from docs.reference import reference_yaml
from docs.show.dot import drawn
from nmt.cli.entry import COMMANDS
from nmt.cli.front import load_command
from nmt.cli.options.help_page import ALL
from nmt.config import config_schema
from nmt.system.files import write_bytes

ROOT = Path(__file__).resolve().parent.parent
# The page must not depend on the terminal.
HELP_WIDTH = 96
HEADER = """\
# Commands

This page shows what `--help-all` prints; `--help` shows the options that matter most. `make docs` writes it.
Settings: [configs/reference.yaml](../configs/reference.yaml).

Results go to standard output; progress, warnings and errors to standard error. On a terminal these have colours (unless
`NO_COLOR` is set) and a last line that changes; elsewhere they are plain lines.

`nmt COMMAND` is the same as `nmt-COMMAND`; if the scripts are not on the path, use `python -m nmt COMMAND`. `nmt` alone
lists the commands, `nmt help train` explains one, and `-v` shows where in the code an error arose.

A wheel installs manual pages (`man nmt-train`) and completion for bash, zsh and fish into `share` of its environment.
If your shell does not read that folder, enable completion with:

```bash
eval "$(_NMT_COMPLETE=bash_source nmt)"              # or zsh_source
eval "$(_NMT_TRAIN_COMPLETE=bash_source nmt-train)"
```
"""


def commands_page() -> str:
    """Returns the page of all commands."""
    sections = []
    for name in COMMANDS:
        command = load_command(name)
        settings = command.context_settings | {"terminal_width": HELP_WIDTH, "max_content_width": HELP_WIDTH}
        context = click.Context(command, info_name=f"nmt-{name}", **settings)
        context.meta[ALL] = True
        sections.append(f"\n## nmt-{name}\n\n```text\n{context.get_help()}\n```\n")
    return HEADER + "".join(sections)


def main() -> None:
    """Writes all files."""
    tour.main()
    shell.main()
    interface.main()
    lstm_step.renew()
    python_page.renew()
    write_bytes(ROOT / "docs" / "commands.md", commands_page().encode())
    schema = json.dumps(config_schema(), indent=2, ensure_ascii=False)
    for name, text in (("reference.yaml", reference_yaml()), ("schema.json", f"{schema}\n")):
        write_bytes(ROOT / "configs" / name, text.encode())


def draw() -> None:
    """Draw the pictures of the compiler's passes, of the packages and of the walks. Raises NMTError: Without
    Graphviz."""
    page = tour.PAGE.read_text("utf-8")
    for name, source in (passes.pictures() | rooms.pictures() | tour.pictures(page)).items():
        write_bytes(ROOT / "docs" / "pictures" / name, drawn(source).encode())


if __name__ == "__main__":
    draw() if sys.argv[1:] == ["pictures"] else main()
