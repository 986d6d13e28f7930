"""A plan as a picture: a box for each value where it is computed, frames around phases and fused loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from docs.show.dot import Box, Frame, Key, Panel, document
from docs.show.naming import COPIES, Naming, shape, through
from docs.show.reading import Work, works
from docs.show.text import RUNS, sum_of, wrap
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import Plan
from nmt.rnn.graph import Value
from nmt.rnn.ops import OpKind

LEGEND = (
    ("leaf", "read from memory"),
    ("kept", "kept by the forward pass"),
    (Phase.BEFORE, "before the loop"),
    (Phase.LOOP, "in the loop"),
    (Phase.AFTER, "after the loop"),
)
_LONGEST = 34


def plan_picture(title: str, plans: Mapping[str, Plan]) -> str:
    """Return a DOT document of plans; their names begin the titles of their panels.

    A plan with a non-empty name runs once, not for every step.
    """
    panels = []
    for word, plan in plans.items():
        runs = dict.fromkeys(Phase, "once") if word else RUNS
        panels.append(work_panel(f"{word}forward", plan, works(plan.forward), runs))
        if plan.backward is not None:
            panels.append(work_panel(f"{word}backward", plan, works(plan.backward), runs))
    trains = any(plan.backward is not None for plan in plans.values())
    return document(title, panels, [key for key in LEGEND if trains or key[0] != "kept"])


def source_of(v: Value) -> Value:
    """Return the value that an operand is taken from, through copies and slices."""
    v = through(v)
    while v.op == "slice":
        v = through(v.args[0])
    return v


def is_copy(v: Value) -> bool:
    """Return whether a value is only a view or copy of another one."""
    return v.op in COPIES


class Board:
    """Boxes and edges of a panel, band below band.

    What a band reads and has no edge from an earlier box gets boxes next to its readers.
    """

    def __init__(self, names: Naming, *, params: bool = False) -> None:
        self.names = names
        self.left_out = {"const"} if params else {"const", "param", "rows_of"}
        self.boxes: list[Box] = []
        self.edges: list[tuple[Key, Key]] = []
        self.frames: list[Frame] = []
        self.joined: dict[int, Key] = {}  # boxes of earlier bands that edges lead from
        self.rank = 0

    def band(
        self, tag: Key, values: Iterable[Value], kinds: Mapping[int, str], marks: Mapping[int, str] | None = None
    ) -> tuple[int, int]:
        """Add boxes with the keys (tag, id); return the ranks of the first and the last.

        kinds: colours by id, also of what is read; marks: text on boxes.
        """
        drawn = {v.id: v for v in values}
        reads = {i: [source_of(a) for a in v.args] for i, v in drawn.items()}
        reads = {i: [a for a in args if a.op not in self.left_out] for i, args in reads.items()}
        ranks = _ranks(drawn, reads, set(self.joined))
        leaves = [(i, a) for i, args in reads.items() for a in args if a.id not in drawn and a.id not in self.joined]
        first = self.rank + any(ranks[i] == 0 for i, _ in leaves)
        for i, v in drawn.items():
            kind = kinds.get(i, "leaf" if v.kind is OpKind.LEAF else "plain")
            self.boxes.append(self._box((tag, i), first + ranks[i], kind, v, (marks or {}).get(i, "")))
            for a in reads[i]:
                if a.id in drawn or a.id in self.joined:
                    self.edges.append(((tag, a.id) if a.id in drawn else self.joined[a.id], (tag, i)))
        self._leaves(tag, leaves, {i: first + rank for i, rank in ranks.items()}, kinds)
        self.rank = first + max(ranks.values(), default=-1) + 1
        return first, self.rank - 1

    def _box(self, key: Key, rank: int, kind: str, v: Value, mark: str) -> Box:
        operation = self.names.operation(v) if v.kind is not OpKind.LEAF else ""
        return Box(key, rank, kind, self.names.name(v), shape(v), wrap(operation, _LONGEST) if operation else (), mark)

    def _leaves(
        self, tag: Key, leaves: Iterable[tuple[int, Value]], ranks: Mapping[int, int], kinds: Mapping[int, str]
    ) -> None:
        """Add a box for each value read from memory, near its readers, and another one for readers further down."""
        readers: dict[int, list[int]] = {}
        values = {a.id: a for _, a in leaves}
        for i, a in leaves:
            readers.setdefault(a.id, []).append(i)
        for leaf, mine in readers.items():
            at = None
            for i in sorted(set(mine), key=lambda i: ranks[i]):
                if at is None or ranks[i] > at + 2:
                    at = ranks[i] - 1
                    name = self.names.name(values[leaf])
                    self.boxes.append(Box((tag, leaf, at), at, kinds.get(leaf, "leaf"), name, shape(values[leaf])))
                self.edges.append(((tag, leaf, at), (tag, i)))

    def sums(self, plan: Plan, kind: str) -> None:
        """Add the gradients of parameters, which are sums over all rows and steps, below their operands."""
        for n, placed in enumerate(plan.sinks):
            gradient, operation, size = sum_of(placed, self.names)
            key = ("sum", n)
            self.boxes.append(Box(key, self.rank, kind, gradient, size, wrap(operation, _LONGEST), "sum"))
            operands = [v for v in (placed.sink.left, placed.sink.right) if v is not None]
            self.edges += [(self.joined[v.id], key) for v in map(source_of, operands) if v.id in self.joined]
        self.rank += 1


def work_panel(title: str, plan: Plan, done: list[Work], runs: Mapping[Phase, str] = RUNS) -> Panel:
    """Return one direction of a plan, step by step of its programs; a value computed in two of them has two boxes.

    runs: the text for each phase.
    """
    board = Board(Naming(plan.trace, plan.gradients))
    kept = plan.memory.kept if plan.memory else frozenset[int]()
    backward = plan.backward is not None and done == works(plan.backward)
    for phase in Phase:
        start = board.rank
        for n, work in enumerate(done):
            if work.phase != phase:
                continue
            drawn = [v for v in work.values if not is_copy(v) or v.id in work.written]
            kinds = dict.fromkeys(kept, "kept") | {v.id: phase for v in drawn}
            marks = {v.id: "kept" for v in drawn if v.id in kept and v.id in work.written}
            first, last = board.band(n, drawn, kinds, marks)
            board.joined |= {v.id: (n, v.id) for v in drawn if v.id in work.written}
            if work.product is None and drawn:
                board.frames.append(Frame(first, last, work.title, phase))
        if phase is Phase.AFTER and backward and plan.sinks:
            board.sums(plan, phase)
        if board.rank > start:
            board.frames.append(Frame(start, board.rank - 1, runs[phase], phase, depth=1))
    return Panel(title, board.boxes, board.edges, board.frames)


def _ranks(drawn: Mapping[int, Value], reads: Mapping[int, list[Value]], anchors: set[int]) -> dict[int, int]:
    """Return a rank for every value of one step, below everything that it reads.

    A value without operands above is put directly above its first reader, to keep them close.
    """
    readers: dict[int, set[int]] = {}
    for i, args in reads.items():
        for a in args:
            readers.setdefault(a.id, set()).add(i)
    ranks: dict[int, int] = {}
    anchored: set[int] = set()
    for i in sorted(drawn):
        inside = [a.id for a in reads[i] if a.id in drawn]
        ranks[i] = max((ranks[a] + 1 for a in inside), default=0)
        several = len(set(inside)) > len(readers.get(i, []))
        if several or any(a.id in anchors or a.id in anchored for a in reads[i]):
            anchored.add(i)
    for i in sorted(drawn, reverse=True):
        if i not in anchored and i in readers:
            ranks[i] = min(ranks[r] for r in readers[i]) - 1
    return ranks
