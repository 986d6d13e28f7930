"""Align two texts of unequal numbers of lines by the lengths of the lines (Gale and Church 1993): a short one is
translated by a short one, and few are joined, split or missing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_VARIANCE, _FAR = 6.8, 100.0
"""Variance of the letters that translate a letter, as they measured it; most that a group can cost by its lengths."""
_GROUPS = {(1, 1): 0.89, (1, 0): 0.005, (0, 1): 0.005, (2, 1): 0.0445, (1, 2): 0.0445, (2, 2): 0.011}
"""Numbers of lines that belong together, of both sides, with their probabilities."""
_ROOM, _MOST_ROOM = 60, 1000
"""Lines by which a place may be off the straight way, in addition to the difference of both numbers; at most."""
SURE = 0.8
"""Least share of groups of one line each in two texts that are taken for the same."""

Group = tuple[tuple[int, int], tuple[int, int]]


def align(one: Sequence[str], other: Sequence[str]) -> list[Group]:
    """Return which lines belong together, as first and end of both sides, in order. The best way to a place, a line of
    each side, is that to an earlier place and one group; places are visited along diagonals, all of one at a time."""
    sums = [np.cumsum([0, *map(len, side)], dtype=np.float64) for side in (one, other)]
    rows, columns = len(one), len(other)
    ratio = max(1.0, sums[1][-1]) / max(1.0, sums[0][-1])
    room = min(_MOST_ROOM, _ROOM + abs(rows - columns))
    costs = {0: np.zeros(1)}  # of the last diagonals
    chosen = [(0, np.zeros(1, np.int8))]  # of each diagonal: its first row, and the group at each of its places
    for diagonal in range(1, rows + columns + 1):
        middle = diagonal * rows // (rows + columns)
        first, end = max(0, diagonal - columns, middle - room), min(rows, diagonal, middle + room) + 1
        row = np.arange(first, end)
        column, ways = diagonal - row, []
        for (down, right), share in _GROUPS.items():
            before = np.full(end - first, np.inf)
            if diagonal >= down + right:
                start, known = chosen[diagonal - down - right][0], costs[diagonal - down - right]
                low, high = max(first, start + down), min(end, start + down + len(known))
                before[low - first : max(low, high) - first] = known[low - start - down : max(low, high) - start - down]
            letters = sums[0][row] - sums[0][np.maximum(row - down, 0)]
            theirs = (sums[1][column] - sums[1][np.maximum(column - right, 0)]) / ratio
            far = (ratio * (theirs - letters)) ** 2 / (_VARIANCE * np.maximum(letters + theirs, 2.0))
            ways.append(before + np.minimum(far, _FAR) - np.log(share))
        costs[diagonal] = np.min(ways, axis=0)
        costs.pop(diagonal - 4, None)
        chosen.append((first, np.argmin(ways, axis=0).astype(np.int8)))
    found: list[Group] = []
    while rows or columns:
        first, groups = chosen[rows + columns]
        down, right = list(_GROUPS)[groups[rows - first]]
        found.append(((rows - down, rows), (columns - right, columns)))
        rows, columns = rows - down, columns - right
    return found[::-1]
