"""Cells of random expressions, and everything that a cell's program does held against what its step means."""

from dataclasses import replace

import numpy as np

from nmt.rnn import Axes, Captured, Cell, Param, Scan, State, Weights, softmax, weighted_sum
from nmt.rnn.functions import axes, concat, dot, flat, mean, sigmoid, softplus, split, sqrt, tanh, total
from tests.oracle import compare
from tests.rnn import scan_cases as cases

T, B, S = 4, 5, 3
LENGTHS = (2, 4, 0, 3, 1)
SOURCES = (3, 1, 2, 3, 2)


class Made(Cell):
    """A cell of a function for its step, and of what it reads. params: a `Param`, or a shape."""

    def __init__(self, step, *, params=None, states=None, captured=None, sequences=None, input_size=3, output_size=4):
        self.input_size, self.output_size = input_size, output_size
        self._step, self._params, self._states = step, params or {}, states or {}
        self._captured, self._sequences = captured or {}, sequences or {}

    def params(self):
        return {k: v if isinstance(v, Param) else Param(v, weight=True) for k, v in self._params.items()}

    def states(self):
        return dict(self._states)

    def captured(self):
        return dict(self._captured)

    def sequences(self):
        return dict(self._sequences)

    def step(self, p, x, s):
        return self._step(p, x, s)


def random_cell(seed):
    """A cell drawn from a seed: states in any order, under any name, as they are or put together of parts."""
    rng = np.random.default_rng(seed)
    widths = sorted({int(n) for n in rng.integers(1, 6, 3)})
    params = {f"M{a}_{b}": (a, b) for a in widths for b in widths} | {f"v{a}": (a,) for a in widths}
    names = rng.permutation(["s3", "x", "y", "shared0", "in.h", "in_h", "S_x", "mask0"])[: rng.integers(1, 4)]
    states = {str(name): int(rng.choice(widths)) for name in names}
    captured = {}
    if rng.random() < 0.6:
        captured["invariant0"] = Captured(int(rng.choice(widths)), source_axis=False)
    if rng.random() < 0.6:
        captured["memory"] = Captured(int(rng.choice(widths)))
    step_seed = int(rng.integers(1 << 40))

    def step(p, x, s):
        return _random_step(np.random.default_rng(step_seed), p, x, s, widths, states, captured, sizes["output_size"])

    sizes = {"input_size": int(rng.choice(widths)), "output_size": int(rng.choice(widths))}
    return Made(step, params=params, states=states, captured=captured, **sizes)


def _random_step(rng, p, x, s, widths, states, captured, output):
    rows = [x, *s.values(), *(p[k] for k, c in captured.items() if not c.source_axis)]
    vectors, numbers, scores = [p[f"v{n}"] for n in widths], [], []

    def pick(values):
        return values[int(rng.integers(len(values)))]

    def some():
        return pick([r for r in rows if r.width in widths])

    def fit(v, width):
        return v * p[f"v{width}"] if v.width is None else v @ p[f"M{v.width}_{width}"] if v.width != width else v

    def plain(v):
        return pick([sigmoid, tanh, softplus, lambda v: -v, lambda v: v * 0.0, lambda v: 1 - v])(v)

    for way in rng.integers(10, size=int(rng.integers(4, 11))):
        v = some()
        if way == 0:
            rows.append(plain(v))
        elif way == 1:
            rows.append(pick([v.__add__, v.__sub__, v.__mul__])(fit(some(), v.width)))
        elif way == 2:
            rows.append(v @ p[f"M{v.width}_{pick(widths)}"])
        elif way == 3:
            rows.append(concat(v, pick(rows), *([pick(vectors)] if rng.random() < 0.4 else [])))
        elif way == 4:
            rows.append(pick(split(pick(rows), 1) + split(v, v.width)))
        elif way == 5:
            numbers.append(pick([mean(v), dot(v, fit(some(), v.width))]))
        elif way == 6 and numbers:
            rows.append(sigmoid(pick(numbers)) * v)
        elif way == 7:
            rows.append(p.dropout(v, 0.3, variational=bool(rng.integers(2))))
        elif way == 8:
            vectors.append(pick([plain(pick(vectors)), p[f"v{widths[0]}"] @ p[f"M{widths[0]}_{widths[-1]}"]]))
        elif "memory" in captured:
            scores.append(softmax(pick([dot(p.memory, fit(v, p.memory.width)), *scores]) * 0.5))
            rows.append(weighted_sum(pick(scores), p.memory))
            rows.append((v - mean(v)) / sqrt(mean(v * v) + 0.1))

    def result(width):
        v = pick([r for r in [*rows[-4:], x, *vectors] if r.width in widths])
        parts = [r for r in (*rows, *vectors) if width - (r.width or width) in widths]
        if parts and rng.random() < 0.5:
            first = pick(parts)
            return concat(first, fit(v, width - first.width))
        return tanh(fit(v, width)) if rng.random() < 0.4 else fit(v, width)

    y = result(output)
    return y, State({name: result(states[name]) for name in rng.permutation(list(states)).tolist()})


