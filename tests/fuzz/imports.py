"""Broken models of other systems for nmt-import, each a function of its number: refused in one line, or written. A
planted pickle that would make a file must not make it."""

from __future__ import annotations

import io
import random
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from nmt.errors import NMTError
from nmt.importing.sources import import_model
from nmt.importing.writing import save_imported
from tests.importing.marian_files import Marian
from tests.importing.packages import save_g2p_en
from tests.importing.test_fairseq import Fairseq
from tests.importing.test_toolkits import Joey, OpenNMT

_NUMBERS = (b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f", b"\x00" * 8, b"\xff" * 8)
_WORDS = b"[", b"{", b"\n", b": ", b"&a ", b"*a", b"!!python/object:os.system", b"9" * 400, b"\xff\xfe", b"null", b"-1"


def _joeynmt(folder: Path) -> str:
    Joey("bridge").save(folder)
    return "best.ckpt"


def _described(folder: Path) -> str:
    return save_g2p_en(folder).name


KINDS: dict[str, Callable[[Path], str]] = {
    "opennmt-py": lambda folder: OpenNMT("mlp").save(folder).name,
    "joeynmt": _joeynmt,
    "marian": lambda folder: Marian("gru").save(folder).name,
    "marian-bin": lambda folder: Marian("deep").save(folder, binary=True).name,
    "fairseq": lambda folder: Fairseq("proj").save(folder).name,
    "described": _described,
}
"""What writes a model of a kind into a folder, and says which of its files is to be imported."""


def planted(target: Path) -> bytes:
    """Opcodes of a pickle that makes a file, if anybody runs them."""
    return b"cposix\nsystem\n(S'touch " + str(target).encode() + b"'\ntR"


def changed(rng: random.Random, content: bytes, plant: bytes) -> bytes:
    """Bytes with a few changes: bits, numbers, words of YAML, pieces gone or twice, opcodes that run something."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(made) + 1)
        deed = rng.random()
        if deed < 0.35 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif deed < 0.5:
            number = rng.choice(_NUMBERS)
            made[at : at + len(number)] = number
        elif deed < 0.65:
            made[at:at] = rng.choice(_WORDS)
        elif deed < 0.75:
            del made[at : at + rng.choice((1, 4, 100))]
        elif deed < 0.85:
            made[at:at] = made[at : at + rng.choice((1, 8, 200))]
        elif deed < 0.92:
            made[at:at] = plant
        elif deed < 0.96:
            made = bytearray(plant + b".") if rng.random() < 0.5 else made[:2] + bytearray(plant) + made[2:]
        else:
            del made[at:]
    return bytes(made)


def mutate(rng: random.Random, folder: Path, plant: bytes) -> str:
    """Change one file of a model; inside a zip one of its members, so that its checksum is right. Returns its name."""
    path = rng.choice(sorted(folder.iterdir()))
    content = path.read_bytes()
    if not zipfile.is_zipfile(path) or rng.random() < 0.2:
        path.write_bytes(changed(rng, content, plant))
        return path.name
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    # Where a pickle lies among many members it is the one that matters.
    pickles = [name for name in members if name.endswith(".pkl")]
    name = rng.choice(pickles if pickles and rng.random() < 0.7 else sorted(members))
    # Of an array the header is what can be wrong; the numbers may be any.
    head = 128 if name.endswith(".npy") and rng.random() < 0.8 else len(members[name])
    members[name] = changed(rng, members[name][:head], plant) + members[name][head:]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for one, inside in members.items():
            archive.writestr(one, inside)
    path.write_bytes(packed.getvalue())
    return f"{path.name}: {name}"


def check_imports(kind: str, folder: Path, first: int, count: int, seed: int = 0) -> dict[str, int]:
    """Broken models number `first` on, each a function of its number. Raises AssertionError."""
    done: Counter[str] = Counter()
    (folder / "whole").mkdir(parents=True)
    source = KINDS[kind](folder / "whole")
    made = folder / "made by a pickle"
    for number in range(first, first + count):
        rng = random.Random(f"{kind} {seed} {number}")  # noqa: S311 - not a secret
        shutil.copytree(folder / "whole", folder / "broken")
        what = f"{kind} {number}, {mutate(rng, folder / 'broken', planted(made))}"
        done[_one(folder / "broken" / source, folder / "out", what)] += 1
        assert not made.exists(), f"{what}: a pickle was run"
        shutil.rmtree(folder / "broken")
    shutil.rmtree(folder / "whole")
    return dict(done)


def _one(source: Path, out: Path, what: str) -> str:
    """Import one file: refused in one line, or written whole."""
    try:
        save_imported(out, import_model(source))
    except NMTError as error:
        assert "\n" not in str(error) and 0 < len(str(error)) < 2000, f"{what}: {str(error)!r:.300}"
        assert not out.exists(), f"{what}: half a model was written"
        return "refused"
    except Exception as error:
        raise AssertionError(f"{what}: {error!r:.300}") from error
    shutil.rmtree(out)
    return "written"
