"""Pretrained embeddings: `training.src_embeddings` and `training.tgt_embeddings`.

The files have the text format of word2vec and GloVe: one line per word, with the word and its numbers separated by
spaces. Files of word2vec and fastText begin with a line of two numbers: the number of words and the vector size.
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
    """Copy the vectors in the configured files into the embedding tables of a new model.

    Tokens that a file does not contain keep their random initial values. Raises DataError if a file is not in this
    format, or its vectors have another size than the table's.

    Args:
        config: The settings; if they name no files, nothing is done.

    Returns:
        A line for each table: how many of its tokens were found.
    """
    report = []
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
        report.append(f"{name}: {len(found):,} of {len(table):,} subwords start with vectors from {path}")
    if report:
        model.changed()
    return report


def read_vectors(path: str, units: list[str], size: int) -> dict[int, np.ndarray]:
    """Return the vectors, [size] float32, of the tokens that a file contains, by token number.

    A token that begins a word (`▁house`) is looked up as `▁house` if any entry of the file begins with `▁`, otherwise
    as `house`. A token within words (`ing`) is looked up only in a file of the first kind; in others, `ing` is a word
    of its own. If a word has several lines, the first counts. Raises DataError if the file cannot be read, is not in
    this format, or has vectors of another size.
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
    """Store the vector of a line, if its word is wanted and was not found before."""
    unit = wanted.get(parts[0])
    if unit is None or unit in found:
        return
    try:
        vector = np.array(parts[1:], np.float32)
    except ValueError:
        vector = np.full(1, np.nan, np.float32)
    if not np.isfinite(vector).all():
        raise DataError(f"{path}, line {number}: must be a word and numbers after it, got {' '.join(parts)!r:.60}")
    found[unit] = vector


def _check_header(path: str, line: str, size: int) -> None:
    """Check the first line of word2vec's format. Raises DataError."""
    count, _, given = line.strip().partition(" ")
    if not (count.isdecimal() and given.isdecimal()):
        _refuse(path, 1, line, size)
    if int(given) != size:
        raise DataError(
            f"{path}: must have vectors of {size} numbers, the value of embedding_dim, got {given}; set embedding_dim: "
            f"{given}, or give another file"
        )


def _refuse(path: str, number: int, line: str, size: int) -> None:
    raise DataError(
        f"{path}, line {number}: must be a word and {size} numbers after it, the value of embedding_dim, got "
        f"{len(line.split())} parts, {line!r:.60}; set embedding_dim to the file's, or give text in the form of "
        "word2vec or GloVe"
    )
