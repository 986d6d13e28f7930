"""Print how many lines of Python the project has, compared with what it should have; `make size`.

tests/test_sizes.py holds the bounds: a change that exceeds one takes something out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Extent:
    """Lines of Python of a folder, comments, docstrings and blank lines counted. goal: the most it should have; bound:
    the most it may have until then, which is only lowered."""

    goal: int
    bound: int


EXTENTS = {"nmt": Extent(72_000, 73_700), "tests": Extent(52_000, 53_500), "benchmarks": Extent(6_500, 6_500)}


def lines_below(folder: str) -> dict[str, int]:
    """Return the number of lines of each folder below a folder of the project; of its own files, `(top)`."""
    found: dict[str, int] = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        parts = path.relative_to(ROOT / folder).parts
        room = parts[0] if len(parts) > 1 else "(top)"
        found[room] = found.get(room, 0) + path.read_bytes().count(b"\n")
    return found


def main() -> None:
    """Print the table."""
    for folder, extent in EXTENTS.items():
        found = lines_below(folder)
        for room, count in sorted(found.items(), key=lambda one: -one[1]):
            print(f"{folder + '/' + room:24}{count:8,}")
        print(f"{folder:24}{sum(found.values()):8,} of {extent.bound:,}, goal {extent.goal:,}\n")


if __name__ == "__main__":
    main()
