"""The command nmt, in which `nmt train ...` is `nmt-train ...`."""

from __future__ import annotations

from importlib import import_module

import click

from nmt.cli.entry import COMMANDS, GROUPS
from nmt.cli.options.command import Command
from nmt.errors import most_like


def load_command(name: str) -> click.Command:
    """Return the click command that `nmt-NAME` runs. Raises KeyError: There is no command of that name."""
    module = COMMANDS[name]
    command: click.Command = getattr(import_module(f"nmt.cli.commands.{module}"), module.rpartition(".")[2])
    return command


def summary_of(command: click.Command) -> str:
    """Return the first sentence of a command's help."""
    return " ".join((command.help or "").split()).partition(". ")[0].rstrip(".:") + "."


class Front(Command, click.Group):
    """A group of the commands in `entry.COMMANDS`, each imported when it is used: `nmt train` loads what `nmt-train`
    does, and the list of commands loads all of them, which import nothing heavy."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; without any, show the list of commands. `help COMMAND` is `COMMAND --help`."""
        for place, word in enumerate(args):
            if word in ("help", "version"):
                args = [*args[:place], *args[place + 1 :], f"--{word}"]
            if not word.startswith("-"):
                break
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order of definition: training comes first."""
        return list(COMMANDS)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, each with its whole summary."""
        widest = max(map(len, COMMANDS))
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{widest}}", summary_of(load_command(name))) for name in names])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if there is none of that name."""
        return load_command(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names; `nmt nmt-train` works too; suggest one for others."""
        name = args[0].removeprefix("nmt-")
        if name not in COMMANDS and not name.startswith("-"):
            from nmt.config.removed import instead  # here, since --help must be fast

            if gone := instead(f"nmt-{name}"):
                ctx.fail(f"nmt-{name} {gone}")
            near = most_like(name, COMMANDS)
            meant = f"did you mean {near}?" if near else f"one of {', '.join(COMMANDS)}"
            ctx.fail(f"{args[0]!r} is not a command; {meant}")
        return super().resolve_command(ctx, [name, *args[1:]])


@click.command(cls=Front)
def front() -> None:
    """Train, use and measure small recurrent translation models.

    `nmt help COMMAND` explains a command. Each command is also a separate program: `nmt train` is `nmt-train`.

    \b
    Examples:
        nmt train configs/quickstart.yaml
        nmt translate runs/quickstart input.en -o output.de
    """
