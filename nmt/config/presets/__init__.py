"""Named settings to start from: the YAML files of this folder. A configuration that names a preset gives at least its
texts, and overrides the preset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from nmt.config.yaml_text import parse_yaml

Preset = Literal["tiny", "low-resource", "character", "edits", "captions"]
OF_WORDS = "character", "edits"
"""Those for lists of words."""
NAMES: tuple[str, ...] = get_args(Preset)


def preset_values(name: str) -> dict[str, Any]:
    """Return the settings of one of NAMES, as sections of keys and values."""
    values: dict[str, Any] = parse_yaml(files(__name__).joinpath(f"{name}.yaml").read_text("utf-8"))
    return values


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `below` overridden by those of `above`, section by section."""
    found = dict(below)
    for key, value in above.items():
        under = below.get(key)
        found[key] = merged(under, value) if isinstance(value, dict) and isinstance(under, dict) else value
    return found


def settings_of_preset(name: str, values: Mapping[str, Any]) -> list[str]:
    """Return in words which of `values`, all settings, are as the preset has them: one line for each section."""
    lines = []
    for section, own in preset_values(name).items():
        listed = ", ".join(f"{key} {_text(value)}" for key, value in _kept(own, values[section]))
        lines += [f"preset {name}: {section}: {listed}"] if listed else []
    return lines


def _kept(preset: Mapping[str, Any], values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield keys (relative to the section) and values of a preset that are also in `values`."""
    for key, value in preset.items():
        if isinstance(value, dict):
            yield from _kept(value, values[key], f"{before}{key}.")
        elif values[key] == value:
            yield f"{before}{key}", value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_NEIGHBOUR = 2.5
"""The factor of pairs within which a measured point is a neighbour."""


@dataclass(frozen=True)
class Point:
    """One row of `python recipes/four_sizes.py`: means over its seeds. kind: Name of the text. minutes: Of one core.
    bleu, chrf: Of sentences that were not read; held_out: of the 5 % that training holds out; elsewhere: of another
    kind of text, None where there was none. right: Percentage of right words, for lists of words."""

    kind: str
    pairs: int
    minutes: int
    seeds: int = 1
    bleu_held_out: float | None = None
    chrf_held_out: float | None = None
    bleu: float | None = None
    chrf: float | None = None
    bleu_elsewhere: float | None = None
    chrf_elsewhere: float | None = None
    right: float | None = None


@cache
def measured() -> tuple[Point, ...]:
    """Return all points, those of few pairs first."""
    rows = json.loads((Path(__file__).parent / "measured.json").read_text("utf-8"))
    return tuple(sorted((Point(**row) for row in rows), key=lambda one: one.pairs))


def near(pairs: int, of_words: bool = False) -> list[Point]:
    """Return the points with about so many pairs of sentences, or of words: of each kind of text the nearest one that
    promises no more than so many pairs give, or the nearest above."""

    def far(one: Point) -> float:
        return max(pairs, one.pairs) / max(1, min(pairs, one.pairs))

    close = [one for one in measured() if (one.right is not None) is of_words and far(one) <= _NEIGHBOUR]
    close.sort(key=lambda one: (one.pairs > 1.1 * pairs, far(one)), reverse=True)
    return list({one.kind: one for one in close}.values())


def expectation(pairs: int, of_words: bool = False) -> str | None:
    """Return a line that says what to expect of so much text; None where nothing like it was measured."""
    if not (points := near(pairs, of_words)):
        return None
    name = "of 100 words right" if of_words else "BLEU"
    said = " or ".join(
        f"{one.right if of_words else one.bleu:.0f} {name} (as {one.pairs:,} pairs of {one.kind})" for one in points
    )
    elsewhere = [one.bleu_elsewhere for one in points if one.bleu_elsewhere is not None]
    other = f", and at most {max(elsewhere):.1f} on another kind of text" if elsewhere else ""
    return f"expect about {said} on text like this{other}; docs/quality.md says what that is good for"
