"""nmt-export: write a model in formats that do not need nmt."""

from __future__ import annotations

from pathlib import Path

import click

from nmt.cli.options.command import Command, checkpoint_option, version_option
from nmt.cli.options.path_types import InputPath, NewFolder


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="MODEL_DIR", type=InputPath())
@click.option(
    "-o", "--output", type=NewFolder(), metavar="DIR", required=True, help="New folder for the exported model."
)
@click.option("--to", "form", type=click.Choice(["numpy", "onnx"]), required=True, help="Export format.")
@checkpoint_option()
@version_option()
def export(model_dir: str, output: str, form: str, checkpoint: str | None) -> None:
    """Export the model in MODEL_DIR so that it runs without nmt.

    --to numpy writes weights.npz, model.json with settings and tokens, and plain_numpy.py: one page of code that needs
    only NumPy, translates greedily and scores. It is slow, and meant to be read as an explanation of the model. It
    supports recurrent models of LSTM or GRU cells, in float32.

    --to onnx writes encoder.onnx (a batch of sources), decoder.onnx (one step of the decoder) and run_onnx.py, one page
    of code that translates with them in ONNX Runtime (pip install onnxruntime). Writing needs the extra [onnx].

    Both scripts read and write subwords separated by spaces, as the library sentencepiece makes them from the .spm
    files written next to them; run_onnx.py --text does that itself if the library is installed.

    \b
    Examples:
        nmt-export runs/de-en -o de-en-numpy --to numpy
        nmt-export runs/de-en -o de-en-onnx --to onnx
    """
    from nmt.cli.lines.streams import tell
    from nmt.exporting.to_numpy import save_numpy
    from nmt.exporting.to_onnx import save_onnx
    from nmt.storage.saved_model import load_saved_model

    out = Path(output)
    save = {"numpy": save_numpy, "onnx": save_onnx}[form]
    save(out, load_saved_model(model_dir, checkpoint))
    joint = "joint.spm" if (out / "joint.spm").exists() else "src.spm"
    cut = f"SentencePieceProcessor(model_file={joint!r}).encode(line, out_type=str) of the library sentencepiece"
    reads = "python run_onnx.py --text reads text, if sentencepiece is installed; otherwise it and its output are"
    tell(f"{reads if form == 'onnx' else 'plain_numpy.py reads and writes'} subwords, separated by spaces: {cut}")
    tell(f"{output}: {sum(file.stat().st_size for file in out.iterdir()):,} bytes as {form}")


if __name__ == "__main__":
    from nmt.cli import entry

    entry.export()
