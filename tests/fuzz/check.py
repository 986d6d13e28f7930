"""What must contain whatever comes in: commands run in this process, and what they did is looked at."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from nmt.cli.commands.translate import translate
from tests.fuzz.inputs import is_text, line_bytes
from tests.fuzz.models import mutate_file, mutate_folder

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
            given = b"kara\n" * (number % 3) + line + b"\nlosu\n"
            result = run_translate([str(model), "--batch-size", "2"], given)
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
        result = run_translate(arguments, b"\n".join([b"kara", *given]) + b"\n")
        return _answers(result, len(given) + 1, each)[1:]

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
