"""Loading the cell that a command names: a built-in one, or a class or function of a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from nmt.errors import NMTError
from nmt.rnn.cell import Cell
from nmt.rnn.cells.by_name import CELLS_BY_NAME
from nmt.rnn.own_code import make_cell, not_a_maker, own_code

_PAGE = "see docs/add-a-cell.md"


def load_cell(name: str, input_size: int, hidden_size: int) -> Cell:
    """Return a cell of these sizes by name: `lstm` or another name of the settings, `my_cells.MyCell` if the current
    folder has that file, or `FOLDER/my_cells.py:MyCell`.

    Raises NMTError: it does not exist, its file cannot be run, or it makes no cell.
    """
    if name in CELLS_BY_NAME:
        return CELLS_BY_NAME[name](input_size, hidden_size)
    path, _, attribute = name.rpartition(":")
    module, dot, last = name.rpartition(".")
    if dot and last.isidentifier() and Path(f"{module}.py").is_file():
        path, attribute = f"{module}.py", last
    if not path.endswith(".py") or not attribute.isidentifier():
        close = get_close_matches(name.lower(), CELLS_BY_NAME, n=1)
        advice = f"did you mean {close[0]}?" if close else f"names: {', '.join(CELLS_BY_NAME)}; {_PAGE}"
        raise NMTError(f"CELL: must be the name of a cell, or FILE.py:CLASS, got {name}; {advice}")
    return make_cell(f"CELL: {name}", _from_file(name, Path(path), attribute), input_size, hidden_size)


def _from_file(name: str, path: Path, attribute: str) -> Callable[[int, int], Cell]:
    """Run a file and return a class of cells, or a function, that is written in it."""
    if not path.is_file():
        raise NMTError(f"CELL: {path} must be a file with Python code, got none such; {_PAGE}")
    # Under a distinct name: a file called json.py must not stand in for Python's.
    module_name = f"cells of {path.stem}"
    spec = spec_from_file_location(module_name, path.resolve())
    if spec is None or spec.loader is None:
        raise RuntimeError(f"no loader for {path}")
    module = sys.modules[module_name] = module_from_spec(spec)
    with _importable(path.resolve().parent), own_code(f"CELL: {name}", "must be a cell of that file", _PAGE):
        spec.loader.exec_module(module)
        found: Any = getattr(module, attribute)
    got = not_a_maker(found, module_name)
    if got is not None:
        raise NMTError(f"CELL: {name} must be a class of cells or a function of that file, got {got}; {_PAGE}")
    return found


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Make modules in the file's folder importable during the block, after all others."""
    sys.path.append(str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.reverse()  # the last one is the entry added above
            sys.path.remove(str(folder))
            sys.path.reverse()
