"""A plan as a picture: a box for each value where it is computed, frames around phases and fused loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nmt.rnn.compiler.plan import Plan
from nmt.rnn.graph import Value
from nmt.rnn.show.drawing import Box, Frame, Key, Panel, document
from nmt.rnn.show.naming import Naming, shape, through
from nmt.rnn.show.reading import PHASES, Work, works
from nmt.rnn.show.text import RUNS, sum_of, wrap

LEGEND = (
    ("leaf", "read from memory"),
    ("kept", "kept by the forward pass"),
    ("before", "before the loop"),
    ("loop", "in the loop"),
    ("after", "after the loop"),
)
_LONGEST = 34


def plan_picture(title: str, plans: Mapping[str, Plan]) -> str:
    """An SVG document of plans, each with a word that its panels' titles begin with."""
    panels = []
    for word, plan in plans.items():
        panels.append(work_panel(f"{word}forward", plan, works(plan.forward)))
        if plan.backward is not None:
            panels.append(work_panel(f"{word}backward", plan, works(plan.backward)))
    trains = any(plan.backward is not None for plan in plans.values())
    return document(title, panels, [key for key in LEGEND if trains or key[0] != "kept"])


def box_of(key: Key, rank: int, kind: str, v: Value, names: Naming, mark: str = "") -> Box:
    """A box with a value's name and shape, and its operation unless it is a leaf."""
    operation = names.operation(v) if v.kind != "leaf" else ""
    return Box(key, rank, kind, names.name(v), shape(v), wrap(operation, _LONGEST) if operation else (), mark)


def source_of(v: Value) -> Value:
    """The value that an operand is taken from: behind copies and slices."""
    v = through(v)
    while v.op == "slice":
        v = through(v.args[0])
    return v


def is_copy(v: Value) -> bool:
    """Whether a value is only another one read differently."""
    return v.op in ("expand", "slice")


# ---------------------------------------------------------------- the work of a pass


def work_panel(title: str, plan: Plan, done: list[Work]) -> Panel:
    """One direction of a plan: what is computed where, and what it reads."""
    return _Works(plan, done).panel(title)


class _Works:
    """Ranks go from step to step of the programs; a value that is computed in two of them has two boxes."""

    def __init__(self, plan: Plan, done: list[Work]) -> None:
        self.plan, self.done, self.names = plan, done, Naming(plan.trace, plan.gradients)
        self.kept = plan.memory.kept if plan.memory else frozenset[int]()
        self.is_backward = plan.backward is not None and done == works(plan.backward)
        self.boxes: list[Box] = []
        self.edges: list[tuple[Key, Key]] = []
        self.frames: list[Frame] = []
        self.stored: dict[int, Key] = {}  # the box that put a value into memory
        self.rank = 0

    def panel(self, title: str) -> Panel:
        """The drawing."""
        for phase in PHASES:
            first = self.rank
            for n, work in enumerate(self.done):
                if work.phase == phase:
                    self._work(n, work)
            if phase == "after" and self.is_backward and self.plan.sinks:
                self._sums()
            if self.rank > first:
                self.frames.append(Frame(first, self.rank - 1, RUNS[phase], phase, depth=1))
        return Panel(title, self.boxes, self.edges, self.frames)

    def _work(self, n: int, work: Work) -> None:
        drawn = {v.id: v for v in work.values if not is_copy(v) or v.id in work.written}
        reads = {i: [source_of(a) for a in v.args] for i, v in drawn.items()}
        reads = {i: [a for a in args if a.op not in ("const", "param", "rows_of")] for i, args in reads.items()}
        ranks = _ranks(drawn, reads, set(self.stored))
        leaves = [(i, a) for i, args in reads.items() for a in args if a.id not in drawn and a.id not in self.stored]
        first = self.rank
        if any(ranks[i] == 0 for i, _ in leaves):
            first += 1
        for i, v in drawn.items():
            mark = "kept" if i in self.kept and i in work.written else ""
            self.boxes.append(box_of((n, i), first + ranks[i], work.phase, v, self.names, mark))
            for a in reads[i]:
                if a.id in drawn or a.id in self.stored:
                    self.edges.append(((n, a.id) if a.id in drawn else self.stored[a.id], (n, i)))
        self._leaves(n, leaves, {i: first + rank for i, rank in ranks.items()})
        self.stored |= {i: (n, i) for i in drawn if i in work.written}
        self.rank = first + max(ranks.values(), default=-1) + 1
        if work.product is None and drawn:
            self.frames.append(Frame(first, self.rank - 1, work.title, work.phase))

    def _leaves(self, n: int, leaves: Iterable[tuple[int, Value]], ranks: Mapping[int, int]) -> None:
        """A box for what is read from memory, near its readers: again where another one is further down."""
        readers: dict[int, list[int]] = {}
        values = {a.id: a for _, a in leaves}
        for i, a in leaves:
            readers.setdefault(a.id, []).append(i)
        for leaf, mine in readers.items():
            at = -1
            for i in sorted(set(mine), key=lambda i: ranks[i]):
                if at < 0 or ranks[i] > at + 2:
                    at = ranks[i] - 1
                    kind = "kept" if leaf in self.kept else "leaf"
                    self.boxes.append(Box((n, leaf, at), at, kind, self.names.name(values[leaf]), shape(values[leaf])))
                self.edges.append(((n, leaf, at), (n, i)))

    def _sums(self) -> None:
        """Gradients of parameters, which need no function of their own."""
        for k, placed in enumerate(self.plan.sinks):
            gradient, operation, size = sum_of(placed, self.names)
            key = ("sum", k)
            self.boxes.append(Box(key, self.rank, "after", gradient, size, wrap(operation, _LONGEST), "sum"))
            operands = [v for v in (placed.sink.left, placed.sink.right) if v is not None]
            self.edges += [(self.stored[v.id], key) for v in map(source_of, operands) if v.id in self.stored]
        self.rank += 1


