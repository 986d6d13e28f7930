"""Write a C library of the complex functions that Wine's C runtime lacks, for mingw to compile."""

import re
from pathlib import Path

DLL, OURS = b"api-ms-win-crt-math-l1-1-0.dll", b"xpi-ms-win-crt-math-l1-1-0.dll"
_PARTS = ("abs", "arg", "imag", "real")
"""Functions with a real result."""
_FUNCTIONS = (*_PARTS, "cos", "cosh", "exp", "log", "pow", "sin", "sinh", "sqrt", "tan", "tanh")
_KINDS = {"": "double", "f": "float", "l": "double"}
"""Endings of names, and numbers: Windows' long double is a double."""
_HEAD = """#include <complex.h>
typedef struct {double at[2];} complex_double; typedef struct {float at[2];} complex_float;
#define NUMBER(a) __builtin_complex((double)(a).at[0], (double)(a).at[1])
"""


def write_shim(folder: Path, modules: list[Path]) -> None:
    """Write shim.c and shim.def: our functions by the names that modules import, and all others from ucrtbase."""
    lines, exports = [_HEAD], []
    for name in sorted({f"c{function}{ending}" for function in _FUNCTIONS for ending in _KINDS}):
        function = name[1:] if name[1:] in _FUNCTIONS else name[1:-1]
        kind = _KINDS[name[1 + len(function) :]]
        given = ["a", "b"] if function == "pow" else ["a"]
        call = f"c{function}({', '.join(f'NUMBER({one})' for one in given)})"
        takes = ", ".join(f"complex_{kind} {one}" for one in given)
        if function in _PARTS:
            lines.append(f"{kind} our_{name}({takes}) {{ return ({kind}){call}; }}\n")
        else:
            made = f"(complex_{kind}){{{{({kind})creal(z), ({kind})cimag(z)}}}}"
            lines.append(f"complex_{kind} our_{name}({takes}) {{ double _Complex z = {call}; return {made}; }}\n")
        exports.append(f"  {name} = our_{name}\n")
    ours = {line.split()[0] for line in exports}
    exports += [f"  {name} = ucrtbase.{name}\n" for name in sorted(_imported(modules) - ours)]
    (folder / "shim.c").write_text("".join(lines))
    (folder / "shim.def").write_text(f"LIBRARY {OURS.decode()}\nEXPORTS\n{''.join(exports)}")


def _imported(modules: list[Path]) -> set[str]:
    """Return the names that modules import from the library, by objdump."""
    import subprocess

    names: set[str] = set()
    for module in modules:
        shown = subprocess.run(
            ["x86_64-w64-mingw32-objdump", "-p", module], capture_output=True, text=True, check=True
        ).stdout
        for table in re.findall(rf"DLL Name: {DLL.decode()}\n(.*?)\n\n", shown, re.DOTALL):
            names |= set(re.findall(r"^\s+[0-9a-f]+\s+\S+\s+(\w+)\s*$", table, re.MULTILINE))
    return names
