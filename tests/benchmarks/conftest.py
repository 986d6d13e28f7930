import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def scripts_importable() -> Iterator[None]:
    """The benchmarks by their bare names, as they import each other; afterwards a library of the same name is back."""
    names = {path.stem for path in _SCRIPTS.glob("*.py")}

    def loaded() -> dict[str, object]:
        return {name: module for name, module in sys.modules.items() if name.split(".")[0] in names}

    of_libraries = loaded()
    for name in of_libraries:
        del sys.modules[name]
    sys.path.insert(0, str(_SCRIPTS))
    try:
        yield
    finally:
        sys.path.remove(str(_SCRIPTS))
        for name in loaded():
            del sys.modules[name]
        sys.modules.update(of_libraries)


@pytest.fixture(autouse=True)
def _scripts_importable() -> Iterator[None]:
    with scripts_importable():
        yield
