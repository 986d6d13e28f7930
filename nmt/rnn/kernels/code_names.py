"""Names of machine code by all that it is made of, so that no code can be stale. Imports no Numba.

What may be compiled into a kernel: the kernels' own files, all of them at once; the file it is written in, where that
is another one; what it closes over; the types it is compiled for; the target, and whatever compiles.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from types import CodeType
from typing import Any

import numpy as np
from llvmlite import binding

from nmt.rnn.kernels.features import FINGERPRINT, TARGET, fingerprint

_OWN = f"{__package__}."
_HARMLESS = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_DEBUG_CACHE")
"""Settings of Numba's that no code depends on."""


def code_name(function: Callable[..., Any], types: str) -> str | None:
    """The name of a function's code for these types, the same in every process; None where it closes over something
    whose content has none, or nobody knows its source."""
    described = content_of(function)
    if described is None:
        return None
    digest = hashlib.sha256("\0".join((compiled_by(), described, types)).encode()).hexdigest()
    return f"{function.__name__.lstrip('_')}-{digest[:32]}"


def content_of(function: Any) -> str | None:
    """What a function is, in words that say the same in every process; None where there are none."""
    own = function.__module__.startswith(_OWN)
    # The bytes that Python runs besides: a file may change between its import and now.
    parts = [function.__module__, function.__qualname__, _code(function.__code__)]
    if not own:
        lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
        if not lines:
            return None
        parts.append("".join(lines))
    for cell in function.__closure__ or ():
        found = _value(cell.cell_contents)
        if found is None:
            return None
        parts.append(found)
    return "\0".join(parts)


def _code(code: CodeType) -> str:
    nested = [_code(part) for part in code.co_consts if isinstance(part, CodeType)]
    plain = [part for part in code.co_consts if not isinstance(part, CodeType)]
    constants = [sorted(map(repr, part)) if isinstance(part, frozenset) else repr(part) for part in plain]
    return repr((code.co_code.hex(), constants, code.co_names, code.co_varnames, nested))


def _value(value: Any) -> str | None:
    """A value that a function closes over."""
    if value is None or isinstance(value, (bool, int, float, str, np.generic, np.dtype)):
        return repr(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, tuple):
        found = [_value(part) for part in value]
        return None if None in found else repr(found)
    # A function of machine code, by what calls it by.
    content: str | None = getattr(value, "code_name", None)
    return content


@lru_cache(maxsize=1)
def compiled_by() -> str:
    """The kernels' files, the target, and whatever compiles, in words."""
    host = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    settings = sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_") and k not in _HARMLESS)
    versions = [version(name) for name in ("numba", "llvmlite", "numpy")]
    where = platform.machine(), sys.platform, sys.implementation.cache_tag
    return repr((FINGERPRINT, TARGET, host, where, versions, settings))


def sources_are_unchanged() -> bool:
    """Whether the kernels' files are still those that this process began with: else what it compiles may be made of
    others than it says."""
    return fingerprint() == FINGERPRINT
