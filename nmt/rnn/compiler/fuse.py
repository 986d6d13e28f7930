"""Passes 3 and 6: order a set of values into products and fused loops.

`build_program` takes the values that must reach memory (roots) and the places of the values that are there already.
Products split the work into levels; within a level every row runs through loop nests, fused as far as reductions allow.
A value that is not a root is computed where it is used, in registers; it gets a buffer only when it is expensive and
two nests (or two levels) need it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from nmt.errors import ShapeError
from nmt.rnn.arrays.array_names import Numbered
from nmt.rnn.compiler.program import Nest, Place, PlaceKind, Product, Program, RowWork, StoredValue
from nmt.rnn.graph import Value, reached
from nmt.rnn.named_axes import Dims
from nmt.rnn.ops import OpKind

Space = tuple[bool, int | None, Dims]


def is_wide(v: Value) -> bool:
    """Return whether a value has source positions and features, which is too large to store for every step."""
    return "S" in v.axes and v.width is not None


def space_of(v: Value) -> Space:
    """Return the loops needed to compute a value; a reduction loops over its argument's axes."""
    return _copied(v.args[0] if v.kind is OpKind.REDUCE else v)


def _copied(v: Value) -> Space:
    """Return the loops needed to copy a value from memory."""
    return ("S" in v.axes, v.width, v.dims)


def build_program(
    roots: list[StoredValue],
    places: dict[int, Place],
    scratch: PlaceKind,
    allow_wide: bool = False,
    own_loops: Mapping[int, Value] | None = None,
) -> Program:
    """Schedule `roots`. `places` holds the values in memory before; new buffers are of kind `scratch` (ROWS or
    SEQUENCE). `allow_wide` permits buffers with both a source and a feature axis, which is acceptable for values
    computed once, not for every step. `own_loops`: leaves that this program carries from step to step, by id, and the
    values they become: whatever reads one comes with what computes the value, or later."""
    return _Builder(dict(places), scratch, allow_wide, own_loops or {}).build(roots)


def _is_repeated(v: Value, loops: Dims) -> bool:
    """Return whether loops over named axes would compute an inlined value more than once for each of its numbers: in an
    outer loop that it does not depend on; or, if it is expensive, in an inner one, or for every row although it depends
    on parameters alone."""
    if v.kind is not OpKind.ELEMENTWISE or v.op == "expand" or not loops:
        return False
    if v.rule.expensive:
        return v.dims != loops or "B" not in v.axes
    return v.dims != loops[: len(v.dims)]


def _row_scratch(v: Value) -> PlaceKind:
    """Return the scratch of one row that holds a value."""
    return PlaceKind.ROW if "S" in v.axes or v.width is not None else PlaceKind.LOCAL


