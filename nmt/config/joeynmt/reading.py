"""JoeyNMT's keys one after another, what becomes of them, and which cannot be had."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nmt.config.complaints import shorten
from nmt.config.joeynmt.keys import MOVED
from nmt.config.section import MOST


@dataclass
class Reading:
    """left: JoeyNMT's keys not looked at yet, by their names in version 2, as paths with dots.
    written: What the file calls them, where that is something else. old: The layout is that of version 1."""

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
        """Return all keys of a file, those of version 1 under their later names."""
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
        """Return what the file calls a key."""
        return self.written.get(theirs, theirs)

    def take(self, theirs: str, default: Any = None) -> Any:
        """Return the value of a key, which then has been looked at."""
        return self.left.pop(theirs, default)

    def refuse(self, theirs: str, why: str) -> None:
        """A key that cannot be had; `why` goes on after its name."""
        self.problems.setdefault(self.name(theirs), f"{self.name(theirs)} {why}")

    def must(self, theirs: str, promise: str, got: Any, advice: str = "") -> None:
        """A key has a value that cannot be had."""
        self.refuse(theirs, f"must be {promise}, got {shorten(got)}" + (f"; {advice}" if advice else ""))

    def only(self, theirs: str, allowed: tuple[tuple[Any, ...], str]) -> None:
        """A key that may have a few values, which mean what ours do anyway."""
        if theirs not in self.left:
            return
        value, (choices, advice) = self.take(theirs), allowed
        if not any(value == choice and type(value) in (type(choice), int, float) for choice in choices):
            self.must(theirs, " or ".join(map(shorten, choices)), value, advice)
        else:
            self.equal.append(self.name(theirs))

    def source(self, theirs: str, default: Any) -> tuple[Any, str]:
        """Return the value of a key, or `default`, theirs where it is left out; the key and it, as text."""
        if theirs not in self.left:
            return default, f"no {theirs}"
        value = self.take(theirs)
        return value, f"{self.name(theirs)}: {shorten(value)}"

    def drop(self, *names: str) -> None:
        """Keys that mean nothing beside others of the file."""
        for theirs in names:
            if theirs in self.left:
                self.take(theirs)
                self.free.append(self.name(theirs))

    def put(self, ours: str, value: Any, theirs: str = "", note: str = "") -> None:
        """Set one of ours; theirs: the key and value it comes from, as text, or what is not given."""
        section = self.values
        *way, key = ours.split(".")
        for part in way:
            section = section.setdefault(part, {})
        section[key] = value
        said = f"{theirs} -> {ours}: {shorten(value)}" if theirs else f"{ours}: {shorten(value)}"
        self.lines.append(said + (f" ({note})" if note else ""))

    def same(self, theirs: str, ours: str, default: Any) -> Any:
        """Set one of ours to what theirs is, or to `default`, theirs where it is left out."""
        given = theirs in self.left
        value, text = self.source(theirs, default)
        self.put(ours, value, text)
        if given and self.name(theirs) == ours:
            self.equal.append(self.name(theirs))
            self.lines.pop()
        return value

    def changed(self, theirs: str, ours: str, default: Any, change: Callable[[Any], Any], note: str = "") -> None:
        """Set one of ours to what theirs becomes by `change`."""
        value, text = self.source(theirs, default)
        self.put(ours, change(value), text, note)
        if text == f"{ours}: {shorten(change(value))}" and not note:
            self.equal.append(ours)
            self.lines.pop()

    def whole(self, theirs: str, default: int) -> tuple[int, str]:
        """Return a whole number of at least 0, and where it comes from, as text."""
        value, text = self.source(theirs, default)
        if type(value) is int and 0 <= value < MOST:
            return value, text
        self.must(theirs, "a whole number of at least 0", value)
        return default, text

    def told(self) -> list[str]:
        """Return what became of what, one line each; keys that are ours, too, together."""
        lines = [f"as they are: {', '.join(self.equal)}"] if self.equal else []
        lines += self.lines
        return [*lines, f"without effect here: {', '.join(self.free)}"] if self.free else lines


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return keys as paths with dots. A section that is empty or null has none; a null is a key left out."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{key}.")
        elif value is not None:
            found[f"{above}{key}"] = value
    return found
