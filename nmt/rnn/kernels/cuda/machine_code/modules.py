"""Modules of generated kernels: run once per process, under a name derived from their content."""

from __future__ import annotations

import linecache
import sys
from threading import RLock
from types import ModuleType

from nmt.system.interruption import forkable


def load_module(source: str, key: str) -> ModuleType:
    """Return the module of generated source; `key` identifies its content. A key is run once per process."""
    name = f"nmt_{key}"
    with _loading:
        if name not in _loaded:
            _loaded[name] = _run(source, name)
        return _loaded[name]


_loading = forkable(RLock())
_loaded: dict[str, ModuleType] = {}
"""Modules that have run completely; `sys.modules` would also contain one that was interrupted."""


def _run(source: str, name: str) -> ModuleType:
    place = f"<{name}>"
    # For tracebacks, for `inspect.getsource`, and for the name of its code.
    linecache.cache[place] = (len(source), None, source.splitlines(keepends=True), place)
    module = ModuleType(name)
    sys.modules[name] = module  # Numba looks up functions there
    exec(compile(source, place, "exec"), vars(module))  # noqa: S102
    return module
