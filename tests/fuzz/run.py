"""Odd inputs and broken models for nmt-translate, each a function of its number."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path

import numpy as np
from click.testing import CliRunner, Result

from nmt.cli.commands.translate import translate
from nmt.decode import Shortlist
from nmt.storage.model_folder import SHORTLIST_NAME, load_subwords, save_tensors, shortlist_tensors, subwords_digest
from nmt.storage.saved_model import load_saved_model, save_bundle
from tests.saved_models import write_folder

WORDS = "kara losu miti nux téyo ßra unheard-of Ａ ﬁ e\u0301 \u0130 ŉ ▁ <unk> </s>".split()
CONTROLS = [
    chr(c) for c in (*range(10), *range(11, 32), *range(127, 160), 0x2028, 0x2029, 0xFEFF, 0x200B, 0x202E, 0xAD)
]
LONG_WORDS = 10_000


def line_bytes(number: int, seed: int = 0) -> bytes:
    """A line without its end; about one in twelve is not UTF-8, one in two hundred has 10,000 words."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311 - not a secret
    kind = rng.random()
    if kind < 0.08:
        return broken_utf8(rng)
    return text_line(rng, kind).encode("utf-8").replace(b"\n", b" ")


def is_text(line: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def text_line(rng: random.Random, kind: float) -> str:
    if kind < 0.085:
        return " ".join(rng.choices(WORDS, k=LONG_WORDS))
    if kind < 0.13:
        return rng.choice(["", " ", "\t", "\r", "\u2028", "\x00", "\ufeff", "\u3000 \xa0", "\x85\x0b"])
    if kind < 0.33:
        return "".join(any_character(rng) for _ in range(rng.randint(1, 40)))
    if kind < 0.40:
        return any_character(rng) * rng.randint(1, 3000)
    if kind < 0.45:
        return "a" + "".join(chr(rng.randint(0x300, 0x36F)) for _ in range(rng.randint(1, 400)))
    if kind < 0.5:
        return "".join(
            rng.choices(["\u202e", "\u2066", "\u200d", "👩", "🏽", "\ufe0f", "🇩", "x"], k=rng.randint(1, 60))
        )
    return mutated(rng, " ".join(rng.choices(WORDS, k=rng.randint(1, 14))))


def any_character(rng: random.Random) -> str:
    """A character of any plane, unassigned ones too; no surrogate, which is no text."""
    code = rng.randint(0, 16) * 0x10000 + rng.randint(0, 0xFFFF)
    return "\ud7ff" if 0xD800 <= code <= 0xDFFF else chr(code)


def mutated(rng: random.Random, text: str) -> str:
    letters = list(text)
    for _ in range(rng.randint(0, 6)):
        at = rng.randint(0, len(letters))
        deed = rng.random()
        if deed < 0.4:
            letters.insert(at, rng.choice(CONTROLS))
        elif deed < 0.6:
            letters.insert(at, any_character(rng))
        elif deed < 0.8 and letters:
            del letters[min(at, len(letters) - 1)]
        else:
            letters[at:at] = letters[: rng.randint(0, 20)]
    return "".join(letters)


def broken_utf8(rng: random.Random) -> bytes:
    start = mutated(rng, " ".join(rng.choices(WORDS, k=rng.randint(0, 6)))).encode().replace(b"\n", b" ")
    wrong = rng.choice(
        [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf8\x88\x80\x80\x80"]
    )
    return start + wrong + bytes(rng.choices(range(32, 256), k=rng.randint(0, 5)))


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
        changed, deed = mutated_bytes(rng, content)
        if rng.random() < 0.05:
            deed = "missing"
        else:
            (copy / file).write_bytes(changed)
    return f"{name}: {deed}"


def mutate_file(path: Path, copy: Path, number: int, seed: int = 0) -> str:
    """Make `copy` a changed copy of a file; returns what was done."""
    rng = random.Random(f"{seed} file {number}")  # noqa: S311 - not a secret
    changed, deed = mutated_bytes(rng, path.read_bytes())
    copy.write_bytes(changed)
    return deed


def mutated_bytes(rng: random.Random, content: bytes) -> tuple[bytes, str]:
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


_TOGETHER = 500
OPTIONS = (
    [],
    ["--beam-size", "1"],
    ["--shortlist"],
    ["--no-unk", "--no-repeat-ngram-size", "2"],
    ["--output-format", "json"],
    ["--replace-unk"],
    ["--sampling", "--n-best", "2"],
)


def run_translate(arguments: list[str], given: bytes = b"") -> Result:
    """nmt-translate, with standard error apart."""
    return CliRunner().invoke(translate, arguments, input=given, prog_name="nmt-translate")


def check_error(result: Result, what: str) -> None:
    """An error is one line, and nothing else went wrong."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise AssertionError(f"{what}: {result.exception!r}") from result.exception
    lines = [line for line in result.stderr.split("\n")[:-1] if not line.startswith("warning: ")]
    assert result.exit_code == 1, f"{what}: exit code {result.exit_code}"
    assert len(lines) == 1 and lines[0].startswith("Error: "), f"{what}: {lines}"


def check_inputs(model: Path, first: int, count: int, seed: int = 0) -> dict[str, int]:
    """Translate lines number `first` on. Text must give as many lines as came, each the same in other company; a line
    that is not UTF-8 must give an error that names it."""
    lines = [line_bytes(number, seed) for number in range(first, first + count)]
    text = [line for line in lines if is_text(line)]
    done = {"text": 0, "not UTF-8": 0, "compared": 0}
    for n, start in enumerate(range(0, len(text), _TOGETHER)):
        done["text"] += len(text[start : start + _TOGETHER])
        done["compared"] += _check_text(model, text[start : start + _TOGETHER], OPTIONS[(first + n) % len(OPTIONS)])
    for number, line in enumerate(lines):
        if not is_text(line):
            result = run_translate([str(model), "--batch-size", "2"], b"kara\n" * (number % 3) + line + b"\nlosu\n")
            check_error(result, repr(line))
            assert f"line {number % 3 + 1} must be UTF-8" in result.stderr, repr(line)
            done["not UTF-8"] += 1
    return done


def _check_text(model: Path, lines: list[bytes], options: list[str]) -> int:
    """As many lines out as in; every ninth line translated alone, and all in another order, give the same."""
    arguments = [str(model), "--batch-size", "16", *options]
    each = 2 if "--n-best" in options else None

    def answers(given: list[bytes]) -> list[list[str]]:
        # A line before them: a byte-order mark at the start of a file is no part of its first line.
        return _answers(run_translate(arguments, b"\n".join([b"kara", *given]) + b"\n"), len(given) + 1, each)[1:]

    whole = answers(lines)
    turned = answers(lines[::-1])[::-1]
    assert whole == turned, [(a, b, c) for a, b, c in zip(lines, whole, turned, strict=True) if b != c][:3]
    some = range(0, len(lines), 9)
    for n in some:
        (alone,) = answers([lines[n]])
        assert alone == whole[n], (lines[n], alone, whole[n])
    return len(lines) + len(some)


def _answers(result: Result, count: int, each: int | None) -> list[list[str]]:
    """The answers to each input line, without their numbers."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.stderr
    assert result.stdout_bytes.endswith(b"\n") or not result.stdout_bytes
    lines = result.stdout_bytes.decode().split("\n")[:-1]
    if each is None:
        assert len(lines) == count, f"{count} lines in, {len(lines)} out"
        return [[line.split(", ", 1)[1] if line.startswith('{"line"') else line] for line in lines]
    found: list[list[str]] = [[] for _ in range(count)]
    last = 0
    for line in lines:
        number, rest = line.split("\t", 1)
        assert int(number) in (last, last + 1), "in order"
        last = int(number)
        found[last].append(rest)
    assert all(found), "an answer to every line"
    return found


def check_models(folder: Path, bundle: Path, scratch: Path, first: int, count: int, seed: int = 0) -> dict[str, int]:
    """Translate two lines with changed models number `first` on: either two lines come, or one line of error."""
    done = {"refused": 0, "harmless": 0}
    for number in range(first, first + count):
        if number % 2:
            model = scratch / "changed.nmt"
            what = f"model {number}: {mutate_file(bundle, model, number, seed)}"
        else:
            model = scratch / "changed"
            what = f"model {number}: {mutate_folder(folder, model, number, seed)}"
        result = run_translate([str(model), "--threads", "1", "--device", "cpu"], b"kara losu\n\n")
        if result.exit_code == 0 and result.exception is None:
            assert result.stdout_bytes.count(b"\n") == 2, what
            done["harmless"] += 1
        else:
            check_error(result, what)
            assert not result.stdout_bytes, what
            done["refused"] += 1
    return done


def make_model(folder: Path) -> Path:
    """A tiny model in `folder`/model, and the bundle of it, whose path is returned."""
    made = write_folder(folder / "model")
    src, tgt = load_subwords(made, joint=True)
    V = tgt.vocab_size
    starts = np.minimum(np.arange(V + 1), 30).astype(np.int64)
    shortlist = Shortlist(starts, np.arange(4, 34, dtype=np.int32), np.arange(4, 30, dtype=np.int32), V)
    save_tensors(made / SHORTLIST_NAME, shortlist_tensors(shortlist), {"subwords": subwords_digest(src, tgt)})
    save_bundle(folder / "model.nmt", load_saved_model(made))
    return folder / "model.nmt"
