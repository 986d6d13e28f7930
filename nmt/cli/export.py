"""nmt-export: a model in forms that need nothing of ours."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.command import Command, checkpoint_option, version_option


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="MODEL_DIR")
@click.option("-o", "--output", metavar="DIR", required=True, help="New folder for what is written.")
@click.option("--to", "form", type=click.Choice(["numpy"]), required=True, help="What to write.")
@checkpoint_option()
@version_option()
def export(model_dir: str, output: str, form: str, checkpoint: str | None) -> None:
    """Write the model in MODEL_DIR so that it runs without nmt.

    --to numpy writes weights.npz, model.json with settings and units, and plain_numpy.py: one page that needs NumPy
    alone, translates greedily and scores. It is slow, and there to be read: how a model is computed is no secret of
    this toolkit. It knows recurrent models of LSTM or GRU cells, in float32.

    \b
    Example:
        nmt-export runs/de-en -o de-en-numpy --to numpy
    """
    from nmt.cli.streams import tell
    from nmt.exporting.to_numpy import WEIGHTS_NAME, save_numpy
    from nmt.storage.saved_model import load_saved_model

    out = Path(output)
    save_numpy(out, load_saved_model(Path(model_dir), checkpoint))
    tell(f"{output}: {(out / WEIGHTS_NAME).stat().st_size:,} bytes of weights as {form}")


if __name__ == "__main__":
    from nmt.cli import entry

    entry.export()
