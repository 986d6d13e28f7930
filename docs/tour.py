"""docs/tour.md: renews the places that its links name, reads its stops, and draws each walk as a strip of them.

A link to a function is `[`Class.function`](../nmt/file.py#L1)`; here it gets the line of today, and the file where the
function lies today if it has moved and is the only one of its name. A stop is a heading `### 1. ` with such a link.
Below it lines that begin with `In:` and `Out:` promise what the function is given and gives back, as Python expressions
over its arguments, and `out` for its result: `` `x` float32 [T, B, D] ``. tests/test_tour.py runs the walks, looks
whether they come by all stops in their order, and compares the promises.
"""

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nmt.files import write_bytes
from nmt.rnn.show.drawing import head_of, sheet, text_at

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tour.md"
PICTURES = ROOT / "docs" / "pictures"

_LINK = re.compile(r"\[`(?P<name>[\w.]+)`\]\(\.\./(?P<file>nmt/[\w/]+\.py)#L(?P<line>\d+)\)")
_PROMISE = re.compile(r"`(?P<value>[^`]+)` (?P<kind>(?:bool|u?int|float|str)\d*)(?: \[(?P<axes>[^\]]*)\])?")


@dataclass(frozen=True)
class Promise:
    """A value by its expression: an array of a dtype and axes, or a number or text where there are no axes."""

    value: str
    kind: str
    axes: tuple[str, ...] | None


@dataclass(frozen=True)
class Stop:
    """A function on a walk. Compiled code is called by its address, so that nothing of it can be watched."""

    walk: str
    number: int
    name: str
    file: str
    is_compiled: bool
    given: tuple[Promise, ...]
    result: tuple[Promise, ...]


@lru_cache(maxsize=512)
def definitions(path: Path) -> dict[str, int]:
    """The line of each function and class of a file, by its name below those around it."""
    found: dict[str, int] = {}

    def look(node: ast.AST, around: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.FunctionDef | ast.ClassDef):
                found[around + inner.name] = inner.lineno
                look(inner, f"{around}{inner.name}.")
            else:
                look(inner, around)

    look(ast.parse(path.read_text("utf-8")), "")
    return found


def place_of(name: str, file: str) -> tuple[str, int]:
    """File and line of a function that is expected in `file`. Raises LookupError: it is not there, and not in one other
    file alone."""
    if (ROOT / file).is_file() and name in (there := definitions(ROOT / file)):
        return file, there[name]
    others = [path for path in sorted((ROOT / "nmt").rglob("*.py")) if name in definitions(path)]
    if len(others) != 1:
        raise LookupError(f"docs/tour.md: {name} must be defined in {file}, got {len(others)} other files with it")
    return str(others[0].relative_to(ROOT)), definitions(others[0])[name]


def refreshed(page: str) -> str:
    """The page with today's file and line in every link to a function."""

    def link(match: re.Match[str]) -> str:
        file, line = place_of(match["name"], match["file"])
        return f"[`{match['name']}`](../{file}#L{line})"

    return _LINK.sub(link, page)


def stops(page: str) -> list[Stop]:
    """The stops of all walks in their order; a walk is a section `## ` that has stops."""
    found = []
    for section in re.split(r"(?m)^## ", page)[1:]:
        walk = section.splitlines()[0]
        for part in re.split(r"(?m)^### (?=\d)", section)[1:]:
            heading, _, text = part.partition("\n")
            match = _LINK.search(heading)
            if match is None:
                raise LookupError(f"docs/tour.md: a stop must name a function, got {heading!r}")
            number = int(heading.split(".")[0])
            promised = [_promises(text, word) for word in ("In", "Out")]
            found.append(Stop(walk, number, match["name"], match["file"], heading.endswith("), compiled"), *promised))
    return found


