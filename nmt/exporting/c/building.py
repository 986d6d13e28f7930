"""Build parts of libraries for C: the compiler, the levels of processors, and objects of each level."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nmt.errors import ConfigError
from nmt.exporting.elsewhere import run_for_level

FLAGS = ("-std=c11", "-O2", "-fPIC", "-ffp-contract=off", "-Wall", "-Wextra")
_V3 = " && ".join(f'F("{feature}")' for feature in ("avx2", "fma", "bmi", "bmi2"))
_V4 = " && ".join([_V3, *(f'F("avx512{part}")' for part in ("f", "bw", "cd", "dq", "vl"))])
LEVELS = {
    "x86_64": {
        "avx512_vnni": f'{_V4} && F("avx512vnni")',
        "avx512": _V4,
        "avx2_vnni": f"{_V3} && has_avxvnni()",
        "avx2": _V3,
        "generic": "1",
    },
    "aarch64": {"neon_dotprod": "getauxval(AT_HWCAP) >> 20 & 1", "neon": "1"},
    "x86_64-macos": {"avx2": 'has("hw.optional.avx2_0")'},
    "aarch64-macos": {"neon_dotprod": "1"},
}
"""By machine, the levels, the best one first, each with the condition under which a processor has it: features by their
names in GCC, the bit ASIMDDP of Linux, or Apple's name. A library for macOS has one level, that of all its machines, as
zig renames no symbols of objects."""
_OF_INT8 = ("avx512_vnni", "avx2_vnni", "neon_dotprod")
"""Levels that differ from the next one only in products of int8."""
ASKING = {
    "x86_64": """#include <cpuid.h>
