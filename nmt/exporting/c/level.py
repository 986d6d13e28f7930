"""Write what one level of processors adds to a library, in a process that compiles for it. It reads JSON: the model (as
`load_saved_model` takes it), the type of its products, and an empty folder, which gets object files of all functions,
plan.h, and what all levels have in common: text_tables.h, model.h and the model's file."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.exporting.c.plan_writer import braced, plan_text
from nmt.exporting.c.text_writer import subword_tables, text_tables
from nmt.exporting.checks import OPTIONS, bounds
from nmt.exporting.elsewhere import write_objects
from nmt.rnn.kernels.search.token_rules import NUMBERS, REALS
from nmt.search_settings import MAX_SOURCE_SUBWORDS
from nmt.system.files import write_bytes

if TYPE_CHECKING:
    import numpy as np

    from nmt.config import Config

MODEL_NAME = "model.bin"
_LINE = 64
_START = b"NMTC1 "
_PENALTIES = {"none": 0.0, "average": -1.0}


def _write(asked: dict[str, Any]) -> dict[str, Any]:
    """Write the files of this level; return the names of its symbols in the library."""
    from nmt.rnn.kernels.machine_code.features import TARGET
    from nmt.rnn.kernels.program.run_program import run_program
    from nmt.storage.saved_model import load_saved_model

    saved, folder = load_saved_model(asked["path"], asked["checkpoint"], cells=asked["cells"]), Path(asked["folder"])
    program = saved.build(asked["compute_dtype"]).program(forced=True)
    program.pack()
    source, target, cleaning = saved.src_subwords, saved.tgt_subwords, saved.config.data.src
    subwords = [subword_tables(source, "~src")]
    subwords += [subword_tables(target, "~tgt") if target.model_bytes != source.model_bytes else subwords[0]]
    arrays = program.arrays_by_name | subwords[0][1] | subwords[1][1]
    content, places = _content({name: arrays[name] for name in sorted(arrays)})
    natives = [run_program, *program.functions.values()]
    named = {native.entry: native.symbol or f"nmt_function_{n}" for n, native in enumerate(natives)}
    write_bytes(folder / "plan.h", plan_text(program, TARGET.name, named, places).encode())
    named |= write_objects(natives, TARGET.name, named, folder)
    write_bytes(folder / "text_tables.h", text_tables(cleaning.normalize, lowercase=cleaning.lowercase).encode())
    fields = [_subwords(one, places) for one, _ in subwords]
    write_bytes(folder / "model.h", _model(saved.config, content, fields).encode())
    write_bytes(folder / MODEL_NAME, content)
    return {"names": named}


def _content(arrays: dict[str, np.ndarray]) -> tuple[bytes, dict[str, int]]:
    """Return the file of a model, which begins with a line that names its content, and the place of each array."""
    places, content = dict[str, int](), bytearray(_LINE)
    for name, array in arrays.items():
        places[name] = len(content)
        content += array.tobytes() + bytes(-array.nbytes % _LINE)
    content[:_LINE] = (_START + hashlib.sha256(content).hexdigest().encode())[: _LINE - 1] + b"\n"
    return bytes(content), places


def _subwords(fields: dict[str, Any], places: dict[str, int]) -> str:
    at = [places[name] for name in fields["arrays"]]
    return braced([*fields["flags"], *fields["counts"], *fields["scores"], *at, fields["map_size"]])


def _number(value: Any) -> str:
    return repr(float(value) if isinstance(value, float) else int(value))


def _model(config: Config, content: bytes, subwords: list[str]) -> str:
    """Return model.h."""
    decoding = config.decoding
    values = {row.name: getattr(decoding, row.name) for row in OPTIONS}
    values["length_penalty"] = _PENALTIES.get(str(decoding.length_penalty), decoding.length_penalty)
    rules = [f"X({', '.join([row.name, *map(_number, bounds(row))])})" for row in OPTIONS]
    given = dict.fromkeys((*NUMBERS, *REALS), "0") | {name: f"o->{name}" for name in values}
    sides = [(side.lowercase, side.normalize) for side in (config.data.src, config.data.tgt)]
    both = zip(("source", "target"), subwords, strict=True)
    return "".join(
        [
            f'#define MODEL_ID "{content[: _LINE - 1].decode()}"\n#define MODEL_BYTES {len(content)}\n',
            f"#define DEFAULTS {braced(f'.{name} = {_number(value)}' for name, value in values.items())}\n",
            f"#define OPTIONS(X) {' '.join(rules)}\n",
            f"#define RULE_NUMBERS(o) (const int64_t[]){braced(given[name] for name in NUMBERS)}\n",
            f"#define RULE_REALS(o) (const double[]){braced(given[name] for name in REALS)}\n",
            f"enum {{MOST_SOURCE = {MAX_SOURCE_SUBWORDS}, SAME_CLEANING = {int(sides[0] == sides[1])}}};\n",
            *(f"static const subwords {name}_subwords = {one};\n" for name, one in both),
        ]
    )


if __name__ == "__main__":
    json.dump(_write(json.load(sys.stdin)), sys.stdout)
