"""nmt-import: import models trained with other systems."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.options.command import Command
from nmt.cli.options.path_types import INPUT, new_folder


@click.command("import", cls=Command)
@click.argument("source", metavar="SOURCE", type=INPUT)
@new_folder("New folder for the model.")
@click.option("--from", "kind", metavar="KIND", help="Format of SOURCE; detected if not given.")
@click.option("--member", metavar="NAME", help="File to import from a folder with several.")
@click.option("--src-lang", metavar="NAME", default="src", help="Name of the source language.")
@click.option("--tgt-lang", metavar="NAME", default="tgt", help="Name of the target language.")
def import_model(source: str, output: str, kind: str | None, member: str | None, src_lang: str, tgt_lang: str) -> None:
    """Import a model trained with another system.

    SOURCE is its file or folder. The imported model gives the same outputs, and can translate, score, be quantized and
    be bundled like any other. The mapping of its parts is printed, and kept in the folder as imported.txt. Anything
    that cannot be represented exactly is an error. No pickle is ever run: PyTorch files are read as data.
    docs/migration.md lists the supported systems.

    \b
    Examples:
        nmt-import model_step_20000.pt -o runs/opennmt
        nmt-import joeynmt/model_folder --member best.ckpt -o runs/joey
    """
    from nmt.importing import sources
    from nmt.importing.writing import save_imported

    imported = sources.import_model(Path(source), kind, member)
    save_imported(Path(output), imported, src_lang, tgt_lang)
    click.echo(f"{imported.kind}: {len(imported.params)} parameters")
    for line in imported.lines:
        click.echo(line)
