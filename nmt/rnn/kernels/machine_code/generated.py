"""Generated loops: their source, and its machine code."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from llvmlite import binding

from nmt.rnn.kernels.machine_code.native import Native
from nmt.rnn.kernels.machine_code.objects import object_of
from nmt.rnn.kernels.machine_code.store import Record


class GeneratedLoop(Native):
    """A task (part, parts, table) whose source is in the language of loop_code.py."""

    def __init__(self, source: str, name: str) -> None:
        super().__init__(("int64", "int64", "voidptr"))
        self.source, self.name = source, name
        self.recipe = ["generated", source, name]

    @property
    def label(self) -> str:
        """Return what it does, for readers."""
        return self.name

    @property
    def content(self) -> str:
        """Return all that it is made of."""
        return self.source

    @property
    def _types(self) -> str:
        return ""

    @property
    def _python_code(self) -> str:
        return ""

    def compile(self) -> Record:
        """Return its machine code, made anew."""
        # By its name: what writes loops is not loaded where all come from the store.
        module = import_module("nmt.rnn.kernels.loops.loop_code").module_of(self.source, self.entry)
        return object_of(binding.parse_assembly(str(module)), self.entry)


@cache
def generated_loop(source: str, name: str) -> GeneratedLoop:
    """Return the same source is one loop in a process."""
    return GeneratedLoop(source, name)
