"""nmt-export: write a model in formats that do not need nmt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nmt.cli.lines.streams import check_page, tell
from nmt.cli.options.command import Command, cells_option, checkpoint_option, chooses, flag
from nmt.cli.options.path_types import INPUT, NEW_PLACE, writes
from nmt.errors import ConfigError
from nmt.system.paths import check_new_folder, check_output

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

_COMPILED = ("web", "web-module", "c")


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@writes(
    "-o",
    "--output",
    kind=NEW_PLACE,
    metavar="PATH",
    required=True,
    text="New folder for the exported model; for web, the page to write.",
)
@chooses("--to", "form", among=["numpy", "onnx", *_COMPILED], required=True, text="Export format.")
@chooses(
    "--compute-dtype",
    among=["float32", "int8"],
    show_default="int8",
    text="For web, web-module and c: numbers of the matrices and their products; int8 makes a page a quarter as large.",
)
@flag("--embed", text="For c: put the model into the library, so that there is no file to load.")
@checkpoint_option
@cells_option
def export(
    model_dir: str,
    output: str,
    form: str,
    compute_dtype: str | None,
    embed: bool,
    checkpoint: str | None,
    cells: tuple[str, ...],
) -> None:
    """Export a model to a web page, C, NumPy or ONNX, to run without nmt.

    --to web writes one page that translates in a browser without a server, and sends nothing anywhere. It contains the
    compiled model, its subwords, beam search and alignments. --to web-module writes a folder with a module for
    JavaScript, translator.mjs, for pages of your own and for Node. Both take recurrent translators with subwords of
    sentencepiece.

    --to c writes a folder with a library for programs in C or any language that calls C: libtranslator.a and .so,
    translator.h, the model's file and an example. It needs only libc and libm, and takes the models that the web takes.
    Building it takes a C compiler, cc or the one that the variable CC names, which may be one for aarch64, Windows
    (x86_64-w64-mingw32-gcc) or macOS (zig, see docs/deploy.md). --embed puts the model into the library.

    --to numpy writes weights.npz, model.json with settings and tokens, and plain_numpy.py: one page of code that needs
    only NumPy, translates greedily and scores. It is slow, and meant to be read. It takes LSTM or GRU cells, float32.

    --to onnx writes encoder.onnx (a batch of sources), decoder.onnx (one step of the decoder) and run_onnx.py, one page
    of code that translates with them in ONNX Runtime (pip install onnxruntime). Writing needs the extra [onnx].

    Both scripts read and write subwords separated by spaces, as the library sentencepiece makes them with the .spm
    files written next to them. run_onnx.py --text does that itself if the library is installed.

    \b
    Examples:
        nmt-export runs/de-en -o translator.html --to web
        nmt-export runs/de-en -o de-en-web --to web-module
        nmt-export runs/de-en -o de-en-c --to c
        nmt-export runs/de-en -o de-en-numpy --to numpy
        nmt-export runs/de-en -o de-en-onnx --to onnx
    """
    from nmt.storage.saved_model import load_saved_model

    if compute_dtype is not None and form not in _COMPILED:
        raise ConfigError(f"--compute-dtype: must come with --to web, web-module or c, got --to {form}; leave it out")
    if embed and form != "c":
        raise ConfigError(f"--embed: must come with --to c, got --to {form}; leave it out")
    if output == "-":
        raise ConfigError("--output: must be a file or a folder to write, got the standard output; name a path")
    out = Path(output)
    if form == "web":
        check_output(output, "--output")
        check_page(output, "an earlier page")
    else:
        check_new_folder(out)
    saved = load_saved_model(model_dir, checkpoint, cells=cells)
    if form in _COMPILED:
        _export_compiled(out, form, (model_dir, checkpoint, saved, compute_dtype or "int8"), embed=embed)
        form += f", in {compute_dtype or 'int8'}"
    else:
        _export_script(out, form, saved)
    files = list(out.iterdir()) if out.is_dir() else [out]
    tell(f"{output}: {sum(file.stat().st_size for file in files):,} bytes as {form}")


def _export_compiled(out: Path, form: str, given: tuple[str, str | None, SavedModel, str], *, embed: bool) -> None:
    """Write a page, a module or a library; `given`: the path, the checkpoint, the model, the type of products."""
    saved = given[2]
    if form == "c":
        from nmt.exporting.c.library import check_library, save_library

        check_library(saved)
        save_library(out, *given, inside=embed)
        return
    from nmt.exporting.checks import check_exported
    from nmt.exporting.web.saving import compressed_package, save_module, save_page

    check_exported(saved, "the web")
    package = compressed_package(*given)
    save_page(out, saved, package) if form == "web" else save_module(out, package)


def _export_script(out: Path, form: str, saved: SavedModel) -> None:
    """Write a folder with a script in Python."""
    from nmt.exporting.to_numpy import save_numpy
    from nmt.exporting.to_onnx import save_onnx

    {"numpy": save_numpy, "onnx": save_onnx}[form](out, saved)
    joint = "joint.spm" if (out / "joint.spm").exists() else "src.spm"
    cut = f"SentencePieceProcessor(model_file={joint!r}).encode(line, out_type=str) of the library sentencepiece"
    reads = "python run_onnx.py --text reads text, if sentencepiece is installed; otherwise it and its output are"
    tell(f"{reads if form == 'onnx' else 'plain_numpy.py reads and writes'} subwords, separated by spaces: {cut}")
