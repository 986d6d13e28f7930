"""Read vocabularies next to a model: lines, tokens with their ids in YAML or JSON, or sentencepiece."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nmt.config.yaml_text import parse_written_pairs
from nmt.data.tokens.subwords import Subwords
from nmt.errors import CheckpointError, DataError
from nmt.system.files import explain, read_small

_MOST_BYTES = 2**28
_SENTENCEPIECE = ".spm"


def next_to(folder: Path, named: str) -> Path:
    """Return the file of this name in the folder of a model, ignoring other folders in `named`: those are paths on
    another machine."""
    return folder / Path(named.replace("\\", "/")).name


def read_sentencepiece(path: Path) -> Subwords | None:
    """Return the sentencepiece model in a file that is named like one; None for other files. Raises CheckpointError."""
    if path.suffix != _SENTENCEPIECE:
        return None
    try:
        return Subwords.from_file(path)
    except DataError as error:
        raise CheckpointError(str(error)) from error


def read_units(path: Path) -> list[str]:
    """Return tokens in the order of their ids, from JSON or YAML that maps tokens to ids, or from a text of one token
    per line. Raises CheckpointError if it cannot be read, is something else, or ids leave gaps."""
    try:
        text = read_small(path, _MOST_BYTES).decode()
    except OSError as error:
        raise CheckpointError(
            f"{path}: must be the vocabulary next to the checkpoint, got {explain(error)}; copy it there"
        ) from error
    except ValueError:
        raise CheckpointError(f"{path}: must be text in UTF-8, got other bytes; restore a copy") from None
    if path.suffix == ".json":
        return _by_number(path, _json(path, text))
    if path.suffix in (".yml", ".yaml"):
        return _by_number(path, _yaml(path, text))
    return units_of(text)


def units_of(text: str) -> list[str]:
    """Return the units in a text of one a line. All lines of a text from Windows end in CR LF; else CR is a unit."""
    ending = "\r\n" if text.count("\r\n") == text.count("\n") else "\n"
    return text.removesuffix(ending).split(ending)


def _json(path: Path, text: str) -> list[tuple[Any, Any]]:
    """Return the pairs of a JSON object. Raises CheckpointError."""
    try:
        pairs = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: must be JSON, got {explain(error)[:80]}; restore a copy") from error
    return pairs if isinstance(pairs, list) and all(isinstance(pair, tuple) for pair in pairs) else []


def _yaml(path: Path, text: str) -> list[tuple[Any, Any]]:
    """Return the pairs of a YAML mapping. Raises CheckpointError."""
    try:
        return list(parse_written_pairs(text))
    except ValueError as error:
        raise CheckpointError(f"{path}: must be YAML, got {explain(error)[:80]}; restore a copy") from error


def _by_number(path: Path, pairs: list[tuple[Any, Any]]) -> list[str]:
    """Return the tokens of (token, id) pairs; each id from 0 on must occur once. Raises CheckpointError."""
    found: dict[int, str] = {}
    for unit, number in pairs:
        written = str(number)
        if not isinstance(unit, str) or not written.isdecimal() or not written.isascii() or len(written) > 9:
            raise CheckpointError(f"{path}: must give each unit a number, got {unit!r:.40}: {number!r:.40}")
        found[int(written)] = unit
    if not pairs or len(found) != len(pairs) or max(found) != len(pairs) - 1:
        raise CheckpointError(
            f"{path}: must number its units from 0 on, each number once, got {len(pairs):,} units and "
            f"{len(found):,} numbers up to {max(found, default=0):,}"
        )
    return [found[n] for n in range(len(found))]
