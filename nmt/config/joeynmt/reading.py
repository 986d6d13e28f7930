"""Reads JoeyNMT's keys one by one, and records their conversion and the keys that are not supported."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nmt.config.complaints import shorten
from nmt.config.joeynmt.keys import MOVED
from nmt.config.section import MOST


@dataclass
class Reading:
    """The keys of a JoeyNMT configuration during its conversion.

    left: JoeyNMT's keys that are not yet converted, by their names in version 2, as dotted paths.
    written: The names of keys in the file, if these differ.
    old: Whether the layout is that of version 1.
    """

    left: dict[str, Any]
    written: dict[str, str]
    old: bool

    def __post_init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.problems: dict[str, str] = {}
        self.equal: list[str] = []
        self.free: list[str] = []
        self.lines: list[str] = []

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Reading":
        """Return the keys of a file; those of version 1 are renamed as in version 2."""
        flat = _flat(values)
        reading = cls({}, {}, isinstance(flat.get("data.src"), str))
        for name, value in flat.items():
            for new in MOVED.get(name, (name,)):
                if new in reading.left:
                    reading.refuse(name, f"is given as {reading.name(new)}, too; take one of them out")
                reading.left[new] = value
                reading.written[new] = name
        return reading

    def name(self, theirs: str) -> str:
        """Return the name of a key in the file."""
        return self.written.get(theirs, theirs)

    def take(self, theirs: str, default: Any = None) -> Any:
        """Remove a key from those that are left and return its value."""
        return self.left.pop(theirs, default)

    def refuse(self, theirs: str, why: str) -> None:
        """Record a key that is not supported; `why` is appended to its name."""
        self.problems.setdefault(self.name(theirs), f"{self.name(theirs)} {why}")

    def must(self, theirs: str, promise: str, got: Any, advice: str = "") -> None:
        """Record a key whose value is not supported."""
        self.refuse(theirs, f"must be {promise}, got {shorten(got)}" + (f"; {advice}" if advice else ""))

    def only(self, theirs: str, allowed: tuple[tuple[Any, ...], str]) -> None:
        """Check that the value of a key is one of the few supported ones, which mean what nmt does anyway."""
        if theirs not in self.left:
            return
        value, (choices, advice) = self.take(theirs), allowed
        if not any(value == choice and type(value) in (type(choice), int, float) for choice in choices):
            self.must(theirs, " or ".join(map(shorten, choices)), value, advice)
        else:
            self.equal.append(self.name(theirs))

    def source(self, theirs: str, default: Any) -> tuple[Any, str]:
        """Return the value of a key and, as text, the key with its value; `default`, JoeyNMT's default, if it is
        omitted."""
        if theirs not in self.left:
            return default, f"no {theirs}"
        value = self.take(theirs)
        return value, f"{self.name(theirs)}: {shorten(value)}"

    def drop(self, *names: str) -> None:
        """Ignore keys that have no effect in combination with other keys of the file."""
        for theirs in names:
            if theirs in self.left:
                self.take(theirs)
                self.free.append(self.name(theirs))

    def put(self, ours: str, value: Any, theirs: str = "", note: str = "") -> None:
        """Set one of our settings. `theirs` is its origin as text: a key and its value, or the omitted key."""
        section = self.values
        *way, key = ours.split(".")
        for part in way:
            section = section.setdefault(part, {})
        section[key] = value
        line = f"{theirs} -> {ours}: {shorten(value)}" if theirs else f"{ours}: {shorten(value)}"
        self.lines.append(line + (f" ({note})" if note else ""))

    def same(self, theirs: str, ours: str, default: Any) -> Any:
        """Set one of our settings to the value of a key, or to `default`, JoeyNMT's default, if it is omitted."""
        given = theirs in self.left
        value, text = self.source(theirs, default)
        self.put(ours, value, text)
        if given and self.name(theirs) == ours:
            self.equal.append(self.name(theirs))
            self.lines.pop()
        return value

    def changed(self, theirs: str, ours: str, default: Any, change: Callable[[Any], Any], note: str = "") -> None:
        """Set one of our settings to the value of a key, converted by `change`."""
        value, text = self.source(theirs, default)
        self.put(ours, change(value), text, note)
        if text == f"{ours}: {shorten(change(value))}" and not note:
            self.equal.append(ours)
            self.lines.pop()

    def whole(self, theirs: str, default: int) -> tuple[int, str]:
        """Return a whole number of at least 0, and its origin as text."""
        value, text = self.source(theirs, default)
        if type(value) is int and 0 <= value < MOST:
            return value, text
        self.must(theirs, "a whole number of at least 0", value)
        return default, text

    def told(self) -> list[str]:
        """Return the conversions, one line each; keys that are unchanged share one line."""
        lines = [f"as they are: {', '.join(self.equal)}"] if self.equal else []
        lines += self.lines
        return [*lines, f"without effect here: {', '.join(self.free)}"] if self.free else lines


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return keys as dotted paths. An empty or null section has no keys; a null value counts as omitted."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{key}.")
        elif value is not None:
            found[f"{above}{key}"] = value
    return found
