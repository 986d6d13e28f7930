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
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from nmt.rnn.kernels.features import FINGERPRINT, TARGET, fingerprint

_OWN = f"{__package__}."
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DEBUG_CACHE", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")
"""Settings of Numba's that no code depends on; the last two are ours (see features.py)."""


def source_name(label: str, content: str, types: str) -> str:
    """The name of what is to be compiled, by its sources and the target: the same for every compiler and version of
    Python."""
    return _digest(label, repr((FINGERPRINT, TARGET, platform.machine(), sys.platform)), content, types)


def code_name(label: str, content: str, types: str, code: str) -> str:
    """The name of machine code of that by this process, which besides has imported the sources as these bytes for
    Python: a file may change between its import and now."""
    return _digest(label, source_name(label, content, types), compiler(), code)


def _digest(label: str, *parts: str) -> str:
    return f"{label}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def content_of(function: Any) -> str | None:
    """What a function is, in words that say the same in every process; None where there are none: it closes over
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
        found = [function.__globals__.get(name) for name in _names(function.__code__)]
        used += [value for value in found if _is_used(value)]
    for value in used:
        content = _value(value, seen)
        if content is None:
            return None
        parts.append(content)
    return "\0".join(parts)


def _names(code: CodeType) -> list[str]:
    """The global names in a function and those inside it."""
    inside = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *inside]


def _is_used(value: Any) -> bool:
    """Whether a global value is a function of somebody's that is not one of the kernels' own files."""
    function = getattr(value, "function", value)
    function = getattr(function, "written_by", function)
    return isinstance(function, FunctionType) and not function.__module__.startswith((_OWN, "numba.", "numpy."))


def _value(value: Any, seen: set[int]) -> str | None:
    """A value that a function closes over."""
    if value is None or isinstance(value, (bool, int, float, str, np.generic, np.dtype)):
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
    """What Python runs of a function, in words."""
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
    """Whether the kernels' files are still those that this process began with: else what it compiles may be made of
    others than it says."""
    return fingerprint() == FINGERPRINT
