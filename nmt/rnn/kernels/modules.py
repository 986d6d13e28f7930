"""Generated modules on disk: written once under the name of their content, imported, and compiled by Numba beside
it."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from threading import RLock
from types import ModuleType

from nmt.interruption import forkable
from nmt.rnn.kernels.features import FINGERPRINT


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """`NMT_CACHE_DIR`, else `nmt` in the user's cache folder, else a folder for temporary files."""
    if os.environ.get("NMT_CACHE_DIR"):
        candidates = [Path(os.environ["NMT_CACHE_DIR"])]
    else:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        candidates = [home / "nmt"]
    candidates.append(Path(tempfile.gettempdir()) / f"nmt-{os.getuid() if hasattr(os, 'getuid') else 'user'}")
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="nmt-"))


def load_module(source: str, key: str) -> ModuleType:
    """Import generated source; `key` names its content. The same key is imported once per process."""
    name = f"nmt_{key}_{FINGERPRINT[:12]}"
    with _loading:
        if name not in _loaded:
            _loaded[name] = _import(source, name)
        return _loaded[name]


_loading = forkable(RLock())
_loaded: dict[str, ModuleType] = {}
"""Modules that have run to their end; `sys.modules` would also have one that an interruption has cut short."""


def _import(source: str, name: str) -> ModuleType:
    path = cache_folder() / f"{name}.py"
    if not path.exists():
        handle, aside = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as f:
            f.write(source)
        os.replace(aside, path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Numba looks functions of its cache up there
    spec.loader.exec_module(module)
    return module
