"""Prepare a round, as a child process: hold out the test, and write the texts that `nmt-train` reads.
`python -m nmt.studio.preparing FOLDER ROUND`. Pairs are held out by hash and not by chance: a sentence that comes again
tomorrow lands in the same place, and what was once held out is never trained on."""

from __future__ import annotations

import re
import sqlite3
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Any

from nmt.data.quality.overlap import Likeness, OverlapIndex
from nmt.data.tokens.factors import is_word
from nmt.studio.errors import Refused
from nmt.studio.projects import HELD, TEXTS, Project, write_json
from nmt.studio.texts import pairs_of
from nmt.system.files import write_bytes

LEAST_PAIRS = 30
_WORDS_SHARE = 0.9
_CHUNK = 4096
MEMORY = "learning.sqlite"
CORRECTIONS = "corrections.tsv"
"""The confirmed pairs, in the folder of the texts; written before a round is prepared."""

KINDS = ("test", "dev")
MOST, LEAST, SHARE = 500, 20, 0.05
"""Pairs of each kind: at most, at least of the test, and the share of all that each takes."""
_WORDS = re.compile(r"[\W_]+")

Pair = tuple[str, str]


def key_of(text: str) -> str:
    """Return a sentence without case, spaces and signs, by which equal ones are found; itself if nothing is left. Of a
    word with features it is the word, so that all its forms are held out together."""
    text = text.split()[0] if is_word(text) else text
    return _WORDS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip() or text.strip()


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


class HeldOut:
    """The held-out texts of a project, in `held/`."""

    def __init__(self, folder: Path) -> None:
        self._files = {kind: folder / f"{kind}.tsv" for kind in KINDS}
        self.pairs = {kind: read_pairs(file) for kind, file in self._files.items()}

    def grow(self, pairs: Sequence[Pair]) -> None:
        """Add what the pairs of a new round add, and write it. What is there stays, first and in order; nothing that
        an earlier round was trained on is added, since the highest rank never rises."""
        first: dict[str, Pair] = {}
        for pair in pairs:
            first.setdefault(key_of(pair[0]), pair)
        ranked: dict[str, list[tuple[float, str]]] = {kind: [] for kind in KINDS}
        for key in first.keys() - self.keys().keys():
            digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            ranked[KINDS[digest[0] & 1]].append((int.from_bytes(digest[1:], "big") / 2**56, key))
        for kind, file in self._files.items():
            order, there = sorted(ranked[kind]), len(self.pairs[kind])
            count = min(MOST - there, sum(rank < SHARE * len(KINDS) for rank, _ in order))
            if kind == "test":  # of few pairs, more
                count = max(count, min(LEAST, len(first) // 4) - there)
            self.pairs[kind] += [first[key] for _, key in order[: max(0, count)]]
            write_pairs(file, self.pairs[kind])

    def keys(self) -> dict[str, str]:
        """Return the kind of each held-out sentence of the first side, by its key."""
        return {key_of(pair[0]): kind for kind in KINDS for pair in self.pairs[kind]}

    def without(self, pairs: Iterable[Pair], sources: int) -> list[Pair]:
        """Return the pairs to train on: none whose first side, or whose source, is held out."""
        first = self.keys()
        other = {key_of(pair[sources]) for kind in KINDS for pair in self.pairs[kind]} if sources else set()
        return [pair for pair in pairs if key_of(pair[0]) not in first and key_of(pair[sources]) not in other]


def prepare(folder: Path, number: int) -> dict[str, Any]:
    """Write the texts of a round; return what its record says of them. Raises Refused."""
    project = Project(folder)
    source, target = project.record(number)["direction"]
    pairs = list(dict.fromkeys(pairs_of(project)))
    corrected = read_pairs(folder / TEXTS / CORRECTIONS)
    if len(pairs) < LEAST_PAIRS:
        raise Refused("too-few", least=LEAST_PAIRS, pairs=len(pairs))
    held = HeldOut(folder / HELD)
    held.grow(pairs)
    words = sum(is_word(pair[source]) for pair in pairs) >= _WORDS_SHARE * len(pairs)
    texts = {
        "train": _unlike(held, held.without(pairs, source), source, words=words),
        "corrections": held.without(corrected, source),
        "dev": held.pairs["dev"],
        "test": held.pairs["test"],
    }
    codes = project.codes
    for name, of_text in texts.items():
        for side in (0, 1):
            content = "".join(f"{pair[side]}\n" for pair in of_text)
            write_bytes(project.round_file(number, f".{name}.{codes[side]}"), content.encode(), sync=True)
    former = max((one for one in project.rounds() if one < number), default=None)
    before = set() if former is None else set(zip(*lines_of(project, former, "train"), strict=True))
    facts = {"pairs": len(texts["train"]), "corrections": len(texts["corrections"]), "words": words, "codes": codes}
    facts |= {"new": sum(pair not in before for pair in texts["train"]), "all_pairs": len(pairs)}
    facts |= {"held": {kind: len(texts[kind]) for kind in ("dev", "test")}}
    return facts


def _unlike(held: HeldOut, pairs: list[Pair], source: int, *, words: bool) -> list[Pair]:
    """Return the pairs whose sources are not nearly those of a held-out one. Of single words all are alike."""
    if words:
        return pairs
    index = OverlapIndex([pair[source] for of_kind in held.pairs.values() for pair in of_kind], every=True)
    alike: set[int] = set()
    for start in range(0, len(pairs), _CHUNK):
        lines = [pair[source] for pair in pairs[start : start + _CHUNK]]
        alike |= {start + match.number for match in index.find(lines) if match.likeness >= Likeness.NEAR}
    return [pair for number, pair in enumerate(pairs) if number not in alike]


def lines_of(project: Project, number: int, name: str) -> list[list[str]]:
    """Return both sides of a text of a round, in the order of the project."""
    record = project.record(number)
    files = [project.round_file(number, f".{name}.{code}") for code in record.get("codes") or project.codes]
    return [file.read_text(encoding="utf-8").split("\n")[:-1] if file.is_file() else [] for file in files]


def corrections(project: Project, loaded: dict[Path, Callable[[], list[Pair]]] | None = None) -> list[Pair]:
    """Return the pairs that were confirmed, in the order of the project's sides. `loaded`: for each memory that is in
    use, and so is locked, a function that returns its pairs."""
    found: dict[Pair, None] = {}
    for number in project.rounds():
        path = project.round_file(number) / MEMORY
        source, _ = project.record(number).get("direction", (0, 1))
        if (in_use := (loaded or {}).get(path)) is not None:
            pairs = in_use()
        elif path.is_file():
            with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as memory:
                pairs = memory.execute(
                    "SELECT source, target FROM pairs WHERE state != 'undone' ORDER BY number"
                ).fetchall()
        else:
            continue
        found |= dict.fromkeys((other, one) if source else (one, other) for one, other in pairs)
    return list(found)


def main() -> None:
    """Prepare the round that the arguments name."""
    folder, number = Path(sys.argv[1]), int(sys.argv[2])
    project = Project(folder)
    record = project.record(number)
    try:
        record |= {"prepared": True} | prepare(folder, number)
    except Refused as error:
        record["error"] = error.to_dict()
    write_json(project.round_file(number, ".json"), record)
    sys.exit(1 if record.get("error") else 0)


if __name__ == "__main__":
    main()
