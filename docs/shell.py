"""Writes what a shell knows of the commands, from click's own objects: a manual page each in docs/man, and what
completes `nmt` in docs/completion, for bash, zsh and fish. The wheel brings both to where systems look for them
(pyproject.toml).

Run by `make docs`; tests/cli/test_cli_front.py fails when they do not match the commands.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import ShellComplete, get_completion_class

import nmt
from nmt.cli.entry import COMMANDS
from nmt.cli.front import front, load_command, summary_of
from nmt.cli.options.help_page import help_record
from nmt.system.files import write_bytes

DOCS = Path(__file__).resolve().parent
# The names under which each shell looks for a command's file.
COMPLETIONS = {"bash": "nmt", "zsh": "_nmt", "fish": "nmt.fish"}


def roff(text: str) -> str:
    """Text as troff takes it: hyphens that can be copied, and no line that begins like a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.M)


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a command's help; one that begins with click's mark keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("\b\n"):
            yield ".PP\n.nf\n" + roff(paragraph.removeprefix("\b\n")) + "\n.fi"
        else:
            yield ".PP\n" + roff(" ".join(paragraph.split()))


def manual_page(command: click.Command, program: str, others: list[str]) -> str:
    """The manual page of a command, in the macros of man(7).

    Args:
        command: What it is about.
        program: What the command is called, such as nmt-train.
        others: Pages that it points to.
    """
    context = click.Context(command, info_name=program, **command.context_settings)
    text = inspect.cleandoc(command.help or "")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{roff(program.upper())}" 1 "" "nmt {roff(nmt.__version__)}" "nmt"',
        f".SH NAME\n{roff(program)} \\- {roff(summary_of(command))}",
        f".SH SYNOPSIS\n.B {roff(program)}\n{roff(usage)}",
        ".SH DESCRIPTION",
        *paragraphs(text),
    ]
    params = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    if options := [record for param in params if (record := help_record(param, context)) is not None]:
        lines.append(".SH OPTIONS")
        lines += [f".TP\n.B {roff(names)}\n{roff(' '.join(meaning.split()))}" for names, meaning in options]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name in command.list_commands(context):
            lines.append(f".TP\n.B {roff(name)}\n{roff(summary_of(load_command(name)))}")
    lines.append(".SH SEE ALSO\n" + ", ".join(f"\\fB{roff(name)}\\fR(1)" for name in others))
    return "\n".join(lines) + "\n"


def manual_pages() -> dict[str, str]:
    """All manual pages, by the names of their files."""
    programs = {"nmt": front, **{f"nmt-{name}": load_command(name) for name in COMMANDS}}
    return {
        f"{program}.1": manual_page(command, program, [name for name in programs if name != program])
        for program, command in programs.items()
    }


def completions() -> dict[str, str]:
    """What each shell reads to complete `nmt`, by the path of its file."""
    files = {}
    for shell, name in COMPLETIONS.items():
        known = get_completion_class(shell)
        if known is None:
            raise LookupError(f"click must know the shell {shell}, it does not")
        # The plain source: the one of bash looks first at the version of the bash at hand.
        files[f"{shell}/{name}"] = ShellComplete.source(known(front, {}, "nmt", "_NMT_COMPLETE")).rstrip("\n") + "\n"
    return files


def main() -> None:
    """Write all of them, and remove pages of commands that are gone."""
    pages = manual_pages()
    for path in (DOCS / "man").glob("*.1"):
        if path.name not in pages:
            path.unlink()
    for folder, files in (("man", pages), ("completion", completions())):
        for name, text in files.items():
            path = DOCS / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, text.encode())


if __name__ == "__main__":
    main()
