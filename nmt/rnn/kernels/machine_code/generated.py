"""Generated loops: their source and their machine code."""

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
        """Return the name, which says what the loop does."""
        return self.name

    @property
    def content(self) -> str:
        """Return the source, which determines the machine code."""
        return self.source

    @property
    def _types(self) -> str:
        return ""

    @property
    def _python_code(self) -> str:
        return ""

    def compile(self) -> Record:
        """Compile the source and return its machine code."""
        # Imported only here: a process that takes all loops from the store does not load the compiler of loops.
        module = import_module("nmt.rnn.kernels.loops.loop_code").module_of(self.source, self.entry)
        return object_of(binding.parse_assembly(str(module)), self.entry)


@cache
def generated_loop(source: str, name: str) -> GeneratedLoop:
    """Return the loop with this source; the same source gives the same object within a process."""
    return GeneratedLoop(source, name)