def _promises(text: str, word: str) -> tuple[Promise, ...]:
    """What the paragraphs say that begin with this word."""
    told = " ".join(part for part in text.split("\n\n") if part.strip().startswith(f"{word}:"))
    kinds = [(m["value"], m["kind"], m["axes"]) for m in _PROMISE.finditer(" ".join(told.split()))]
    return tuple(
        Promise(value, kind, None if axes is None else tuple(a.strip() for a in axes.split(",")))
        for value, kind, axes in kinds
    )


# ---------------------------------------------------------------- pictures

# The columns of a strip, from what people touch to what the processor runs: by the first of these that a file is below.
LANES = (
    ("cli, train, inference", ("nmt/cli/", "nmt/train/", "nmt/inference/", "nmt/storage/", "nmt/config/"), "plain"),
    ("data", ("nmt/data/", "nmt/lines.py"), "leaf"),
    ("model, decode", ("nmt/model/", "nmt/decode/"), "new"),
    ("rnn: arrays, scan, stepping", ("nmt/rnn/arrays/", "nmt/rnn/scan/", "nmt/rnn/stepping/"), "before"),
    ("rnn: kernels", ("nmt/rnn/",), "loop"),
)
_LANE, _STOP, _GAP, _LEFT = 226.0, 22.0, 8.0, 18.0


def lane_of(file: str) -> int:
    """The column of a file."""
    return next(n for n, (_, folders, _) in enumerate(LANES) if file.startswith(folders))


def strip(title: str, walk: list[Stop]) -> str:
    """An SVG: stops from above to below, each in the column of its room; rooms without a stop are left out."""
    top, parts, left = head_of(()) + 24, [], {}
    for n, lane in enumerate(sorted({lane_of(stop.file) for stop in walk})):
        left[lane] = _LEFT + n * _LANE
        name, _, kind = LANES[lane]
        parts.append(text_at(left[lane] + 4, top - 10, name, f"label ink-{kind}" if kind != "plain" else "label"))
    corners = [(left[lane_of(stop.file)], top + n * (_STOP + _GAP)) for n, stop in enumerate(walk)]
    for (x, y), (next_x, next_y) in zip(corners, corners[1:], strict=False):
        start, middle = x + 14, y + _STOP + _GAP / 2
        path = f"M{start:.1f} {y + _STOP:.1f}V{middle:.1f}H{next_x + 14:.1f}V{next_y:.1f}"
        parts.append(f'<path d="{path}" class="edge"/>')
    for stop, (x, y) in zip(walk, corners, strict=True):
        kind = LANES[lane_of(stop.file)][2]
        style = f'class="{kind}"' + (' stroke-dasharray="4 3"' if stop.is_compiled else "")
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{_LANE - 14:.1f}" height="{_STOP:.1f}" rx="4" {style}/>')
        parts.append(text_at(x + 7, y + 15, f"{stop.number} {_short(stop.name)}", "name"))
    return sheet(title, parts, (), _LEFT + len(left) * _LANE - 14, corners[-1][1] + _STOP)


def _short(name: str) -> str:
    """A name that fits its box: without the class where both are too long."""
    return name if len(name) <= 27 else name.rsplit(".", 1)[-1]


def pictures(page: str) -> dict[str, str]:
    """All SVG documents, by the names of their files, which the page shows in the section of the walk."""
    found, all_stops = {}, stops(page)
    for section in re.split(r"(?m)^## ", page)[1:]:
        walk = section.splitlines()[0]
        for name in re.findall(r"\(pictures/(walk-[\w-]+\.svg)\)", section):
            found[name] = strip(f"{walk}: its stops", [stop for stop in all_stops if stop.walk == walk])
    return found


def main() -> None:
    """Renew the page and draw its pictures."""
    page = refreshed(PAGE.read_text("utf-8"))
    write_bytes(PAGE, page.encode())
    for name, picture in pictures(page).items():
        write_bytes(PICTURES / name, picture.encode())


if __name__ == "__main__":
    main()
