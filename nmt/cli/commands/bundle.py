"""nmt-bundle: write a model folder as one file."""

from __future__ import annotations

import click

from nmt.cli.lines.streams import tell
from nmt.cli.options.command import Command, checkpoint_option, flag
from nmt.cli.options.path_types import INPUT, OUTPUT_PLACE, writes
from nmt.errors import CheckpointError
from nmt.system.paths import check_prefix, exists


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@writes("-o", "--output", kind=OUTPUT_PLACE, metavar="FILE.nmt", required=True, text="File to write.")
@checkpoint_option
@flag("--card", text="Also write a model card, FILE.md, as used on model hubs.")
def bundle(model_dir: str, output: str, checkpoint: str | None, card: bool) -> None:
    """Pack a model into one file.

    It contains all that translation needs: parameters, settings, subwords, the shortlist and length statistics if there
    are any, and the scores on the validation text. An existing file is not overwritten. The file is a safetensors
    container: it contains no code, and any other program can read its arrays. Commands that take a model folder also
    take the file. Parameters are mapped into memory, so loading is quick and processes share them; nmt-serve reads them
    instead, so that the file can be replaced while it runs.

    With --card a Markdown page is written next to it: languages, task, scores and settings, for people and for model
    hubs. Nothing is uploaded. Add what the model cannot know, such as its licence, yourself.

    \b
    Examples:
        nmt-bundle runs/de-en -o de-en.nmt
        nmt-bundle runs/de-en-int8 -o de-en.nmt --card
    """
    from nmt.storage.model_card import write_card
    from nmt.storage.saved_model import BUNDLE_SUFFIX, load_saved_model, save_bundle

    path = check_prefix(output, "-o")
    if path.suffix != BUNDLE_SUFFIX:
        raise CheckpointError(f"{output}: must end in {BUNDLE_SUFFIX}, got another name; rename it")
    page = path.with_suffix(".md")
    for there in [path, *([page] if card else [])]:
        if exists(there):
            raise CheckpointError(
                f"{there}: must be a new file, got one that is there; remove it, or choose another name"
            )
    saved = load_saved_model(model_dir, checkpoint)
    save_bundle(path, saved)
    parts = ["parameters", "subwords"]
    parts += ["shortlist"] if saved.shortlist is not None else []
    tell(f"{output}: {path.stat().st_size:,} bytes: {', '.join(parts)}")
    if card:
        try:
            write_card(page, saved, path)
        except BaseException:  # so that the same command can be run again
            path.unlink()
            raise
        tell(f"{page}: its card; add a licence before you give the model away")
