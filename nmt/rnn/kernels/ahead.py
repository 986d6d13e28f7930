"""Compile on another core what will be needed soon: a process of its own puts it into the store.

Compiling holds the interpreter, so threads would only take turns. Where there is no store to hand things over in, no
second core, or no such process, whoever needs a function compiles it as always.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from time import sleep
from typing import Any

import nmt
from nmt.rnn.cores import default_threads
from nmt.rnn.kernels.native import Native, before_compiling
from nmt.rnn.kernels.recipes import Recipe, native_of, recipe_of
from nmt.rnn.kernels.store import shipped, store

_FIRST = (
    "import json, sys; path, wanted = json.load(sys.stdin); sys.path[:] = path; "
    "from nmt.rnn.kernels.ahead import compile_wanted; compile_wanted(wanted)"
)
_LOOK_SECONDS = 0.01

_begun: dict[str, subprocess.Popen[bytes]] = {}
"""By name of the code, the process that compiles it or has done so."""


def compile_ahead(wanted: Iterable[Native]) -> None:
    """Have functions compiled, in this order. Nothing happens for those that are there."""
    missing = [native for native in wanted if not _is_there(native)]
    kept = store()
    if not missing or kept.folder is None or not os.access(kept.folder, os.W_OK) or default_threads() < 2:
        return
    if getattr(sys, "frozen", False) or not Path(sys.executable or "").name.startswith(("python", "pypy")):
        return  # that would not be an interpreter, but somebody's program
    # Not the working folder: whoever starts a command there does not ask to run what lies in it.
    path = [str(Path(nmt.__file__).parents[1]), *(entry for entry in sys.path if entry)]
    recipes = [recipe_of(native) for native in missing]
    nowhere: Any = {stream: subprocess.DEVNULL for stream in ("stdout", "stderr")}
    try:
        process = subprocess.Popen([sys.executable, "-P", "-c", _FIRST], stdin=subprocess.PIPE, **nowhere)
        with process.stdin as stream:  # type: ignore[union-attr]
            stream.write(json.dumps((path, recipes)).encode())
    except OSError:
        return
    for native in missing:
        _begun[str(native.code_name)] = process


def _is_there(native: Native) -> bool:
    if native.is_loaded:
        return True
    name = native.code_name
    return name is None or name in _begun or shipped().has(str(native.source_name)) or store().has(name)


def compile_wanted(recipes: list[Recipe | None]) -> None:
    """What such a process does."""
    for recipe in recipes:
        if recipe is not None:
            _ = native_of(recipe).address


def _await_other(native: Native) -> None:
    """Wait while such a process compiles this."""
    process = _begun.get(str(native.code_name)) if _begun else None
    while process is not None and process.poll() is None and not store().has(str(native.code_name)):
        sleep(_LOOK_SECONDS)


before_compiling.append(_await_other)
