"""nmt-bundle: a model folder as one file."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.command import Command, checkpoint_option, version_option


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="MODEL_DIR")
@click.argument("output", metavar="MODEL.nmt")
@checkpoint_option()
@version_option()
def bundle(model_dir: str, output: str, checkpoint: str | None) -> None:
    """Write the model in MODEL_DIR as one file that translates: parameters, settings, subwords, the shortlist and
    length statistics if there are any, and its scores on the validation text. A file that is there is not written over.

    The file is a safetensors container: it holds no code, and any other program can read its arrays. Commands that take
    a model folder take the file in its place; parameters are mapped into memory, so that loading is quick and
    processes share them.

    \b
    Example:
        nmt-bundle runs/de-en de-en.nmt
    """
    from nmt.cli.streams import tell
    from nmt.errors import CheckpointError
    from nmt.storage.saved_model import BUNDLE_SUFFIX, load_saved_model, save_bundle

    path = Path(output)
    if path.suffix != BUNDLE_SUFFIX:
        raise CheckpointError(f"{output}: must end in {BUNDLE_SUFFIX}, got another name; rename it")
    saved = load_saved_model(Path(model_dir), checkpoint)
    save_bundle(path, saved)
    parts = ["parameters", "subwords"]
    parts += ["shortlist"] if saved.shortlist is not None else []
    parts += ["lengths"] if saved.lengths is not None else []
    tell(f"{output}: {path.stat().st_size:,} bytes: {', '.join(parts)}")


if __name__ == "__main__":
    from nmt.cli import entry

    entry.bundle()
