"""Build a library for C: compile the host and link it with the functions of each level of processors."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from nmt.errors import CheckpointError, ConfigError
from nmt.exporting.c.level import MODEL_NAME
from nmt.exporting.c.text_writer import obstacle_here
from nmt.exporting.description import check_exported
from nmt.exporting.elsewhere import run_for_level
from nmt.system.files import new_folder, write_bytes, writing
from nmt.system.paths import check_new_folder

if TYPE_CHECKING:
    from nmt.storage.saved_model import SavedModel

_HERE = Path(__file__).parent
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra")
_SHARED = ("text_tables.h", "model.h", MODEL_NAME)
"""Files that are the same for all levels."""
HEADER, EXAMPLE = "translator.h", "example.c"

_V3 = " && ".join(f'F("{feature}")' for feature in ("avx2", "fma", "bmi", "bmi2"))
_V4 = " && ".join([_V3, *(f'F("avx512{part}")' for part in ("f", "bw", "cd", "dq", "vl"))])
_LEVELS = {
    "x86_64": {
        "avx512_vnni": f'{_V4} && F("avx512vnni")',
        "avx512": _V4,
        "avx2_vnni": f"{_V3} && has_avxvnni()",
        "avx2": _V3,
        "generic": "1",
    },
    "aarch64": {"neon_dotprod": "getauxval(AT_HWCAP) >> 20 & 1", "neon": "1"},
}
"""By machine, the levels, the best one first, each with the condition under which a processor has it: features by their
names in GCC, or the bit ASIMDDP of Linux."""
_OF_INT8 = ("avx512_vnni", "avx2_vnni", "neon_dotprod")
"""Levels that differ from the next one only in products of int8."""
_ASKING = {
    "x86_64": """#include <cpuid.h>
