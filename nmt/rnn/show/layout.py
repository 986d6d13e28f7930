"""Where the boxes of a layered drawing go, and how its edges run (Sugiyama, Tagawa and Toda 1981).

Every box has a rank, which is its line in the drawing; edges lead from lower ranks to higher ones. An edge over several
ranks gets a place of its own in each, so that it runs between boxes and not behind them. Within a rank boxes are
ordered by the middle of their neighbours until fewer edges no longer cross, then moved as near to those as boxes of
their widths can be.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

Key = Hashable
_GAP, _LANE = 14.0, 10.0
_SWEEPS, _MOVES = 12, 40


@dataclass(frozen=True)
class Layout:
    """Middles of the boxes from 0 to `width`, and of every edge the points it passes between its two boxes, as
    (rank, x)."""

    x: dict[Key, float]
    bends: dict[tuple[Key, Key], list[tuple[int, float]]]
    width: float


def lay_out(ranks: Mapping[Key, int], widths: Mapping[Key, float], edges: Sequence[tuple[Key, Key]]) -> Layout:
    """Place boxes of these widths. ranks: by box, of which an edge's second has the higher one."""
    lines: dict[int, list[Key]] = {}
    for key, rank in ranks.items():
        lines.setdefault(rank, []).append(key)
    sizes: dict[Key, float] = dict(widths)
    pieces: list[tuple[Key, Key]] = []
    lanes: dict[tuple[Key, Key], list[Key]] = {}
    for edge in edges:
        start, end = edge
        chain = [start]
        for rank in range(ranks[start] + 1, ranks[end]):
            lane = ("lane", edge, rank)
            lines.setdefault(rank, []).append(lane)
            sizes[lane] = 0.0
            chain.append(lane)
        chain.append(end)
        lanes[edge] = chain[1:-1]
        pieces += zip(chain, chain[1:], strict=False)
    above: dict[Key, list[Key]] = {key: [] for key in sizes}
    below: dict[Key, list[Key]] = {key: [] for key in sizes}
    for a, b in pieces:
        above[b].append(a)
        below[a].append(b)
    order = _ordered([lines[rank] for rank in sorted(lines)], above, below)
    x = _spread(order, sizes, above, below)
    low = min((x[k] - sizes[k] / 2 for k in sizes), default=0.0)
    high = max((x[k] + sizes[k] / 2 for k in sizes), default=0.0)
    rank_of = {key: rank for rank, keys in lines.items() for key in keys}
    bends = {edge: [(rank_of[lane], x[lane] - low) for lane in chain] for edge, chain in lanes.items()}
    return Layout({key: x[key] - low for key in ranks}, bends, high - low)


def _ordered(lines: list[list[Key]], above: Mapping[Key, list[Key]], below: Mapping[Key, list[Key]]) -> list[list[Key]]:
    """The lines, each in an order of which few edges cross."""
    best, fewest = [list(line) for line in lines], _crossings(lines, below)
    current = [list(line) for line in lines]
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for n in range(1, len(current)) if down else range(len(current) - 2, -1, -1):
            fixed = {key: i for i, key in enumerate(current[n - 1 if down else n + 1])}
            places = {key: float(i) for i, key in enumerate(current[n])}
            for key in current[n]:
                at = [fixed[other] for other in neighbours[key] if other in fixed]
                if at:
                    places[key] = sum(at) / len(at)
            current[n].sort(key=places.__getitem__)
        _swap(current, above, below)
        crossings = _crossings(current, below)
        if crossings < fewest:
            best, fewest = [list(line) for line in current], crossings
    return best


def _swap(lines: list[list[Key]], above: Mapping[Key, list[Key]], below: Mapping[Key, list[Key]]) -> None:
    """Exchange neighbours wherever fewer edges cross then."""
    for n, line in enumerate(lines):
        up = {key: i for i, key in enumerate(lines[n - 1])} if n else {}
        down = {key: i for i, key in enumerate(lines[n + 1])} if n + 1 < len(lines) else {}
        for i in range(len(line) - 1):
            a, b = line[i], line[i + 1]
            now = crossed = 0
            for places, neighbours in ((up, above), (down, below)):
                for p in (places[k] for k in neighbours[a] if k in places):
                    for q in (places[k] for k in neighbours[b] if k in places):
                        now, crossed = now + (p > q), crossed + (q > p)
            if crossed < now:
                line[i], line[i + 1] = b, a


def _crossings(lines: Sequence[Sequence[Key]], below: Mapping[Key, list[Key]]) -> int:
    total = 0
    for line, following in zip(lines, lines[1:], strict=False):
        places = {key: i for i, key in enumerate(following)}
        ends: list[int] = []
        for key in line:
            mine = [places[k] for k in below[key] if k in places]
            total += sum(1 for m in mine for e in ends if e > m)
            ends += mine
    return total


def _spread(
    lines: list[list[Key]], sizes: Mapping[Key, float], above: Mapping[Key, list[Key]], below: Mapping[Key, list[Key]]
) -> dict[Key, float]:
    """Middles in the order of each line, near to those of the neighbours above and below."""
    x: dict[Key, float] = {}
    for line in lines:
        offsets = _offsets(line, sizes)
        x |= {key: offset - offsets[-1] / 2 for key, offset in zip(line, offsets, strict=True)}
    for move in range(_MOVES):
        for line in lines if move % 2 == 0 else reversed(lines):
            wishes, weights = [], []
            for key in line:
                others = [*above[key], *below[key]]
                lane = sizes[key] == 0
                wishes.append(sum(x[k] for k in others) / len(others) if others else x[key])
                weights.append(4.0 if lane else float(max(1, len(others))))
            offsets = _offsets(line, sizes)
            found = _in_order([w - o for w, o in zip(wishes, offsets, strict=True)], weights)
            x |= {key: f + o for key, f, o in zip(line, found, offsets, strict=True)}
    return x


def _offsets(line: Sequence[Key], sizes: Mapping[Key, float]) -> list[float]:
    """Middles of boxes that touch but for their gaps, the first at 0."""
    found = [0.0]
    for a, b in zip(line, line[1:], strict=False):
        gap = _LANE if sizes[a] == 0 or sizes[b] == 0 else _GAP
        found.append(found[-1] + sizes[a] / 2 + gap + sizes[b] / 2)
    return found


def _in_order(wishes: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The numbers nearest to `wishes` by weighted squares of which none is below the one before (pooling adjacent
    violators)."""
    pools: list[tuple[float, float, int]] = []
    for wish, weight in zip(wishes, weights, strict=True):
        mean, total, count = wish, weight, 1
        while pools and pools[-1][0] > mean:
            other, w, n = pools.pop()
            mean, total, count = (mean * total + other * w) / (total + w), total + w, count + n
        pools.append((mean, total, count))
    return [mean for mean, _, count in pools for _ in range(count)]
