"""Covering arrays: few rows in which every choice of some factors meets every choice of the others.

All products of cells, schedules, types and lengths are too many to run; most mistakes show where two choices meet
(Kuhn et al. 2004, Software Fault Interactions and Implications for Software Testing). Rows are built one at a time,
each around something not yet met, the rest chosen to meet as much as possible (Cohen et al. 1997, The AETG System,
section 4). `strength` is how many factors meet: 2 for all pairs, 3 for all triples.
"""

from itertools import combinations, product

import numpy as np


def meetings(row, strength):
    """All sets of `strength` choices that meet in a row, a dict from factor to choice."""
    return {frozenset(some) for some in combinations(row.items(), strength)}


def all_meetings(groups, strength):
    """What can meet at all. A group is a list of its legal parts of a row, each a dict; a row takes one of each."""
    found = set()
    # Each meeting takes some factors of some groups: those groups' parts in all ways, cut down to these factors.
    for count in range(1, strength + 1):
        for some in combinations(groups, count):
            cuts = [_cuts(group, strength) for group in some]
            for parts in product(*cuts):
                together = frozenset().union(*parts)
                if len(together) == strength:
                    found.add(together)
    return found


def _cuts(group, strength):
    """All sets of up to `strength` choices that one part of this group holds, at least one."""
    sizes = range(1, strength + 1)
    return {frozenset(some) for part in group for size in sizes for some in combinations(part.items(), size)}


def covering_array(groups, strength=2, seed=0):
    """Rows, dicts from factor to choice, in which everything that can meet meets; the same rows for the same seed."""
    rng = np.random.default_rng(seed)
    missing = all_meetings(groups, strength)
    order = sorted(missing, key=lambda m: sorted(map(str, m)))
    rng.shuffle(order)
    rows = []
    for first in order:
        if first in missing:
            rows.append(_row_around(dict(first), groups, missing, strength, rng))
            missing -= meetings(rows[-1], strength)
    return rows


def _row_around(row, groups, missing, strength, rng):
    """A row with these choices; group after group in random order takes the part that meets most that is missing."""
    for place in rng.permutation(len(groups)):
        fitting = [part for part in groups[place] if all(row.get(name, part[name]) == part[name] for name in part)]
        tried = [fitting[k] for k in rng.permutation(len(fitting))]
        row = max(({**row, **part} for part in tried), key=lambda now: len(missing & meetings(now, strength)))
    return row