def _ranks(drawn: Mapping[int, Value], reads: Mapping[int, list[Value]], anchors: set[int]) -> dict[int, int]:
    """A line for every value of one step, below all that it reads. What hangs on nothing above is put right above its
    first reader, so that it does not stand far away from it."""
    ranks: dict[int, int] = {}
    anchored: set[int] = set()
    for i in sorted(drawn):
        inside = [a.id for a in reads[i] if a.id in drawn]
        ranks[i] = max((ranks[a] + 1 for a in inside), default=0)
        if any(a.id in anchors or a.id in anchored for a in reads[i]):
            anchored.add(i)
    readers: dict[int, list[int]] = {}
    for i, args in reads.items():
        for a in args:
            readers.setdefault(a.id, []).append(i)
    for i in sorted(drawn, reverse=True):
        if i not in anchored and i in readers:
            ranks[i] = min(ranks[r] for r in readers[i]) - 1
    return ranks


# ---------------------------------------------------------------- a graph, value by value


def graph_panel(title: str, values: Iterable[Value], names: Naming, kinds: Mapping[int, str], *,
                marks: Mapping[int, str] | None = None, params: bool = False, order: Mapping[str, int] | None = None,
                frames: Mapping[str, str] | None = None) -> Panel:  # fmt: skip
    """Values and what each is computed from. kinds: the colour of each, by id; order: kinds whose boxes lie in bands
    from above, lowest number first, with the titles in `frames`. params: draw parameters as well."""
    left_out = {"const"} if params else {"const", "param", "rows_of"}
    drawn = {v.id: v for v in values if not is_copy(v) and v.op not in left_out}
    reads = {i: [source_of(a) for a in v.args] for i, v in drawn.items()}
    bands = {i: (order or {}).get(kinds.get(i, "plain"), 0) for i in drawn}
    for i in sorted(drawn, reverse=True):  # a leaf lies in the band of its first reader
        if drawn[i].kind == "leaf":
            bands[i] = min((bands[r] for r in drawn if any(a.id == i for a in reads[r])), default=bands[i])
    boxes: list[Box] = []
    found: list[Frame] = []
    start = 0
    for band in sorted(set(bands.values())):
        inside = {i: v for i, v in drawn.items() if bands[i] == band}
        ranks = _ranks(inside, {i: reads[i] for i in inside}, {i for i in drawn if bands[i] < band})
        lift = -min(ranks.values())
        for i, v in inside.items():
            kind = kinds.get(i, "leaf" if v.kind == "leaf" else "plain")
            boxes.append(box_of(i, start + lift + ranks[i], kind, v, names, (marks or {}).get(i, "")))
        end = start + lift + max(ranks.values())
        for kind, number in (order or {}).items():
            if number == band and frames and kind in frames:
                found.append(Frame(start, end, frames[kind], kind))
        start = end + 1
    edges: list[tuple[Key, Key]] = [(a.id, i) for i, args in reads.items() for a in args if a.id in drawn]
    return Panel(title, boxes, edges, found)
