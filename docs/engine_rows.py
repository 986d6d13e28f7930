"""The tests in docs/engine-rows.md: finds them in tests/rows by their names and writes them into the page."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "engine-rows.md"
FOLDER = ROOT / "tests" / "rows"
BUGS = FOLDER / "test_known_bugs.py"
PENDING = "pending"


def test_functions(path: Path) -> list[ast.FunctionDef]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text("utf-8"))
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


def tests_of_rows() -> dict[str, list[str]]:
    """Names of the tests of each row, `test_R07_...` being one of R07; without a row under the empty name."""
    found: dict[str, list[str]] = {}
    for path in sorted(FOLDER.glob("test_*rows*.py")):
        for function in test_functions(path):
            match = re.match(r"test_([AMRCV]\d\d)_", function.name)
            found.setdefault(match.group(1) if match else "", []).append(function.name)
    return found


def refreshed(page: str) -> str:
    """The page with the tests there are in the last column of its tables, and the list of bugs.

    A row without a test keeps what stands there (a script, a dash) and is pending otherwise.
    """
    tests = tests_of_rows()

    def row(match: re.Match[str]) -> str:
        names, other = tests.get(match.group("row")), match.group("test")
        if names:
            other = ", ".join(f"`{name}`" for name in dict.fromkeys(names))
        elif other.startswith("`test_"):
            other = PENDING
        return match.group("front") + other + " |"

    page = re.sub(r"(?m)^(?P<front>\| (?P<row>[AMRCV]\d\d) \|.*\| )(?P<test>[^|]*) \|$", row, page)
    head, _, _ = page.partition("\n- `test_")
    return head.rstrip("\n") + "\n\n" + "".join(map(_bug, test_functions(BUGS)))


def _bug(function: ast.FunctionDef) -> str:
    story = " ".join((ast.get_docstring(function) or "").split())
    return f"- `{function.name}`: {story}\n"
