"""Name machine code by a digest of everything that determines it, so that stored code is never stale. Imports no Numba.

The following may become part of a kernel's machine code: all source files of the kernels; the file of the kernel itself
and the functions it uses, if they are in other files; the values it closes over; the types it is compiled for; the
target; and the compiler.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import sys
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from nmt.rnn.kernels.machine_code.features import FINGERPRINT, TARGET, TARGET_SETTINGS, fingerprint

_OWN = "nmt.rnn.kernels."
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DEBUG_CACHE", *TARGET_SETTINGS)
"""Settings of Numba that affect machine code only through the target, which is named separately."""

_PLAIN = (bool, int, float, str, np.generic)
"""Types whose `repr` describes a value completely."""


def source_name(label: str, content: str, types: str) -> str:
    """Return the name of a function to compile, derived from its sources and the target. It is the same for every
    compiler and every version of Python."""
    return _digest(label, repr((FINGERPRINT, replace(TARGET, triple=""), *TARGET.machine)), content, types)


def code_name(label: str, source_name: str, code: str) -> str:
    """Return the name of the machine code that this process makes of a function with this `source_name`. It also
    depends on the compiler and on `code`, the bytecode that this process has imported, as a file may have changed since
    its import."""
    return _digest(label, source_name, compiler(), code)


def _digest(label: str, *parts: str) -> str:
    return f"{label}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def content_of(function: Any) -> str | None:
    """Return a text that describes a function and is the same in every process. Return None if there is no such text:
    the function closes over a value without one, or its source cannot be found."""
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
    """Return the global names used in a function and in the functions nested in it."""
    inside = [name for part in code.co_consts if isinstance(part, CodeType) for name in _names(part)]
    return [*code.co_names, *inside]


def _used_globals(function: Any) -> list[Any]:
    """Return the functions and plain values that a function reads from its own module, or as attributes of a user's
    module that it has imported. They are compiled in, and where they come from other files the text of the function's
    file does not describe them."""
    names = _names(function.__code__)
    found = [function.__globals__.get(name) for name in names]
    modules: list[ModuleType] = []
    for value in found:  # the list grows in the loop, by the attributes of modules
        if isinstance(value, ModuleType) and value not in modules and _is_of_user(value.__name__):
            modules.append(value)
            found += [getattr(value, name, None) for name in names]
    return [value for value in found if isinstance(value, _PLAIN) or _is_function_of_user(value)]


def _is_function_of_user(value: Any) -> bool:
    function = getattr(value, "function", value)
    function = getattr(function, "written_by", function)
    return isinstance(function, FunctionType) and _is_of_user(function.__module__)


def _is_of_user(module: str) -> bool:
    """Return whether a module belongs neither to the kernels nor to Numba or NumPy."""
    return not f"{module}.".startswith((_OWN, "numba.", "numpy."))


def _value(value: Any, seen: set[int]) -> str | None:
    """Return a text for a value that a function closes over; None if there is none."""
    if value is None or isinstance(value, (*_PLAIN, np.dtype)):
        return repr(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, (tuple, list)):
        found = [_value(part, seen) for part in value]
        return None if None in found else repr(found)
    if isinstance(value, FunctionType):
        return _content(value, seen)
    # A compiled function has its own description.
    content: str | None = getattr(value, "content", None)
    return content


def python_code(code: CodeType) -> str:
    """Return a text for a function's bytecode, with its constants, names and nested functions."""
    nested = [python_code(part) for part in code.co_consts if isinstance(part, CodeType)]
    plain = [part for part in code.co_consts if not isinstance(part, CodeType)]
    constants = [sorted(map(repr, part)) if isinstance(part, frozenset) else repr(part) for part in plain]
    return repr((code.co_code.hex(), constants, code.co_names, code.co_varnames, nested))


@lru_cache(maxsize=1)
def compiler() -> str:
    """Return a text for the compiler: the versions of Python, Numba, llvmlite and NumPy, and Numba's settings."""
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in _HARMLESS)
    versions = [version(name) for name in ("numba", "llvmlite", "numpy")]
    return repr((sys.implementation.cache_tag, versions, settings))


def sources_are_unchanged() -> bool:
    """Return whether the source files of the kernels are the same as when this process started. If not, compiled code
    may not match its name."""
    return fingerprint() == FINGERPRINT
