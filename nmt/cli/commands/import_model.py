"""nmt-import: models that other systems trained."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.options.command import Command, version_option
from nmt.cli.options.path_types import InputPath, NewFolder


@click.command("import", cls=Command, context_settings={"show_default": True})
@click.argument("source", metavar="SOURCE", type=InputPath())
@click.option("-o", "--output", type=NewFolder(), metavar="DIR", required=True, help="New folder for the model.")
@click.option("--from", "kind", metavar="KIND", help="What SOURCE is; found out by itself if not given.")
@click.option("--member", metavar="NAME", help="Which file of a folder or wheel, where there are several.")
@click.option("--src-lang", metavar="NAME", default="src", help="What the source language is called.")
@click.option("--tgt-lang", metavar="NAME", default="tgt", help="What the target language is called.")
@version_option()
def import_model(source: str, output: str, kind: str | None, member: str | None, src_lang: str, tgt_lang: str) -> None:
    """Make a model that another system trained a folder of ours: a file, a folder, or a package's wheel.

    The model gives the same outputs, and can be translated with, scored, quantised and bundled like any other. What was
    mapped to what is printed, and kept in the folder as imported.txt. What cannot be represented exactly is an error.
    No pickle is ever run: files of PyTorch are read as data. docs/import.md says which systems are understood.

    \b
    Examples:
        nmt-import g2p_en-2.1.0-py3-none-any.whl -o runs/g2p-en
        nmt-import e2k-0.8.1-py3-none-any.whl --member model-c2k.safetensors -o runs/c2k
    """
    from nmt.importing import sources
    from nmt.importing.writing import save_imported

    imported = sources.import_model(Path(source), kind, member)
    save_imported(Path(output), imported, src_lang, tgt_lang)
    click.echo(f"{imported.kind}: {len(imported.params)} parameters")
    for line in imported.lines:
        click.echo(line)


if __name__ == "__main__":
    from nmt.cli import entry

    entry.import_()
