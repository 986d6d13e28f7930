"""nmt-translate --then: through a third language by commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from nmt import Pivot, Translator
from nmt.cli.commands.translate import translate
from tests.cli.test_cli_models import call
from tests.saved_models import sentences

LINES = [*sentences(5, seed=9), "", "kara"]


def run(*arguments: Any, code: int = 0) -> Result:
    return call(translate, *arguments, given="".join(f"{line}\n" for line in LINES), code=code)


def pivot(pivots: dict[str, Path]) -> Pivot:
    return Pivot(Translator.load(pivots["de-en"]), Translator.load(pivots["en-fr"]))


def test_lines_are_those_of_python(pivots: dict[str, Path]) -> None:
    found = run(pivots["de-en"], "--then", pivots["en-fr"])
    expected = pivot(pivots).translate(LINES)
    assert found.stdout.split("\n")[:-1] == expected and len(set(expected)) >= 3
    found = run(pivots["de-en"], "--then", pivots["en-fr"], "--then", pivots["fr-it"])
    assert found.stdout.split("\n")[:-1] == Translator.load(pivots["fr-it"]).translate(expected)


def test_columns_json_and_alignments(pivots: dict[str, Path], tmp_path: Path) -> None:
    best = pivot(pivots).translate_nbest(LINES, n_best=2, beam_size=5, details=True)
    found = run(pivots["de-en"], "--then", pivots["en-fr"], "--n-best", 2)
    rows = [line.split("\t") for line in found.stdout.split("\n")[:-1]]
    assert [row[2:] for row in rows] == [[f"{one.score:.6f}", one.text] for ones in best for one in ones]
    found = run(
        *(pivots["de-en"], "--then", pivots["en-fr"], "--output-format", "json", "--n-best", 2),
        *("--alignments", tmp_path / "a"),
    )
    for line, ones in zip(found.stdout.split("\n")[:-1], best, strict=True):
        for record, one in zip(json.loads(line)["translations"], ones, strict=True):
            assert record["confidence"] == round(one.confidence, 6) and record["log_prob"] == round(one.log_prob, 6)
            assert record["alignment"] == [list(pair) for pair in (one.detail.alignment if one.detail else [])]
    assert len((tmp_path / "a").read_text().split("\n")) == len(LINES) + 1


def test_a_beam_that_is_not_given_is_each_models_own(pivots: dict[str, Path]) -> None:
    config = pivots["en-fr"] / "config.yaml"
    text = config.read_text()
    try:
        config.write_text(text.replace("beam_size: 5", "beam_size: 1"))
        assert config.read_text() != text
        expected = pivot(pivots)
        assert expected.first.config.decoding.beam_size == 5 and expected.last.config.decoding.beam_size == 1
        assert run(pivots["de-en"], "--then", pivots["en-fr"]).stdout.split("\n")[:-1] == expected.translate(LINES)
    finally:
        config.write_text(text)


def test_documents_and_tables(pivots: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(f"<p>{LINES[0]} <b>{LINES[1]}</b></p>\n")
    options = [pivots["de-en"], tmp_path / "page.html", "--format", "html", "--no-split", "--then", pivots["en-fr"]]
    run(*options, "-o", tmp_path / "out.html")
    text = (tmp_path / "out.html").read_text()
    assert text.startswith("<p>") and text.count("<b>") == text.count("</b>") == 1
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [{"text": line} for line in LINES]))
    run(pivots["de-en"], tmp_path / "in.jsonl", "--then", pivots["en-fr"], "-o", tmp_path / "out")
    written = [json.loads(line)["translation"] for line in (tmp_path / "out").read_text().splitlines()]
    assert written == pivot(pivots).translate(LINES)


def test_resuming_wants_the_same_models(pivots: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    whole = [pivots["de-en"], tmp_path / "in", "-o", tmp_path / "out", "--resume"]
    run(*whole, "--then", pivots["en-fr"])
    written = (tmp_path / "out").read_text()
    (tmp_path / "out").write_text(written[: len(written) // 2])
    run(*whole, "--then", pivots["en-fr"])
    assert (tmp_path / "out").read_text() == written
    for other in ([], ["--then", pivots["en-fr"], "--then", pivots["fr-it"]]):
        assert "must have answers of this very run" in run(*whole, *other, code=1).stderr
    assert (tmp_path / "out").read_text() == written


@pytest.mark.parametrize(
    "more, code, said",
    [
        (["--then", "{fr-it}"], 1, "fr-it: must translate from en, the language that"),
        (["--then", "{en-fr}", "--ensemble", "{de-en}"], 2, "--ensemble is for one model"),
        (["--then", "{en-fr}", "--replace-unk", "--dictionary", "{de-en}/config.yaml"], 2, "--dictionary is for one"),
        (["--then", "nowhere"], 1, "nowhere: no such folder"),
        (["--then", "{en-fr}", "-o", "{en-fr}/config.yaml"], 1, "must"),
        (["--then", "{en-fr}", "--shortlist"], 1, "shortlist: must be learnt before"),
        (["--then", ""], 1, "--then"),
    ],
)
def test_what_goes_wrong_is_one_line(more: list[str], code: int, said: str, pivots: dict[str, Path]) -> None:
    found = run(pivots["de-en"], *[one.format(**{k: str(v) for k, v in pivots.items()}) for one in more], code=code)
    assert found.stdout == "" and said in found.stderr
    assert "Traceback" not in found.stderr and found.stderr.count("Error: ") == 1
