"""Run the tests under Wine: CPython for Windows and its packages, on Linux, without Windows.

    python -m tests.windows.bed FOLDER [PYTEST ARGUMENT ...]

Then Linux and Windows compute the same, and every bit is compared (same.py). Makes FOLDER on the first call from
Debian's, PyPI's and mingw's packages (some 10 minutes, 3 GB) and uses it again afterwards. Needs root (for chroot),
debootstrap and gcc-mingw-w64-x86-64-win32; without them, or without a network, it says so and exits with code 77, which
the Makefile takes for "skipped". What Wine cannot show is in docs/windows.md.
"""

import difflib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from deploy import app
from nmt.exporting.c.library import save_library
from nmt.storage.saved_model import load_saved_model
from tests.exporting.c.test_library import SENTENCES, small
from tests.windows.complex_functions import DLL, OURS, write_shim

COMPILER, EXECUTABLE = "x86_64-w64-mingw32-gcc", r"Z:\python\python.exe"
ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
TOOLS = ["pytest", "pytest-timeout", "pytest-xdist", "colorama", "tzdata"]
ENVIRONMENT = {
    "WINEARCH": "win64",
    "WINEDEBUG": "-all",
    "HOME": "/root",
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "NMT_CPU": "avx2",
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


def lacking() -> str:
    """Return what this machine lacks for the test bed; an empty string for nothing."""
    import os

    if os.geteuid() != 0:
        return "root, for chroot"
    needed = {"debootstrap": "debootstrap", COMPILER: "gcc-mingw-w64-x86-64-win32"}
    absent = [package for program, package in needed.items() if shutil.which(program) is None]
    return f"Debian's {' and '.join(absent)}" if absent else ""


def run(*command: object, **more: object) -> None:
    subprocess.run([str(one) for one in command], check=True, **more)  # type: ignore[call-overload]


def make(bed: Path) -> None:
    """Make what the folder lacks."""
    system = bed / "system"
    if not (system / "usr/lib/wine/wine64").exists():
        shutil.rmtree(system, ignore_errors=True)
        run("debootstrap", "--variant=minbase", "--include=wine64,wine", "trixie", system)
    (system / "checkout").mkdir(exist_ok=True)
    if not (system / "site").exists():
        aside = system / "site.aside"
        shutil.rmtree(aside, ignore_errors=True)
        app.unpacked_wheels(bed, aside, *app.requirements(*TOOLS))
        mend_numpy(aside, bed)
        aside.rename(system / "site")
    if not (system / "python").exists():
        app.embedded_python(bed, system / "python", "python312.zip\n.\nZ:\\site\nZ:\\checkout\nimport site\n")
        shutil.copy(bed / OURS.decode(), system / "python")  # a library is looked for beside python.exe


def mend_numpy(site: Path, bed: Path) -> None:
    """Make a DLL of the complex functions that Wine's C runtime lacks, and let NumPy load it in place of the system's:
    its name is as long."""
    modules = [path for path in site.rglob("*.pyd") if DLL in path.read_bytes()]
    write_shim(bed, modules)
    run(COMPILER, "-shared", "-static-libgcc", "-O1", "-o", bed / OURS.decode(), bed / "shim.c", bed / "shim.def")
    for path in modules:
        path.write_bytes(path.read_bytes().replace(DLL, OURS))


def windows(system: Path, *arguments: str, **more: object) -> subprocess.CompletedProcess:
    """Run a program for Windows in the test bed's system, with the checkout as Z:\\checkout."""
    mounts = {"/proc": system / "proc", "/sys": system / "sys", "/dev": system / "dev", str(ROOT): system / "checkout"}
    script = [f"mount --bind '{here}' '{there}'" for here, there in mounts.items()]
    script += [f"exec chroot '{system}' /usr/bin/env -C /checkout \"$@\""]
    words = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    within = ["unshare", "--mount", "sh", "-ec", "\n".join(script), "sh"]
    command = [*within, "-i", *words, "/usr/lib/wine/wine64", *arguments]
    return subprocess.run(command, check=False, **more)  # type: ignore[call-overload]


def main() -> int:
    if not sys.argv[1:]:
        print(re.sub(r"\n\n.*", "", __doc__ or "", flags=re.DOTALL), file=sys.stderr)
        return 2
    if what := lacking():
        print(f"test-windows: skipped: this machine lacks {what}", file=sys.stderr)
        return SKIPPED
    bed = Path(sys.argv[1]).resolve()
    bed.mkdir(parents=True, exist_ok=True)
    try:
        make(bed)
    except subprocess.CalledProcessError as error:
        print(f"test-windows: skipped: {error.cmd[0]} has failed, see above", file=sys.stderr)
        return SKIPPED
    system = bed / "system"
    pytest_command = ["-m", "pytest", "-q", "-n", "auto", "-p", "no:cacheprovider", *sys.argv[2:]]
    return max(windows(system, EXECUTABLE, *pytest_command).returncode, compare(system))


def compare(system: Path) -> int:
    """Compare what Linux and Windows compute at one level of processors; print what differs, and return 1 for that."""
    with tempfile.TemporaryDirectory() as work, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NMT_CPU", ENVIRONMENT["NMT_CPU"])
        command = [sys.executable, "-m", "tests.windows.same", work]
        here = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        shutil.rmtree(system / "same", ignore_errors=True)
        there = windows(
            system, EXECUTABLE, "-m", "tests.windows.same", r"Z:\same", stdout=subprocess.PIPE, text=True
        ).stdout
        lines = [*difflib.ndiff(here.split("\n"), there.replace("\r", "").split("\n"))]
        for compute_dtype in ("float32", "int8"):
            lines.append(
                f"{compare_libraries(system, patch, Path(work), compute_dtype)} the library for C, {compute_dtype}"
            )
    print("\n".join(line for line in lines if line[:1] != "?"))
    return int(any(line[:1] in "+-" for line in lines if line))


def compare_libraries(system: Path, patch: pytest.MonkeyPatch, work: Path, compute_dtype: str) -> str:
    """Build the library and its example for both systems and let both translate; return a minus if they differ."""
    lines, found = b"\n".join(SENTENCES) + b"\n", []
    folder = small(work / f"model-{compute_dtype}", {})
    for compiler in ("cc", COMPILER):
        patch.setenv("CC", compiler)
        at = system / "same" / f"{compiler}-{compute_dtype}"
        save_library(at, str(folder), None, load_saved_model(folder), compute_dtype, ["avx2", "generic"])
        library = next(at.glob("*.dll.a"), at / "libtranslator.a")
        run(compiler, "example.c", library.name, "-lm", "-o", "translate.exe", cwd=at)
        (at / "in").write_bytes(lines)
        if compiler == COMPILER:
            windows(system, "cmd", "/c", rf"cd /d Z:\same\{at.name} && translate.exe < in > out")
            found.append((at / "out").read_bytes())
        else:
            found.append(
                subprocess.run(["./translate.exe"], cwd=at, input=lines, stdout=subprocess.PIPE, check=True).stdout
            )
    return " " if found[0] == found[1] else "-"


if __name__ == "__main__":
    sys.exit(main())
