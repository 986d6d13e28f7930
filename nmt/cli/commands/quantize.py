"""nmt-quantize: convert a model to int8."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.lines.streams import tell
from nmt.cli.options.command import Command, cells_option, checkpoint_option, chooses
from nmt.cli.options.path_types import INPUT, new_folder
from nmt.errors import CheckpointError


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@new_folder("New folder for the model in int8.")
@chooses("--bits", among=["8", "4"], default="8", text="Bits of a number; 4 halves the file once more.")
@checkpoint_option
@cells_option
def quantize(model_dir: str, output: str, bits: str, checkpoint: str | None, cells: tuple[str, ...]) -> None:
    """Convert a model to int8: a quarter of the size, and faster.

    Translation takes less than half of the time on processors with int8 instructions. The new folder is used like any
    other, on any processor; its compute_dtype is int8 unless --compute-dtype overrides it. Each output channel of a
    matrix has its own scale; biases and all arithmetic between products stay float32. The new model cannot be trained
    further: keep MODEL. To see how much quality int8 costs, compare nmt-evaluate of both.

    --bits 4 halves the file once more: blocks of 32 weights share a scale. Such a model is computed in int8; single
    sentences are faster on processors with VNNI. It is for phones and pages that download it.

    \b
    Examples:
        nmt-quantize runs/de-en -o runs/de-en-int8
        nmt-quantize runs/de-en --bits 4 -o runs/de-en-4-bits
        nmt-evaluate runs/de-en-int8 --src test.de --ref test.en
    """
    from nmt.storage.model_folder import BEST_NAME
    from nmt.storage.saved_model import load_saved_model, save_quantised

    saved, out = load_saved_model(model_dir, checkpoint, cells=cells), Path(output)
    if "quantization" in saved.content:
        raise CheckpointError(f"{model_dir}: must be a model in float32, got one in int8; copy it, or use it as it is")
    save_quantised(out, saved, int(bits))
    size = (out / BEST_NAME).stat().st_size
    former = sum(array.nbytes for array in saved.params.values())
    tell(f"{output}: {size:,} bytes of parameters, from {former:,}")
