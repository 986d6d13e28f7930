"""Make the package of a model: one file with its module of WebAssembly, its description and its arrays. It begins with
the bytes `NMTWEB1\\n` and the length of a JSON text, uint32; the text and the contents of the arrays follow, each at a
multiple of 64 bytes. It is made in a process of its own, as a process compiles for one level of processors."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nmt.exporting.checks import OPTIONS, bounds
from nmt.exporting.elsewhere import compiled, run_for_level
from nmt.exporting.subword_tables import tables_of
from nmt.exporting.web.wasm_module import Module, ModulePart, link
from nmt.model.translation_program import TranslationProgram
from nmt.rnn.arrays.weights import BLOCK
from nmt.rnn.kernels.program.run_program import PROGRAM, Phase, run_program
from nmt.rnn.kernels.search.beam_table import SEARCH, Status
from nmt.rnn.kernels.search.token_rules import NUMBERS, REALS
from nmt.search_settings import MAX_SOURCE_SUBWORDS
from nmt.storage import four_bits
from nmt.storage.model_folder import confidence_tensors

if TYPE_CHECKING:
    from nmt.config import Config

START = b"NMTWEB1\n"
_LINE = 64
_IMPORTS = ("exp", "nmt_allocate", "nmt_free", "nmt_sleep", "nmt_yield_processor")


def make_package(path: str, checkpoint: str | None, cells: Sequence[str], compute_dtype: str) -> bytes:
    """Return the package of a model, made by a process of the level `wasm`; arguments as in `load_saved_model`."""
    asked = {"path": path, "checkpoint": checkpoint, "cells": list(cells), "compute_dtype": compute_dtype}
    return run_for_level(__name__, "wasm", asked)


def _package_here(asked: dict[str, Any]) -> bytes:
    """Return the package, in a process of the level `wasm`."""
    from nmt.storage.saved_model import load_saved_model

    saved = load_saved_model(asked["path"], asked["checkpoint"], cells=asked["cells"])
    program = saved.build(asked["compute_dtype"]).program(forced=True)
    program.pack()
    found = compiled([run_program, *program.functions.values()], "WebAssembly")
    module = link(
        [ModulePart(record.code, record.facts["entry"], symbol) for record, symbol in found.values()], _IMPORTS
    )
    sides = {"src": saved.src_subwords, "tgt": saved.tgt_subwords}
    arrays = program.arrays_by_name | {"program": program.code}
    is_joint = sides["src"].model_bytes == sides["tgt"].model_bytes
    subwords = {}
    for side, one in sides.items():
        subwords[side], more = tables_of(one, "subwords" if is_joint else f"subwords.{side}")
        arrays |= more
    if saved.calibration is not None:
        arrays |= confidence_tensors(saved.calibration)
    facts = {
        **_settings(saved.config),
        "name": Path(asked["path"]).stem,
        "program": _program(program, module),
        "subwords": {"src": subwords["src"]} if is_joint else subwords,
    }
    return pack(facts, arrays | {"module": np.frombuffer(module.code, np.uint8)}, in_4_bits=saved.in_4_bits)


def _program(program: TranslationProgram, module: Module) -> dict[str, Any]:
    """Return what the host needs to run a program."""
    return {
        "run": module.addresses[run_program.entry],
        "size": program.size,
        "places": PROGRAM.places,
        "search": SEARCH.places,
        "phases": {phase.name: int(phase) for phase in Phase},
        "statuses": {status.name: int(status) for status in Status},
        "functions": [[place, module.addresses[native.entry]] for place, native in program.functions.items()],
        "arrays": [*program.arrays.items()],
        "before": int(program.boundaries["before"] >= 0),
        "after": int(program.boundaries["after"] >= 0),
        "forced": program.forced,
        "rules": {"numbers": NUMBERS, "reals": REALS},
    }


def _settings(config: Config) -> dict[str, Any]:
    """Return the settings of text and search that the host reads."""
    data, decoding = config.data, config.decoding
    sides = {"src": data.src, "tgt": data.tgt}
    return {
        "languages": {name: side.lang for name, side in sides.items()},
        "clean": {name: [side.lowercase, side.normalize] for name, side in sides.items()},
        "decoding": {row.name: getattr(decoding, row.name) for row in OPTIONS},
        "bounds": {row.name: [*bounds(row), row.kind is int] for row in OPTIONS if row.kind is not bool},
        "most_source": MAX_SOURCE_SUBWORDS,
    }


def pack(facts: dict[str, Any], arrays: dict[str, np.ndarray], *, in_4_bits: bool = False) -> bytes:
    """Return a package; facts have each array's place, type and size, and of 4 bits the shape, axis and block, too."""
    places, contents, at = dict[str, Any](), list[bytes](), 0
    for name, array in arrays.items():
        places[name] = [at, array.dtype.str[1:], array.size]
        found = four_bits.pack(array) if in_4_bits and array.dtype == np.int8 and array.ndim == 2 else None
        if found is None:
            contents.append(array.tobytes())
        else:
            codes, factors, axis = found
            places[name] += [*array.shape, axis, BLOCK]
            contents.append(codes.tobytes() + factors.tobytes())
        contents[-1] += bytes(-len(contents[-1]) % _LINE)
        at += len(contents[-1])
    text = json.dumps(facts | {"arrays": places}, ensure_ascii=False, separators=(",", ":")).encode()
    head = START + len(text).to_bytes(4, "little") + text
    return head + bytes(-len(head) % _LINE) + b"".join(contents)


if __name__ == "__main__":
    sys.stdout.buffer.write(_package_here(json.load(sys.stdin)))
