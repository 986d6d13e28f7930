"""Aligns the symbols of both sides of a corpus of words, for training.guided_alignment.

    python data_scripts/letter_alignment.py data/x/train.letters data/x/train.sounds -o data/x/train.align

Symbols are between spaces; a line of the output is `0-0 1-2`: symbol of the source, symbol of the target, from 0, as
data.alignment expects.

Each symbol of the target is aligned with one of the source, never behind the one before it. Which symbols belong
together is learned from the text itself by hard expectation maximisation (the best path is counted, as in Viterbi
training), from counts near the diagonal.
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from text_files import fail, read_lines, write_aside

ROUNDS = 8
"""Rounds of expectation maximisation."""
_UNSEEN = 1e-3
"""Probability of a pair of symbols that was never aligned."""

Words = Sequence[Sequence[str]]
Alignment = list[tuple[int, int]]
"""Pairs of positions in source and target."""


def _step(distance: int) -> float:
    """The logarithm of the probability of going on by so many source symbols."""
    return math.log(0.3) if distance == 0 else math.log(0.6) if distance == 1 else math.log(0.1) - (distance - 2)


def best_path(source: Sequence[str], target: Sequence[str], shares: dict[tuple[str, str], float]) -> Alignment:
    """Returns the most probable monotone alignment; `shares` are the probabilities of target symbols by source ones."""
    back: list[list[int]] = []
    scores: list[float] = []
    for j, symbol in enumerate(target):
        emitted = [math.log(shares.get((letter, symbol), 0.0) + _UNSEEN) for letter in source]
        if j == 0:
            scores = [emitted[i] + _step(i + 1) for i in range(len(source))]
            continue
        came = [max(range(i + 1), key=lambda k: scores[k] + _step(i - k)) for i in range(len(source))]
        scores = [emitted[i] + scores[k] + _step(i - k) for i, k in enumerate(came)]
        back.append(came)
    if not scores:
        return []
    i = max(range(len(source)), key=lambda k: scores[k] + _step(len(source) - k))
    path = [(i, len(target) - 1)]
    for j in range(len(target) - 2, -1, -1):
        i = back[j][i]
        path.append((i, j))
    return path[::-1]


def monotone(sources: Words, targets: Words) -> list[Alignment]:
    """Returns monotone alignments of all pairs of words."""
    counts: dict[tuple[str, str], float] = defaultdict(float)
    for source, target in zip(sources, targets, strict=True):
        for j, symbol in enumerate(target):
            for i, letter in enumerate(source):
                counts[letter, symbol] += math.exp(-6 * abs(i / len(source) - j / len(target)))
    found: list[Alignment] = []
    for _ in range(ROUNDS):
        totals: dict[str, float] = defaultdict(float)
        for (letter, _symbol), count in counts.items():
            totals[letter] += count
        shares = {pair: count / totals[pair[0]] for pair, count in counts.items()}
        found = [
            best_path(source, target, shares) if source else [] for source, target in zip(sources, targets, strict=True)
        ]
        counts = defaultdict(float)
        for source, target, path in zip(sources, targets, found, strict=True):
            for i, j in path:
                counts[source[i], target[j]] += 1
    return found


def lines_of(paths: list[Alignment]) -> bytes:
    """Returns alignments as text, one a line."""
    return "".join(" ".join(f"{i}-{j}" for i, j in path) + "\n" for path in paths).encode()


def main() -> None:
    """Reads both sides and writes the alignment."""
    parser = argparse.ArgumentParser(description="Align the symbols of both sides of a corpus of words.")
    parser.add_argument("source", type=Path, help="file of the source, symbols between spaces")
    parser.add_argument("target", type=Path, help="file of the target")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file to write")
    options = parser.parse_args()
    sources, targets = ([line.split() for line in read_lines(path)] for path in (options.source, options.target))
    if len(sources) != len(targets):
        fail(f"{options.target}: must have {len(sources)} lines, as {options.source}, got {len(targets)}; pair them")
    write_aside(options.output, lines_of(monotone(sources, targets)))


if __name__ == "__main__":
    main()
