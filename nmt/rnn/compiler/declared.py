"""Checks of a cell's declarations and of its step's results, made once: they are an author's code, and may be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

from nmt.errors import ShapeError
from nmt.rnn.cell import Captured, Cell, Param, dims_of
from nmt.rnn.graph import Graph, Value
from nmt.rnn.named_axes import shown as axes_shown
from nmt.rnn.own_code import own_code, place_of, shown


class Declared:
    """A cell's sizes and names. Raises ShapeError: they have wrong types, or its methods raise."""

    def __init__(self, cell: Cell) -> None:
        self.name = type(cell).__name__
        self.input_size = self._size(cell, "input_size")
        self.output_size = self._size(cell, "output_size")
        self.params: dict[str, Param] = self._named(cell.params, Param, "a Param")
        self.states: dict[str, int] = self._named(cell.states, int, "a width")
        self.captured: dict[str, Captured] = self._named(cell.captured, Captured, "a Captured")
        self.sequences: dict[str, int] = self._named(cell.sequences, int, "a width")
        self._check_names()
        self._check_starts(cell)

    def results(self, graph: Graph, step: Callable[..., Any], *given: Any) -> tuple[Value, dict[str, Value]]:
        """Run the step; return its output and new states, checked."""
        where = f"{self.name}.step"
        with own_code(f"{where}:", "must compute with the operations of nmt.rnn", kind=ShapeError, of=step):
            found = step(*given)
        place = place_of(step)
        at = f" ({place})" if place else ""
        if not isinstance(found, tuple | list) or len(found) != 2 or not isinstance(found[1], Mapping):
            raise ShapeError(f"{where}: must return its output and a State, got {_kind(found)}{at}")
        y, new = found
        for name, value in {"output": y, **{f"state {k}": v for k, v in new.items()}}.items():
            if not isinstance(value, Value) or value.graph is not graph:
                got = "one of another call" if isinstance(value, Value) else type(value).__name__
                raise ShapeError(f"{where}: {name} must be a value computed from x, s and p, got {got}{at}")
        self._check(where, y, new, at)
        return y, dict(new)

    def _check(self, where: str, y: Value, new: Mapping[str, Value], at: str) -> None:
        if set(new) != set(self.states):
            promise = f"the State that it returns must have {', '.join(self.states)}"
            raise ShapeError(f"{where}: {promise}, got {', '.join(new) or 'none'}{at}")
        for name, value in new.items():
            width = self.states[name]
            if value.width != width or "S" in value.axes or value.dims != dims_of(width):
                wanted = axes_shown(dims_of(width)) or width
                raise ShapeError(f"{where}: state {name} must be [B, {wanted}], got {_shape(value)}{at}")
        if y.width != self.output_size or "S" in y.axes or y.dims:
            advice = "; use flat" if y.dims else ""
            raise ShapeError(f"{where}: output must be [B, {self.output_size}], got {_shape(y)}{advice}{at}")

    def _size(self, cell: Cell, what: str) -> int:
        size = getattr(cell, what, None)
        if not _is_size(size):
            raise ShapeError(
                f"{self.name}: {what} must be a whole number of at least 1, got {shown(size)}; set it in __init__"
            )
        return size  # type: ignore[return-value]

    def _check_names(self) -> None:
        """Check that everything a step reads from its scope, and a scan names in `needs`, has a distinct name."""
        names = Counter(["x", *self.params, *self.captured, *self.sequences])
        if twice := sorted(name for name, n in names.items() if n > 1):
            promise = "parameters, captured arrays, sequences and the input x must have different names"
            raise ShapeError(f"{self.name}: {promise}, got {shown(twice[0])} twice")

    def _check_starts(self, cell: Cell) -> None:
        """Check that initial values belong to existing states and vectors of the same width."""
        promise = "must return a tuple of names of its states"
        found, at = self._called(cell.starts, promise)
        if not isinstance(found, tuple | list) or not all(isinstance(k, str) and k in self.states for k in found):
            raise ShapeError(f"{self.name}.starts: {promise}, got {shown(found)}{at}")
        promise = "must return a dict with a parameter as wide for names of its states"
        found, at = self._called(cell.learned, promise)
        vectors = {name: param.shape for name, param in self.params.items()}
        fits = isinstance(found, dict) and found.keys() <= self.states.keys()
        if not fits or any(vectors.get(str(param)) != (self.states[name],) for name, param in found.items()):
            raise ShapeError(f"{self.name}.learned: {promise}, got {shown(found)}{at}")

    def _called(self, method: Callable[[], Any], promise: str) -> tuple[Any, str]:
        """Call a method; return its result, and its place in the source for an error."""
        with own_code(f"{self.name}.{method.__name__}:", promise, kind=ShapeError, of=method):
            found = method()
        place = place_of(method)
        return found, f" ({place})" if place else ""

    def _named(self, method: Callable[[], Any], kind: type, words: str) -> Any:
        """Return a method's declarations by name, checked."""
        where, promise = f"{self.name}.{method.__name__}:", f"must return a dict with {words} for each name"
        found, at = self._called(method, promise)
        if not isinstance(found, dict):
            raise ShapeError(f"{where} {promise}, got {type(found).__name__}{at}")
        for name, value in found.items():
            fits = _is_size(value) if kind is int else isinstance(value, kind)
            if isinstance(value, Param):
                fits = isinstance(value.shape, tuple) and 0 < len(value.shape) < 3 and all(map(_is_size, value.shape))
            if not isinstance(name, str) or not fits:
                raise ShapeError(f"{where} {promise}, got {shown(value)} for {shown(name)}{at}")
        return found


def _shape(value: Value) -> str:
    """Return a value's shape as documents write it: `[B, 14]`, `[S, B, 7]`, `[B, h=2 k=4]`, `[B]`."""
    features = axes_shown(value.dims) or value.width
    return f"[{', '.join([*value.axes, *([str(features)] if features else [])])}]"


def _is_size(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _kind(found: Any) -> str:
    if not isinstance(found, tuple | list):
        return type(found).__name__
    return f"{len(found)} things: {', '.join(type(one).__name__ for one in found[:4])}" if found else "nothing"
