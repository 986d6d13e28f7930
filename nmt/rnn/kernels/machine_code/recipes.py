"""Recipes: descriptions of functions of machine code, as values that JSON can hold, by which another process makes the
same function; and generated loops, whose recipe is their source."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from llvmlite import binding

from nmt.rnn.kernels.machine_code.native import Jitted, Native
from nmt.rnn.kernels.machine_code.objects import object_of
from nmt.rnn.kernels.machine_code.store import Record


class GeneratedLoop(Native):
    """A task (part, parts, table) whose source is in the language of loop_code.py."""

    _types = _python_code = ""  # its source says it all

    def __init__(self, source: str, name: str) -> None:
        super().__init__(("int64", "int64", "voidptr"))
        self.source, self.label = source, name
        self.recipe = ["generated", source, name]

    @property
    def content(self) -> str:
        """Return the source, which determines the machine code."""
        return self.source

    def compile(self) -> Record:
        """Compile the source and return its machine code."""
        # Imported only here: a process that takes all loops from the store does not load the compiler of loops.
        module = import_module("nmt.rnn.kernels.loops.loop_code").module_of(self.source, self.entry)
        return object_of(binding.parse_assembly(str(module)), self.entry)


@cache
def generated_loop(source: str, name: str) -> GeneratedLoop:
    """Return the loop with this source; the same source gives the same object within a process."""
    return GeneratedLoop(source, name)


Recipe = list[Any]


def family(make: Callable[..., Native]) -> Callable[..., Native]:
    """Decorate a module-level function that makes a task for given dtypes and options: the same arguments give the same
    task, and the task gets a recipe by which other processes can make it."""

    @cache
    def member(*args: Any, **named: Any) -> Native:
        native = make(*args, **named)
        plain = [str(value) if isinstance(value, np.dtype) else value for value in args]
        native.recipe = ["family", make.__module__, make.__qualname__, plain, named]
        return native

    return member


def recipe_of(native: Native) -> Recipe | None:
    """Return the recipe of a function; None if only this process can make it: it is no attribute of a module."""
    if native.recipe is not None:
        return list(native.recipe)
    if not isinstance(native, Jitted):
        return None
    module = native.function.__module__
    for name, value in vars(sys.modules.get(module, sys)).items():
        if value is native or getattr(value, "native", None) is native:
            return ["named", module, name]
        if native.by_table and getattr(value, "function", None) is native.function:
            return ["kernel", module, name, list(native.argument_types)]
    return None


def native_of(recipe: Recipe) -> Native:
    """Return the function that a recipe makes."""
    kind, module, name, *more = recipe
    if kind == "generated":
        return generated_loop(module, name)
    value = getattr(import_module(module), name)
    if kind == "kernel":
        made: Native = value.native(tuple(more[0]))
        return made
    if kind == "family":
        args, named = more
        return value(*(np.dtype(text) if isinstance(text, str) else text for text in args), **named)
    return value if isinstance(value, Native) else value.native
