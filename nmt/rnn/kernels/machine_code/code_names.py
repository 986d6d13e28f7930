"""Names of machine code by all that it is made of, so that no code can be stale. Imports no Numba.

What may be compiled into a kernel: the kernels' own files, all of them at once; the file it is written in and the
functions it uses, where those are other files; what it closes over; the types it is compiled for; the target, and
whatever compiles.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import platform
import sys
from functools import lru_cache
from importlib.metadata import version
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from nmt.rnn.kernels.machine_code.features import FINGERPRINT, TARGET, TOLD, fingerprint

_OWN = "nmt.rnn.kernels."
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DEBUG_CACHE", *TOLD)
"""Settings of Numba's that no code depends on but by its target."""

_PLAIN = (bool, int, float, str, np.generic)
"""Values whose words say all that they are."""


def source_name(label: str, content: str, types: str) -> str:
    """Return the name of what is to be compiled, by its sources and the target: the same for every compiler and version
    of Python."""
    return _digest(label, repr((FINGERPRINT, TARGET, platform.machine(), sys.platform)), content, types)


def code_name(label: str, source_name: str, code: str) -> str:
    """Return the name of machine code of what has that `source_name` by this process, which besides has imported the
    sources as these bytes for Python: a file may change between its import and now."""
    return _digest(label, source_name, compiler(), code)


def _digest(label: str, *parts: str) -> str:
    return f"{label}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def content_of(function: Any) -> str | None:
    """Return what a function is, in words that say the same in every process; None where there are none: it closes over
    something whose content has none, or nobody knows its source."""
    return _content(function, set())


def _content(function: Any, seen: set[int]) -> str | None:
    function = getattr(function, "written_by", function)
    if id(function) in seen:
        return ""
    seen.add(id(function))
    parts = [function.__module__, function.__qualname__]
    used = [cell.cell_contents for cell in function.__closure__ or ()]
    if not function.__module__.startswith(_OWN):
        lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
        if not lines:
            return None
        parts.append("".join(lines))
        used += _used_globals(function)
    for value in used:
        content = _value(value, seen)
        if content is None:
            return None
        parts.append(content)
    return "\0".join(parts)


def _names(code: CodeType) -> list[str]:
    """Return the global names in a function and those inside it."""
    inside = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *inside]


def _used_globals(function: Any) -> list[Any]:
    """Return what a function takes from its module, or by a name of a module that this one has imported: functions, and
    plain values, which are compiled in. The text of the file does not say what those are that come from other files."""
    names = _names(function.__code__)
    found = [function.__globals__.get(name) for name in names]
    modules: list[ModuleType] = []
    for value in found:  # which grows meanwhile, by what is in modules
        if isinstance(value, ModuleType) and value not in modules and _is_of_user(value.__name__):
            modules.append(value)
            found += [getattr(value, name, None) for name in names]
    return [value for value in found if isinstance(value, _PLAIN) or _is_function_of_user(value)]


def _is_function_of_user(value: Any) -> bool:
    function = getattr(value, "function", value)
    function = getattr(function, "written_by", function)
    return isinstance(function, FunctionType) and _is_of_user(function.__module__)


def _is_of_user(module: str) -> bool:
    """Return whether it is neither one of the kernels' own files nor of a package that compiles."""
    return not f"{module}.".startswith((_OWN, "numba.", "numpy."))


def _value(value: Any, seen: set[int]) -> str | None:
    """Return a value that a function closes over."""
    if value is None or isinstance(value, (*_PLAIN, np.dtype)):
        return repr(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, (tuple, list)):
        found = [_value(part, seen) for part in value]
        return None if None in found else repr(found)
    if isinstance(value, FunctionType):
        return _content(value, seen)
    # A function of machine code says itself what it is.
    content: str | None = getattr(value, "content", None)
    return content


def python_code(code: CodeType) -> str:
    """Return what Python runs of a function, in words."""
    nested = [python_code(part) for part in code.co_consts if isinstance(part, CodeType)]
    plain = [part for part in code.co_consts if not isinstance(part, CodeType)]
    constants = [sorted(map(repr, part)) if isinstance(part, frozenset) else repr(part) for part in plain]
    return repr((code.co_code.hex(), constants, code.co_names, code.co_varnames, nested))


@lru_cache(maxsize=1)
def compiler() -> str:
    """Whatever compiles, in words."""
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in _HARMLESS)
    versions = [version(name) for name in ("numba", "llvmlite", "numpy")]
    return repr((sys.implementation.cache_tag, versions, settings))


def sources_are_unchanged() -> bool:
    """Return whether the kernels' files are still those that this process began with: else what it compiles may be made
    of others than it says."""
    return fingerprint() == FINGERPRINT