def random_axes_cell(seed):
    """A cell drawn from a seed whose states have named axes. What it computes is read with the axes it has, summed over
    any of them, and read again as one axis or in parts, which puts numbers of one head into another."""
    rng = np.random.default_rng(seed)
    sizes = dict(zip("hkv", map(int, rng.integers(1, 5, 3)), strict=True))
    sizes["h"] += 1
    some = [tuple(names) for names in ("h", "hk", "hv", "hkv", "kv", "v")]
    states = {"S": sizes, "m": _sizes(some[rng.integers(6)], sizes), "n": _sizes(some[rng.integers(6)], sizes)}
    states = {name: Axes(**axes_of_state) for name, axes_of_state in states.items()}
    params = {f"W{''.join(names)}": (3, _count(names, sizes)) for names in some}
    params |= {f"p{''.join(names)}": (_count(names, sizes),) for names in some}
    step_seed = int(rng.integers(1 << 40))

    def step(p, x, s):
        y, new = _random_axes_step(np.random.default_rng(step_seed), p, x, s, sizes, some, states)
        return y, State({**new, **_kept(np.random.default_rng([seed, 1]), s, states)})

    return Made(step, params=params, states=states, output_size=_count("hv", sizes))


def _kept(rng, s, states):
    """The states that a few of them become as they are."""
    alike = {one: [other for other in states if states[other].dims == states[one].dims] for one in states}
    return {one: s[str(rng.choice(others))] for one, others in alike.items() if rng.random() < 0.1}


def _sizes(names, sizes):
    return {name: sizes[name] for name in sizes if name in names}


def _count(names, sizes):
    return int(np.prod([sizes[name] for name in names]))


def _random_axes_step(rng, p, x, s, sizes, some, states):
    def shaped(v, names):
        return axes(v, **_sizes(names, sizes))

    def pick(values):
        return values[int(rng.integers(len(values)))]

    def whole(v, names):
        """With all of these axes and no others."""
        for name, _ in v.dims:
            if name not in names:
                v = total(v, name)
        given = shaped(p["p" + "".join(names)], names)
        return given * v if v.width is None or v.dims else given + v

    found = [shaped(x @ p[f"W{''.join(names)}"], names) for names in (pick(some), pick(some), pick(some))]
    found += list(s.values())
    for way in rng.integers(5, size=int(rng.integers(4, 10))):
        v = pick([one for one in found if one.dims])
        names = tuple(name for name, _ in v.dims)
        if way == 0:
            found.append(pick([sigmoid, tanh, softplus, lambda v: -v])(v))
        elif way == 1:
            found.append(pick([v.__add__, v.__sub__, v.__mul__])(pick([one for one in found if one.dims])))
        elif way == 2:
            found.append(total(v, pick(names)))
        elif way == 3 and names in some:
            found.append(tanh(v) * shaped(p["p" + "".join(names)], names))
        else:  # a part of its numbers, as other axes: of a head, or across heads
            fits = [other for other in some if v.width % _count(other, sizes) == 0]
            if fits:
                other = pick(fits)
                found.append(shaped(pick(split(flat(v), v.width // _count(other, sizes))), other))
    result = State({name: tanh(whole(pick(found[-4:]), [axis for axis, _ in n.dims])) for name, n in states.items()})
    return flat(whole(pick(found[-4:]), ["h", "v"])), result


def check(cell, device=None, **options):
    """Hold training, its gradients, inference and single steps against the interpreter, and rows alone against rows
    among others: on the processor these have the same bits. device: where the programs run, the processor where
    None; options: of the scan."""
    case = cases.draw(cell, "float64", LENGTHS, rows=B, steps=T, places=S)
    if any(c.source_axis for c in cell.captured().values()):
        case.source_lengths = SOURCES
    _, found, masks = cases.agreeing(case, device=device, **options)
    cases.hold_to_slopes(case, found, masks)
    whole = replace(case, lengths=None)
    inferred = cases.inferred(whole, device=device, **options)
    compare.assert_all_close(inferred, cases.interpreted(whole, None)[0], 1e-9, "inference")
    scan, there = Scan(cell, dtype="float64", threads=1, device=device, **options), cases.on_device(whole, device)
    sources = there.captured, whole.source_lengths
    steps = cases.stepped(scan, Weights(there.params), there.x, there.initial, *sources)
    compare.assert_all_close(steps, inferred, 1e-9, "steps")
    for rows in ([3], [4, 0]) if device is None else ():
        among = {k: a[..., rows, :] if k == "y" else a[rows] for k, a in inferred.items()}
        compare.assert_same_bits(cases.inferred(whole.rows(rows), **options), among, "other bits in another batch")