#define F(name) __builtin_cpu_supports(name)
static int has_avxvnni(void) {
  unsigned a = 0, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
""",
    "aarch64": "#include <sys/auxv.h>\n",
}


class Compiler:
    """The compiler that the environment variable CC names, or cc, with the tools that belong to it.

    Raises ConfigError: there is none, or it compiles for another kind of machine.
    """

    def __init__(self) -> None:
        self.command = shlex.split(os.environ.get("CC") or "cc")
        target = self._ask("-dumpmachine")
        self.machine = target.split("-")[0]
        here = "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
        if "linux" not in target or self.machine not in ("aarch64", here):
            raise ConfigError(
                f"--to c: must have a compiler for Linux on {' or '.join(sorted({'aarch64', here}))}, got one for "
                f"{target}; name another in the variable CC"
            )
        self.objcopy, self.ar = (self._ask(f"-print-prog-name={name}") for name in ("objcopy", "ar"))

    def _ask(self, option: str) -> str:
        try:
            return subprocess.run([*self.command, option], capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            name = shlex.join(self.command)
            raise ConfigError(
                f"--to c: must have a C compiler to build the library with, got none that runs as {name}; install one "
                "(apt install gcc), or name it in the variable CC"
            ) from None

    def run(self, *arguments: str | Path) -> None:
        """Run the compiler."""
        self.call(*self.command, *arguments)

    def call(self, *command: str | Path) -> None:
        """Run a command. Raises ConfigError with its first error if it fails."""
        try:
            done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        except OSError as error:
            raise ConfigError(f"--to c: {command[0]} must run, got: {error.strerror}; install binutils") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            said = next((line for line in lines if "error" in line), lines[0])
            raise ConfigError(f"--to c: {shlex.join(map(str, command[:2]))} must succeed, got: {said}")


def check_library(saved: SavedModel) -> None:
    """Raise CheckpointError if a model cannot become a library."""
    check_exported(saved, "C")
    if saved.config.data.src.lowercase:
        raise CheckpointError(f"{saved.path}: data.src.lowercase must be false for C, got true")
    for side, subwords in (("source", saved.src_subwords), ("target", saved.tgt_subwords)):
        if why := obstacle_here(subwords):
            raise CheckpointError(f"{saved.path}: the {side}'s subwords must be unigram or bpe for C, got {why}")


def save_library(
    out: Path, path: str, checkpoint: str | None, saved: SavedModel, compute_dtype: str, only: Sequence[str] = ()
) -> None:
    """Write a new folder with libraries, a header, an example and the model's file; `path` and `checkpoint` are those
    of `load_saved_model`. only: levels to include, all where empty. Raises ConfigError without a compiler."""
    check_new_folder(out)
    compiler = Compiler()
    levels = {
        name: condition
        for name, condition in _LEVELS[compiler.machine].items()
        if (name in only if only else compute_dtype == "int8" or name not in _OF_INT8)
    }
    with writing(out), TemporaryDirectory(prefix="nmt-") as work, new_folder(out) as folder:
        asked: dict[str, Any] = {
            "path": path,
            "checkpoint": checkpoint,
            "cells": list(saved.cells),
            "compute_dtype": compute_dtype,
        }
        objects = [_level(compiler, Path(work), name, asked) for name in levels]
        whole = _host(compiler, Path(work), levels, objects)
        compiler.call(compiler.ar, "rcs", folder / "libtranslator.a", whole)
        options = ("-shared", "-Wl,-soname,libtranslator.so,--no-undefined,-z,noexecstack")
        compiler.run(*options, "-o", folder / "libtranslator.so", whole, "-lm")
        (folder / "libtranslator.so").chmod(0o644)
        for name in (HEADER, EXAMPLE):
            write_bytes(folder / name, (_HERE / name).read_bytes())
        write_bytes(folder / MODEL_NAME, (Path(work) / next(iter(levels)) / MODEL_NAME).read_bytes(), sync=True)


def _level(compiler: Compiler, work: Path, level: str, asked: dict[str, Any]) -> Path:
    """Compile the functions of a level, and link them with the host's part to one object that has one symbol."""
    folder = work / level
    folder.mkdir()
    answer = run_for_level("nmt.exporting.c.level", level, asked | {"folder": str(folder)}, is_linked=True)
    named = folder / "names"
    named.write_text("".join(f"{old} {new}\n" for old, new in json.loads(answer).items()))
    compiled = list(folder.glob("*.o"))
    for one in compiled:
        compiler.call(compiler.objcopy, f"--redefine-syms={named}", one)
    engine, whole = folder / "engine.o", folder / "whole.o"
    compiler.run(*_FLAGS, f"-I{folder}", "-c", _HERE / "engine.c", "-o", engine)
    return _joined(compiler, [engine, *compiled], [f"nmt_level_{level}"], whole)


def _host(compiler: Compiler, work: Path, levels: dict[str, str], objects: list[Path]) -> Path:
    """Compile the rest of the host and link it with all levels to one object that has the symbols of the header."""
    first, *others = (work / level for level in levels)
    for name in _SHARED:
        if any((one / name).read_bytes() != (first / name).read_bytes() for one in others):
            raise RuntimeError(f"all levels must have the same {name}")
    names = ", ".join(levels)
    text = [_ASKING[compiler.machine]]
    text += [f"extern const level nmt_level_{level};\n" for level in levels]
    text += [f"static const level *const levels[] = {{{', '.join(f'&nmt_level_{level}' for level in levels)}}};\n"]
    cases = [f"    case {n}: return {condition};\n" for n, condition in enumerate(levels.values())]
    text += ["static int has_level(size_t n) {\n  switch (n) {\n", *cases, "  }\n  return 0;\n}\n"]
    (first / "levels.h").write_text(f'#define LEVEL_NAMES "{names}"\n{"".join(text)}')
    made = [first / f"{name}.o" for name in ("api", "text")]
    for one in made:
        compiler.run(*_FLAGS, f"-I{first}", "-c", _HERE / f"{one.stem}.c", "-o", one)
    public = re.findall(r"\b(nmt_\w+)\(", (_HERE / HEADER).read_text("utf-8"))
    return _joined(compiler, [*made, *objects], public, work / "translator.o")


def _joined(compiler: Compiler, objects: list[Path], public: list[str], whole: Path) -> Path:
    """Link objects to one of which only these symbols can be seen from outside."""
    compiler.run("-r", "-nostdlib", "-o", whole, *objects)
    compiler.call(compiler.objcopy, "--strip-unneeded", *(f"--keep-global-symbol={name}" for name in public), whole)
    return whole