class _Builder:
    def __init__(
        self, places: dict[int, Place], scratch: PlaceKind, allow_wide: bool, own_loops: Mapping[int, Value]
    ) -> None:
        self.outside = frozenset(places)
        self.places = places
        self.scratch, self.allow_wide = scratch, allow_wide
        self.entries: dict[int, list[StoredValue]] = defaultdict(list)  # by level
        self.products: dict[int, list[Product]] = defaultdict(list)
        self.roots: dict[int, int] = {}  # id of every value that reaches memory here -> its level
        self._levels: dict[int, int] = {}
        self._walked: set[tuple[int, int, Dims]] = set()
        self._leaf_levels = dict.fromkeys(own_loops, 0)
        while (found := {i: self.level(v) for i, v in own_loops.items()}) != self._leaf_levels:
            self._leaf_levels, self._levels = found, {}

    def build(self, roots: list[StoredValue]) -> Program:
        # A carried gradient may be needed after the loop too: its slot is overwritten, a stored copy stays.
        stored = {e.value.id for e in roots if e.place.kind is not PlaceKind.CARRY_OUT}
        roots = sorted(roots, key=lambda e: e.place.kind is PlaceKind.CARRY_OUT and e.value.id in stored)
        for entry in roots:
            if entry.value.id not in self.places and not entry.add and entry.offset == 0 and entry.value.op != "const":
                self.places[entry.value.id] = entry.place
        for entry in roots:
            self._root(entry)
        levels = range(max([*self.entries, *self.products], default=-1) + 1)
        for level in levels:
            self._share(level)
        for level in levels:
            self._outlive(level)
        steps: list[RowWork | Product] = []
        for level in levels:
            nests = self._nests(level)
            if nests:
                steps.append(RowWork(nests))
            steps.extend(self.products[level])
        return Program(steps, self.places)

    def level(self, v: Value) -> int:
        """Return the number of rounds of products that must be finished before `v` can be computed."""
        if v.id in self.outside or v.kind is OpKind.LEAF:
            return self._leaf_levels.get(v.id, 0)
        if v.id not in self._levels:
            levels = [self.level(a) + (a.kind is OpKind.PRODUCT and a.id not in self.outside) for a in v.args]
            self._levels[v.id] = max(levels, default=0)
        return self._levels[v.id]

    def _root(self, entry: StoredValue) -> None:
        v = entry.value
        while v.op == "flat" and v.id not in self.outside:  # the same memory
            v = v.args[0]
            if v.id not in self.places and not entry.add and entry.offset == 0:
                self.places[v.id] = entry.place
            entry = replace(entry, value=v)
        if v.kind is OpKind.PRODUCT and v.id not in self.outside:
            if v.id not in self.roots:
                self.roots[v.id] = self.level(v)
                self._product(v)
            if self.places[v.id] != entry.place or entry.add:  # a copy, after the product
                self.entries[self.level(v) + 1].append(entry)
            return
        level = self.level(v)
        if not entry.add and self.places.get(v.id) == entry.place:
            if v.id in self.roots:
                return
            self.roots[v.id] = level
        if v.op == "concat" and v.id not in self.outside:
            offset = entry.offset
            for part in v.args:
                base = part.args[0] if part.op == "flat" else part
                if base is not part and base.kind is OpKind.ELEMENTWISE and base.id not in self.roots | self.places:
                    # Computed where it belongs, in loops over its named axes.
                    self.entries[level].append(StoredValue(base, entry.place, offset, entry.add))
                    self._walk(base, level, top=True, loops=base.dims)
                else:
                    self.entries[level].append(StoredValue(part, entry.place, offset, entry.add))
                    self._walk(part, level)
                offset += part.width or 0
        else:
            if entry.add and v.kind in (OpKind.REDUCE, OpKind.COMPOSITE):  # complete only after its own nest
                self._require(v, _row_scratch(v))
            self.entries[level].append(entry)
            self._walk(v, level, top=True, loops=space_of(v)[2])

    def _product(self, v: Value) -> None:
        x = v.args[0]
        if "S" in x.axes and self.scratch is PlaceKind.ROWS:
            promise = "inside the time loop the left side must have no source axis"
            raise ShapeError(f"matmul: {promise}; take it from a captured array")
        base, _ = x.span
        self._require(base)
        self.products[self.level(v)].append(Product(v, x))

    def _require(self, v: Value, kind: PlaceKind | None = None) -> None:
        """Allocate a buffer for `v`, unless it is in memory."""
        if v.id in self.outside or v.id in self.roots or v.kind is OpKind.LEAF:
            return
        kind = kind or self.scratch
        if v.id not in self.places:
            self.places[v.id] = self._scratch(v, kind)
        self._root(StoredValue(v, self.places[v.id]))

    def _walk(self, v: Value, level: int, top: bool = False, loops: Dims = ()) -> None:
        """Visit the operands of an expression of `level`; those that cannot be inlined become roots. loops: those over
        named axes around the expression."""
        if v.id in self.outside or v.kind is OpKind.LEAF:
            return
        if not top:
            if (v.id, level, loops) in self._walked:  # nothing would be new
                return
            self._walked.add((v.id, level, loops))
            earlier = self.level(v) < level
            if v.kind is OpKind.PRODUCT or (v.op == "concat") or (earlier and v.rule.expensive and not is_wide(v)):
                self._require(v)
                return
            if v.id in self.roots and self.level(v) == level:
                return
            if v.kind in (OpKind.REDUCE, OpKind.COMPOSITE) or _is_repeated(v, loops):
                self._require(v, _row_scratch(v))
                return
            if v.op == "flat":
                self._require(v.args[0], _row_scratch(v))
                return
        if v.op == "softmax":
            self._require(v.args[0], PlaceKind.ROW)
        for a in v.args:
            self._walk(a, level, loops=loops)

    def _outlive(self, level: int) -> None:
        """Move values from scratch of one row to memory of all rows where they are needed longer. These are read by
        products, which take all rows at once, or by this level after the level that computed them."""
        operands = [v for e in self.entries[level] for v in self._operands(e)]
        for product in self.products[level]:
            base, _ = product.x.span
            self._promote(base)
        for v in reached(operands, self._is_inlined).values():
            if self.roots.get(v.id, level) != level:
                self._promote(v)

    def _promote(self, v: Value) -> None:
        old = self.places.get(v.id)
        if old is None or v.id in self.outside or old.kind not in (PlaceKind.ROW, PlaceKind.LOCAL):
            return
        new = self.places[v.id] = self._scratch(v, self.scratch)
        row = self.entries[self.level(v)]
        row[:] = [StoredValue(e.value, new, e.offset, e.add) if e.place == old else e for e in row]

    def _scratch(self, v: Value, kind: PlaceKind) -> Place:
        """Return a new place in memory for a value."""
        if is_wide(v) and kind is not PlaceKind.ROW and not self.allow_wide:
            raise ShapeError(f"step: {v} would need a buffer of its own for every source position; reduce it first")
        return Place(kind, Numbered.SCRATCH.of(v.id), "S" in v.axes, v.width)

    # ------------------------------------------------------------ nests of one level

    def _nests(self, level: int) -> list[Nest]:
        stages = self._stages(level)
        nests: dict[tuple[int, Space, int], Nest] = {}
        for entry in self.entries[level]:
            v = entry.value
            space = self._space(entry)
            own = v.id if v.op == "softmax" and self._computed(v, entry) else -1  # a softmax needs a separate nest
            key = (stages[id(entry)], space, own)
            nests.setdefault(key, Nest(stages[id(entry)], *space)).entries.append(entry)
        for nest in nests.values():  # a value written to several places is computed first
            nest.entries.sort(key=lambda e: (e.value.id, not self._computed(e.value, e), e.offset))
        return sorted(nests.values(), key=lambda n: n.stage)

    def _share(self, level: int) -> None:
        """Compute what several nests of a level need in a nest before them."""
        while shared := self._shared(level, self._stages(level)):
            for v in shared:
                self._require(v, _row_scratch(v))

    def _is_inlined(self, v: Value) -> bool:
        """Return whether a value is computed where it is used, not read from memory."""
        return v.id not in self.outside and v.kind is not OpKind.LEAF and v.id not in self.roots

    def _operands(self, entry: StoredValue) -> list[Value]:
        """Return the values an entry reads first: its value's arguments, or the value itself if it is in memory."""
        return list(entry.value.args) if self._computed(entry.value, entry) else [entry.value]

    def _space(self, entry: StoredValue) -> Space:
        """Return the loops an entry needs."""
        return space_of(entry.value) if self._computed(entry.value, entry) else _copied(entry.value)

    def _computed(self, v: Value, entry: StoredValue) -> bool:
        """Return whether this entry computes its value (the first of its level) rather than copying it from memory."""
        return v.id not in self.outside and v.kind is not OpKind.LEAF and self.places.get(v.id) == entry.place

    def _reads(self, entry: StoredValue, level: int) -> dict[Value, bool]:
        """Return roots of the same level that an entry's expression reads, and whether it reads their numbers in
        another order of loops: flat, so that a part of them may have other named axes."""
        found: dict[Value, bool] = {}
        pending = [(v, False) for v in self._operands(entry)]
        seen: set[tuple[int, bool]] = set()
        while pending:
            v, is_flat = pending.pop()
            if (v.id, is_flat) in seen:
                continue
            seen.add((v.id, is_flat))
            if v.id in self.outside or v.kind in (OpKind.LEAF, OpKind.PRODUCT):
                continue
            if v.id in self.roots:
                if self.roots[v.id] == level:
                    found[v] = is_flat or found.get(v, False)
            else:
                pending.extend((a, is_flat or v.op == "flat") for a in v.args)
        return found

    def _stages(self, level: int) -> dict[int, int]:
        """Return the stage of every entry: after the nests whose results it reads from memory."""
        of_value: dict[int, int] = {}
        stages: dict[int, int] = {}
        for entry in sorted(self.entries[level], key=lambda e: (e.value.id, not self._computed(e.value, e))):
            computed, mine, stage = self._computed(entry.value, entry), self._space(entry), 0
            for v, is_flat in self._reads(entry, level).items():
                needs_own_nest = (
                    is_flat
                    or v.kind in (OpKind.REDUCE, OpKind.COMPOSITE)
                    or v.op == "concat"
                    or space_of(v) != mine
                    or entry.value.op == "softmax"
                )
                stage = max(stage, self._stage_of(v, level, of_value) + needs_own_nest)
            stages[id(entry)] = stage
            if computed:
                of_value[entry.value.id] = stage
        return stages

    def _stage_of(self, v: Value, level: int, of_value: dict[int, int]) -> int:
        if v.id in of_value:
            return of_value[v.id]
        if v.op != "concat":
            raise RuntimeError(f"{v} is read before it is computed")
        parts = [StoredValue(part, self.places[v.id]) for part in v.args]
        return max(
            max((self._stage_of(r, level, of_value) + 1 for r in self._reads(e, level)), default=0) for e in parts
        )

    def _shared(self, level: int, stages: dict[int, int]) -> list[Value]:
        """Return expensive values, not roots, that more than one nest would compute."""
        users: dict[int, set[tuple[int, Space]]] = defaultdict(set)
        values: dict[int, Value] = {}
        for entry in self.entries[level]:
            mine = self._space(entry)
            for v in reached(self._operands(entry), self._is_inlined).values():
                if self._is_inlined(v) and v.rule.expensive and not is_wide(v):
                    users[v.id].add((stages[id(entry)], mine))
                    values[v.id] = v
        return [values[i] for i in sorted(users) if len(users[i]) > 1]
