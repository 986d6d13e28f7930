"""Embeddings to start from that were trained elsewhere: `training.src_embeddings` and `training.tgt_embeddings`.

The files are the text form of word2vec and GloVe: a line a word, its numbers behind it, spaces between; word2vec and
fastText begin with a line of two numbers, how many words there are and how many numbers each has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from nmt.data.tokens.subwords import SPECIAL_PIECES
from nmt.errors import DataError
from nmt.special_tokens import SPACE
from nmt.system.lines import read_lines

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.tokens.subwords import Subwords
    from nmt.model.network import Network


def put_embeddings(config: Config, model: Network, subwords: tuple[Subwords, Subwords]) -> list[str]:
    """Put the vectors of the settings' files into the tables of a fresh model.

    Units that a file does not have keep the values they were drawn with.

    Args:
        config: The settings; without files nothing is done.
        model: Changed in place.
        subwords: Of source and target.

    Returns:
        A line for each table: how many of its units were found.

    Raises:
        DataError: A file is none, or its vectors are of another size than the table's.
    """
    said = []
    files = config.training.src_embeddings, config.training.tgt_embeddings
    given = [
        (side, path, units)
        for side, path, units in zip(("src", "tgt"), files, subwords, strict=True)
        if path is not None
    ]
    for name, (path, units) in {model.table(side): (path, units) for side, path, units in given}.items():
        table = np.array(model.device.download(model.params[name]))
        found = read_vectors(path, units.pieces(range(units.vocab_size)), table.shape[1])
        for unit, vector in found.items():
            table[unit] = vector
        model.params[name][...] = model.device.upload(table)
        said.append(f"{name}: {len(found):,} of {len(table):,} units start as in {path}")
    if said:
        model.changed()
    return said


def read_vectors(path: str, units: list[str], size: int) -> dict[int, np.ndarray]:
    """Return the vectors of units that a file has, [size] float32, by the unit's number.

    A unit that begins a word (`▁house`) is the file's `▁house` where any of the file's words begins so, else its
    `house`; a unit within words is what begins no word in a file of the first kind, and is looked up in no other: `ing`
    is another thing there than the word. Of several lines with one word the first counts.

    Raises:
        DataError: The file cannot be read, is no text of vectors, or has vectors of another size.
    """
    of_pieces = {unit: number for number, unit in reversed(list(enumerate(units)))}
    of_words = {unit[1:]: number for unit, number in of_pieces.items() if unit.startswith(SPACE) and unit != SPACE}
    of_words |= {unit: number for number, unit in enumerate(SPECIAL_PIECES)}
    begin_words = False
    pieces: dict[int, np.ndarray] = {}
    words: dict[int, np.ndarray] = {}
    for number, line in enumerate(read_lines(path), start=1):
        parts = line.rstrip().rsplit(" ", size)
        if number == 1 and len(line.split()) == 2:
            _check_header(path, line, size)
            continue
        if len(parts) != size + 1 or not parts[0]:
            _refuse(path, number, line, size)
        begin_words = begin_words or (parts[0].startswith(SPACE) and len(parts[0]) > 1)
        _keep(pieces, of_pieces, parts, path, number)
        _keep(words, of_words, parts, path, number)
    return pieces if begin_words else words


def _keep(found: dict[int, np.ndarray], wanted: Mapping[str, int], parts: list[str], path: str, number: int) -> None:
    """Take the vector of a line, if its word is wanted and was not there before."""
    unit = wanted.get(parts[0])
    if unit is None or unit in found:
        return
    try:
        vector = np.array(parts[1:], np.float32)
    except ValueError:
        vector = np.full(1, np.nan, np.float32)
    if not np.isfinite(vector).all():
        raise DataError(f"{path}, line {number}: must be a word and numbers behind it, got {' '.join(parts)!r:.60}")
    found[unit] = vector


def _check_header(path: str, line: str, size: int) -> None:
    """The first line of word2vec's form."""
    count, _, given = line.strip().partition(" ")
    if not (count.isdecimal() and given.isdecimal()):
        _refuse(path, 1, line, size)
    if int(given) != size:
        raise DataError(
            f"{path}: must have vectors of {size} numbers, as embedding_dim says, got {given}; set embedding_dim: "
            f"{given}, or give another file"
        )


def _refuse(path: str, number: int, line: str, size: int) -> None:
    raise DataError(
        f"{path}, line {number}: must be a word and {size} numbers behind it, as embedding_dim says, got "
        f"{len(line.split())} parts, {line!r:.60}; set embedding_dim to the file's, or give text in the form of "
        "word2vec or GloVe"
    )
