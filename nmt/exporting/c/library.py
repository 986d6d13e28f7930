"""Build a library for C: compile the host and link it with the functions of each level of processors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nmt.errors import CheckpointError
from nmt.exporting.c import building
from nmt.exporting.c.level import MODEL_NAME
from nmt.exporting.c.text_writer import obstacle_here
from nmt.exporting.checks import check_exported
from nmt.system.files import new_folder, write_bytes, writing
from nmt.system.paths import check_new_folder

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

_HERE = Path(__file__).parent
_SHARED = ("text_tables.h", "model.h", MODEL_NAME)
"""Files that are the same for all levels."""
HEADER, EXAMPLE = "translator.h", "example.c"


def check_library(saved: SavedModel) -> None:
    """Raise CheckpointError if a model cannot become a library."""
    check_exported(saved, "C")
    for side, subwords in (("source", saved.src_subwords), ("target", saved.tgt_subwords)):
        if why := obstacle_here(subwords):
            raise CheckpointError(f"{saved.path}: the {side}'s subwords must be unigram or bpe for C, got {why}")


def save_library(
    out: Path,
    path: str,
    checkpoint: str | None,
    saved: SavedModel,
    compute_dtype: str,
    only: Sequence[str] = (),
    *,
    inside: bool = False,
) -> None:
    """Write a new folder with libraries, a header, an example and the model's file; `path`, `checkpoint`: as in
    `load_saved_model`; only: levels, all if empty; inside: without a file of the model. Raises ConfigError."""
    check_new_folder(out)
    compiler = building.Compiler()
    levels = building.levels_of(compiler, only, int8=compute_dtype == "int8")
    with writing(out), TemporaryDirectory(prefix="nmt-") as work, new_folder(out) as folder:
        asked: dict[str, Any] = {
            "path": path,
            "checkpoint": checkpoint,
            "cells": list(saved.cells),
            "compute_dtype": compute_dtype,
        }
        objects = [_level(compiler, Path(work) / name, asked) for name in levels]
        building.save_libraries(compiler, _host(compiler, Path(work), levels, objects, inside), folder)
        if not inside:
            write_bytes(folder / MODEL_NAME, (Path(work) / next(iter(levels)) / MODEL_NAME).read_bytes())
        example = (_HERE / EXAMPLE).read_text("utf-8")
        example = example.replace(f'"{MODEL_NAME}"', "NULL").replace(f" {MODEL_NAME}", "") if inside else example
        write_bytes(folder / EXAMPLE, example.encode())
        write_bytes(folder / HEADER, (_HERE / HEADER).read_bytes(), sync=True)


def _level(compiler: building.Compiler, folder: Path, asked: dict[str, Any]) -> Path:
    """Compile the functions of a level, and link them with the host's part to one object that has one symbol."""
    compiled = building.compiled_objects(compiler, folder, "nmt.exporting.c.level", asked)
    engine = folder / "engine.o"
    compiler.run(*building.FLAGS, f"-I{folder}", "-c", _HERE / "engine.c", "-o", engine)
    return building.joined(compiler, [engine, *compiled], [f"nmt_level_{folder.name}"], folder / "whole.o")


def _host(compiler: building.Compiler, work: Path, levels: dict[str, str], objects: list[Path], inside: bool) -> Path:
    """Compile the rest of the host and link it with all levels to one object that has the symbols of the header."""
    first, *others = (work / level for level in levels)
    for name in _SHARED:
        if any((one / name).read_bytes() != (first / name).read_bytes() for one in others):
            raise RuntimeError(f"all levels must have the same {name}")
    (first / "levels.h").write_text(building.levels_text(compiler, levels))
    held = building.constant_bytes(compiler, "nmt_model_bytes", first / MODEL_NAME) if inside else ""
    (first / "inside.h").write_text(
        f"{held}static const char *const nmt_model_inside = {'nmt_model_bytes' if inside else 'NULL'};\n"
    )
    made = [first / f"{name}.o" for name in ("api", "text", "details")]
    for one in made:
        compiler.run(*building.FLAGS, f"-I{first}", f"-Wa,-I{first}", "-c", _HERE / f"{one.stem}.c", "-o", one)
    public = re.findall(r"\b(nmt_\w+)\(", (_HERE / HEADER).read_text("utf-8"))
    return building.joined(compiler, [*made, *objects], public, work / "translator.o")