#define F(name) __builtin_cpu_supports(name)
static int has_avxvnni(void) {
  unsigned a = 0, b, c, d;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
""",
    "aarch64": "#include <sys/auxv.h>\n",
    "x86_64-macos": """int sysctlbyname(const char *, void *, size_t *, void *, size_t);
static int has(const char *name) {
  int is_there = 0;
  size_t size = sizeof is_there;
  return !sysctlbyname(name, &is_there, &size, NULL, 0) && is_there;
}
""",
    "aarch64-macos": "",
}


class Compiler:
    """The compiler that the variable CC names, or cc, with its tools. Raises ConfigError if none is usable."""

    def __init__(self) -> None:
        self.command = shlex.split(os.environ.get("CC") or "cc")
        target = self._ask("-dumpmachine")
        machine = target.split("-")[0].replace("arm64", "aarch64")
        here = "aarch64" if platform.machine() in ("aarch64", "arm64") else "x86_64"
        self.for_windows, self.for_macos = "mingw" in target, re.search("macos|darwin", target) is not None
        self.machine = f"{machine}-macos" if self.for_macos else machine
        if not (self.for_windows and machine == here == "x86_64") and (
            not (self.for_macos or "linux" in target) or machine not in ("aarch64", here)
        ):
            raise ConfigError(
                f"--to c: must have a compiler for Linux or macOS on {' or '.join(sorted({'aarch64', here}))} or for "
                f"Windows (mingw), got one for {target}; name another in the variable CC"
            )
        if self.for_windows:
            self.command.append("-mcmodel=small")  # else pointers to functions are shared between objects, and lost
        if self.for_macos:
            self.command.append("-fvisibility=hidden")
        self.objcopy, self.ar = (self._ask(f"-print-prog-name={name}") for name in ("objcopy", "ar"))

    def _ask(self, option: str) -> str:
        try:
            return subprocess.run([*self.command, option], capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            name = shlex.join(self.command)
            raise ConfigError(
                f"--to c: must have a C compiler to build the library with, got none that runs as {name}; "
                "install one (apt install gcc), or name it in the variable CC"
            ) from None

    def run(self, *arguments: str | Path) -> None:
        """Run the compiler."""
        self.call(*self.command, *arguments)

    def call(self, *command: str | Path) -> str:
        """Run a command and return what it prints. Raises ConfigError with its first error if it fails."""
        try:
            done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        except OSError as error:
            raise ConfigError(f"--to c: {command[0]} must run, got: {error.strerror}; install binutils") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            said = next((line for line in lines if "error" in line), lines[0])
            raise ConfigError(f"--to c: {shlex.join(map(str, command[:2]))} must succeed, got: {said}")
        return done.stdout


def levels_of(compiler: Compiler, only: Sequence[str], *, int8: bool) -> dict[str, str]:
    """Return the conditions of the levels that a library has: of those in `only`, or of all that differ."""
    every = LEVELS[compiler.machine]
    if strange := [name for name in only if name not in every]:
        raise ConfigError(f"--to c: levels must be of {', '.join(every)}, got {strange[0]}")
    found = {name: one for name, one in every.items() if (name in only if only else int8 or name not in _OF_INT8)}
    return found or every


def levels_text(compiler: Compiler, levels: dict[str, str]) -> str:
    """Return levels.h, which has the objects of all levels and asks which of them the processor has."""
    lines = [f'#define LEVEL_NAMES "{", ".join(levels)}"\n{ASKING[compiler.machine]}']
    lines += [f"extern const level nmt_level_{level};\n" for level in levels]
    lines += [f"static const level *const levels[] = {{{', '.join(f'&nmt_level_{level}' for level in levels)}}};\n"]
    cases = [f"    case {n}: return {condition};\n" for n, condition in enumerate(levels.values())]
    return "".join([*lines, "static int has_level(size_t n) {\n  switch (n) {\n", *cases, "  }\n  return 0;\n}\n"])


def compiled_objects(compiler: Compiler, folder: Path, module: str, asked: dict[str, Any]) -> list[Path]:
    """Let a module compile functions for the level after which a new folder is named; return their objects, renamed."""
    folder.mkdir()
    elsewhere = f"{'windows-' * compiler.for_windows}{'macos-' * compiler.for_macos}library"
    answer: dict[str, Any] = json.loads(run_for_level(module, folder.name, asked | {"folder": str(folder)}, elsewhere))
    objects, names = sorted(folder.glob("*.o")), folder / "names"
    if compiler.for_macos:  # whose tools rename nothing
        jump = "b" if compiler.machine.startswith("aarch64") else "jmp"
        lines = (f'.private_extern _{new}\n_{new}: {jump} "_{old}"\n' for old, new in answer["names"].items())
        names.with_suffix(".s").write_text("".join([".text\n", *lines]))
        compiler.run("-c", names.with_suffix(".s"), "-o", names.with_suffix(".o"))
        return [*objects, names.with_suffix(".o")]
    names.write_text("".join(f"{old} {new}\n" for old, new in answer["names"].items()))
    for one in objects:
        compiler.call(compiler.objcopy, f"--redefine-syms={names}", one)
    return objects


def constant_bytes(compiler: Compiler, name: str, file: Path) -> str:
    """Return the definition in C of a file's bytes, aligned to a cache line; it is found by `-Wa,-I` and its folder."""
    begin, end = (".section .rdata", ".text") if compiler.for_windows else (".section .rodata", ".previous")
    if compiler.for_macos:
        begin, end = f".section __TEXT,__const\\n.private_extern _{name}", ".text"
    lines = f'{begin}\\n.balign 64\\n{"_" * compiler.for_macos}{name}: .incbin \\"{file.name}\\"\\n{end}'
    return f'__asm__("{lines}");\nextern const char {name}[];\n'


def joined(compiler: Compiler, objects: list[Path], public: list[str], whole: Path) -> Path:
    """Link objects to one of which only these symbols can be seen from outside."""
    compiler.run("-r", "-nostdlib", "-o", whole, *objects)
    if not compiler.for_macos:
        compiler.call(compiler.objcopy, "--strip-unneeded", *(f"--keep-global-symbol={name}" for name in public), whole)
    return whole


def save_libraries(compiler: Compiler, whole: Path, folder: Path) -> None:
    """Write a static and a shared library, which calls the one of mathematics; for macOS the shared one alone."""
    if compiler.for_macos:
        made = "libtranslator.dylib"
        return compiler.run("-shared", "-Wl,-x", f"-Wl,-install_name,@rpath/{made}", "-o", folder / made, whole)
    compiler.call(compiler.ar, "rcs", folder / "libtranslator.a", whole)
    if compiler.for_windows:
        made = f"-Wl,--out-implib,{folder / 'libtranslator.dll.a'},--no-insert-timestamp"
        return compiler.run("-shared", "-static-libgcc", made, "-o", folder / "translator.dll", whole, "-lm")
    options = ("-shared", "-Wl,-soname,libtranslator.so,--no-undefined,-z,noexecstack")
    compiler.run(*options, "-o", folder / "libtranslator.so", whole, "-lm")
    (folder / "libtranslator.so").chmod(0o644)
