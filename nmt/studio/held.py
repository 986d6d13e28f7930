"""Hold pairs out by hash and not by chance: a sentence that comes again tomorrow lands in the same place,
and what was once held out is never trained on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from pathlib import Path

from nmt.data.tokens.factors import is_word
from nmt.system.files import write_bytes

KINDS = ("test", "dev")
MOST, LEAST, SHARE = 500, 20, 0.05
"""Pairs of each kind: at most, at least of the test, and the share of all that each takes."""
_WORDS = re.compile(r"[\W_]+")

Pair = tuple[str, str]


def key_of(text: str) -> str:
    """Return a sentence without case, spaces and signs, by which equal ones are found; itself if nothing is left. Of a
    word with features it is the word, so that all its forms are held out together."""
    text = text.split()[0] if is_word(text) else text
    plain = _WORDS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
    return plain or text.strip()


def place_of(key: str) -> tuple[str, float]:
    """Return the kind that a sentence belongs to if it is held out, and its rank, 0 to 1: the lowest are held out."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return KINDS[digest[0] & 1], int.from_bytes(digest[1:], "big") / 2**56


def read_pairs(path: Path) -> list[Pair]:
    """Return the pairs of a table of two columns; none if it is missing."""
    if not path.is_file():
        return []
    rows = (line.split("\t") for line in path.read_text(encoding="utf-8").split("\n") if line)
    return [(row[0], row[1]) for row in rows if len(row) > 1]


def write_pairs(path: Path, pairs: Iterable[Sequence[str]]) -> None:
    """Write pairs as a table of two columns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, "".join("\t".join(pair) + "\n" for pair in pairs).encode("utf-8", "replace"), sync=True)


def grown(held: dict[str, list[Pair]], pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Return the held-out pairs of both kinds with those that the pairs of a new round add. What is there stays, first
    and in its order; nothing that an earlier round was trained on is added, since the highest rank never rises."""
    first: dict[str, Pair] = {}
    for pair in pairs:
        first.setdefault(key_of(pair[0]), pair)
    there = {key_of(one[0]) for kind in KINDS for one in held[kind]}
    ranked: dict[str, list[tuple[float, str]]] = {kind: [] for kind in KINDS}
    for key in first.keys() - there:
        kind, rank = place_of(key)
        ranked[kind].append((rank, key))
    found = {}
    for kind in KINDS:
        order = sorted(ranked[kind])
        count = min(MOST - len(held[kind]), sum(rank < SHARE * len(KINDS) for rank, _ in order))
        if kind == "test":  # of few pairs, more
            count = max(count, min(LEAST, len(first) // 4) - len(held[kind]))
        found[kind] = [*held[kind], *(first[key] for _, key in order[: max(0, count)])]
    return found


class HeldOut:
    """The held-out texts of a project, in `held/`."""

    def __init__(self, folder: Path) -> None:
        self._files = {kind: folder / f"{kind}.tsv" for kind in KINDS}
        self.pairs = {kind: read_pairs(file) for kind, file in self._files.items()}

    def grow(self, pairs: Sequence[Pair]) -> None:
        """Add what the pairs of a new round add, and write it."""
        self.pairs = grown(self.pairs, pairs)
        for kind, file in self._files.items():
            write_pairs(file, self.pairs[kind])

    def keys(self) -> dict[str, str]:
        """Return the kind of each held-out sentence of the first side, by its key."""
        return {key_of(pair[0]): kind for kind in KINDS for pair in self.pairs[kind]}

    def without(self, pairs: Iterable[Pair], sources: int) -> list[Pair]:
        """Return the pairs to train on: none whose first side, or whose source, is held out."""
        first = self.keys()
        other = {key_of(pair[sources]) for kind in KINDS for pair in self.pairs[kind]} if sources else set()
        return [pair for pair in pairs if key_of(pair[0]) not in first and key_of(pair[sources]) not in other]
