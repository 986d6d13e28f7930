"""Prepare a round, as a child process: hold out the test, and write the texts that `nmt-train` reads.
`python -m nmt.studio.preparing FOLDER ROUND`."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from nmt.data.quality.overlap import Likeness, OverlapIndex
from nmt.data.tokens.factors import is_word
from nmt.studio.errors import Refused
from nmt.studio.held import HeldOut, Pair, key_of, read_pairs
from nmt.studio.projects import HELD, TEXTS, Project, write_json
from nmt.studio.texts import pairs_of
from nmt.system.files import write_bytes

LEAST_PAIRS = 30
_WORDS_SHARE = 0.9
_CHUNK = 4096
MEMORY = "learning.sqlite"
CORRECTIONS = "corrections.tsv"
"""The confirmed pairs, in the folder of the texts; written before a round is prepared."""


def prepare(folder: Path, number: int) -> dict[str, Any]:
    """Write the texts of a round; return what its record says of them. Raises Refused."""
    project = Project(folder)
    record = project.record(number)
    source, target = record["direction"]
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
    before = set() if former is None else set(train_of(project, former))
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


def train_of(project: Project, number: int) -> list[Pair]:
    """Return the pairs that a round was trained on."""
    return list(zip(*lines_of(project, number, "train"), strict=True))


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


def unseen_words(train: list[str], lines: list[str]) -> list[list[str]]:
    """Return for each line its words that the training text does not have."""
    known = {word for line in train for word in key_of(line).split()}
    return [list(dict.fromkeys(word for word in key_of(line).split() if word not in known)) for line in lines]


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
