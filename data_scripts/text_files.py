"""Functions of the corpus scripts: read plain or gzip text, write and rename files, fail with one line."""

import gzip
import os
import sys
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

TIMEOUT_SECONDS = 60


def fail(message: str) -> NoReturn:
    """Ends the script with exit code 1 and one line on stderr: `script.py: MESSAGE`."""
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def find_text_file(folder: Path, names: Iterable[str]) -> Path:
    """Returns the first of `names` that is in `folder`, plain or with `.gz` after its name."""
    names = list(names)
    for name in names:
        for candidate in (folder / name, folder / f"{name}.gz"):
            if candidate.is_file():
                return candidate
    fail(f"{folder}: must contain {' or '.join(names)} (plain or .gz), got none; check the folder")


def read_text_bytes(path: Path) -> bytes:
    """Returns the plain text of a file as bytes, unpacked where its name ends in `.gz`."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        fail(f"{path}: must be readable, got {error.strerror}; check the path")
    return unpack_gzip(packed, str(path)) if path.suffix == ".gz" else packed


def read_lines(path: Path) -> list[str]:
    """Returns the lines of a UTF-8 file, plain or `.gz`, without their ends; none for an empty file."""
    try:
        text = read_text_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        fail(f"{path}: must be UTF-8, got {error.reason} at byte {error.start}; convert it")
    return text.removesuffix("\n").split("\n") if text else []


def unpack_gzip(packed: bytes, where: str) -> bytes:
    """Returns the unpacked bytes; `where` names the source in the error for a broken file."""
    try:
        return gzip.decompress(packed)
    except (OSError, EOFError, zlib.error):
        fail(f"{where}: must be a whole gzip file, got a broken one; fetch it again")


def fetch(address: str) -> bytes:
    """Returns the contents of a public URL, after a line on stderr that names it."""
    print(f"fetching {address}", file=sys.stderr)
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer:
            content: bytes = answer.read()
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        fail(f"{address}: must be reachable, got {reason}; check the network or give a copy with --from FOLDER")
    return content


def read_table(text: bytes, where: str, *columns: int) -> list[tuple[str, ...] | None]:
    """Returns the rows of a table of so many columns between tabs, None for a blank line; refuses what is none. With
    several numbers any of them is right, and a shorter row has empty cells at its end."""
    count_lines(text, where)
    rows: list[tuple[str, ...] | None] = []
    # Only \n ends a row: a form may contain other characters that Unicode considers line ends.
    for number, line in enumerate(text.decode("utf-8").removesuffix("\n").split("\n"), start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if line.strip() and len(cells) not in columns:
            wanted = " or ".join(map(str, columns))
            fail(f"{where}:{number}: must have {wanted} columns between tabs, got {len(cells)}; fetch the file again")
        rows.append((*cells, *[""] * (max(columns) - len(cells))) if line.strip() else None)
    return rows


def count_lines(text: bytes, where: str) -> int:
    """Counts lines as the toolkit reads them, split at \\n only; refuses what is not UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        fail(f"{where}:{line}: must be UTF-8, got byte 0x{text[error.start]:02x}; fetch or convert it")
    return text.count(b"\n") + (bool(text) and not text.endswith(b"\n"))


def write_aside(path: Path, text: bytes) -> None:
    """Writes a whole file or nothing: a temporary neighbour first, renamed when complete."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        fail(f"{path}: must be writable, got {error.strerror}; choose another --out")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        # mkstemp makes files that only their owner may read; corpora are ordinary files.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        fail(f"{path}: must be writable, got {error.strerror}; choose another --out")
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
