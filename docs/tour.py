"""Read docs/tour.md: check the functions that its links name, and describe each walk as a chain of its stops.

A link to a function is `[`Class.function`](../nmt/file.py#Class.function)`; `make docs` corrects the file where the
function has moved and is the only one of its name. A stop is a heading `### 1. ` with such a link. Below it lines that
begin with `In:` and `Out:` promise what the function is given and gives back, as Python expressions over its arguments,
and `out` for its result: `` `x` float32 [T, B, D] ``. tests/test_tour.py runs the walks, checks that they come by all
stops in their order, and compares the promises.
"""

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from docs.show.dot import Box, Panel, document
from nmt.system.files import write_bytes

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "tour.md"

LINK = re.compile(r"\[`(?P<name>[\w.]+)`\]\(\.\./(?P<file>nmt/[\w/]+\.py)#(?P<anchor>[\w.]+)\)")
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
    """Return the line of each function and class of a file, by its name below those around it."""
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


def place_of(name: str, file: str) -> str:
    """Return the file of a function that is expected in `file`. Raises LookupError: It is not there, and not in one
    other file alone."""
    if (ROOT / file).is_file() and name in definitions(ROOT / file):
        return file
    others = [path for path in sorted((ROOT / "nmt").rglob("*.py")) if name in definitions(path)]
    if len(others) != 1:
        raise LookupError(f"docs/tour.md: {name} must be defined in {file}, got {len(others)} other files with it")
    return str(others[0].relative_to(ROOT))


def refreshed(page: str) -> str:
    """Return the page with today's file in every link to a function."""

    def link(match: re.Match[str]) -> str:
        name = match["name"]
        return f"[`{name}`](../{place_of(name, match['file'])}#{name})"

    return LINK.sub(link, page)


def stops(page: str) -> list[Stop]:
    """The stops of all walks in their order; a walk is a section `## ` that has stops."""
    found = []
    for section in re.split(r"(?m)^## ", page)[1:]:
        walk = section.splitlines()[0]
        for part in re.split(r"(?m)^### (?=\d)", section)[1:]:
            heading, _, text = part.partition("\n")
            match = LINK.search(heading)
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

# The rooms that a walk passes, from what people touch to what the processor runs: the first that a file lies below.
LANES = (
    ("cli, train, inference", ("nmt/cli/", "nmt/train/", "nmt/inference/", "nmt/storage/", "nmt/config/"), "plain"),
    ("data", ("nmt/data/", "nmt/system/lines.py"), "leaf"),
    ("model, decode", ("nmt/model/", "nmt/decode/"), "new"),
    ("rnn: arrays, scan, stepping", ("nmt/rnn/arrays/", "nmt/rnn/scan/", "nmt/rnn/stepping/"), "before"),
    ("rnn: kernels", ("nmt/rnn/",), "loop"),
)


def lane_of(file: str) -> int:
    """Return the column of a file."""
    return next(n for n, (_, folders, _) in enumerate(LANES) if file.startswith(folders))


def strip(title: str, walk: list[Stop]) -> str:
    """Return a DOT document: the stops one below the other, in the colours of their rooms."""
    boxes = [
        Box(n, n, LANES[lane_of(stop.file)][2], f"{stop.number} {stop.name}", "compiled" if stop.is_compiled else "")
        for n, stop in enumerate(walk)
    ]
    legend = [(kind, name) for n, (name, _, kind) in enumerate(LANES) if n in {lane_of(stop.file) for stop in walk}]
    return document(title, [Panel("", boxes, [(n, n + 1) for n in range(len(walk) - 1)])], legend)


def pictures(page: str) -> dict[str, str]:
    """Return all DOT documents, by the names of the files that they become; the page shows them in their sections."""
    found, all_stops = {}, stops(page)
    for section in re.split(r"(?m)^## ", page)[1:]:
        walk = section.splitlines()[0]
        for name in re.findall(r"\(pictures/(walk-[\w-]+\.svg)\)", section):
            found[name] = strip(f"{walk}: its stops", [stop for stop in all_stops if stop.walk == walk])
    return found


def main() -> None:
    """Renew the page's links."""
    write_bytes(PAGE, refreshed(PAGE.read_text("utf-8")).encode())
