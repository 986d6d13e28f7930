"""Model files with something wrong, each a function of its number."""

import random
import shutil
import struct
from pathlib import Path

FILES = ("config.yaml", "joint.spm", "best.safetensors", "shortlist.safetensors")


def mutate_folder(folder: Path, copy: Path, number: int, seed: int = 0) -> str:
    """Make `copy` a copy of a model folder with one file changed; returns what was done."""
    rng = random.Random(f"{seed} folder {number}")  # noqa: S311 - not a secret
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir()
    name = rng.choice(FILES)
    for file in FILES:
        content = (folder / file).read_bytes()
        if file != name:
            (copy / file).write_bytes(content)
            continue
        changed, deed = mutated(rng, content)
        if rng.random() < 0.05:
            deed = "missing"
        else:
            (copy / file).write_bytes(changed)
    return f"{name}: {deed}"


def mutate_file(path: Path, copy: Path, number: int, seed: int = 0) -> str:
    """Make `copy` a changed copy of a file; returns what was done."""
    rng = random.Random(f"{seed} file {number}")  # noqa: S311 - not a secret
    changed, deed = mutated(rng, path.read_bytes())
    copy.write_bytes(changed)
    return deed


def mutated(rng: random.Random, content: bytes) -> tuple[bytes, str]:
    """Bytes with one thing changed, most often near the start, where headers are."""
    found = bytearray(content)
    near = rng.random() < 0.7
    at = rng.randrange(min(len(found), 3000) if near else len(found))
    deed = rng.choice(
        ["flip", "flip", "byte", "cut", "insert", "delete", "swap", "length", "zeros", "digit", "add", "empty"]
    )
    if deed == "flip":
        found[at] ^= 1 << rng.randrange(8)
    elif deed == "byte":
        found[at] = rng.randrange(256)
    elif deed == "cut":
        del found[at:]
    elif deed == "insert":
        found[at:at] = rng.randbytes(rng.randint(1, 9))
    elif deed == "delete":
        del found[at : at + rng.randint(1, 9)]
    elif deed == "swap":
        to = rng.randrange(len(found))
        found[at], found[to] = found[to], found[at]
    elif deed == "length":
        found[:8] = struct.pack("<Q", rng.choice([0, 1, 2**31, 2**63, 2**64 - 1, rng.randrange(len(found))]))
    elif deed == "zeros":
        found[at : at + 64] = bytes(len(found[at : at + 64]))
    elif deed == "digit":
        digits = [n for n, byte in enumerate(found[:4000]) if 48 <= byte <= 57]
        if digits:
            found[rng.choice(digits)] = rng.choice(b"0123456789-e.")
    elif deed == "add":
        found += rng.randbytes(rng.randint(1, 50))
    else:
        del found[:]
    return bytes(found), f"{deed} at {at}"
