"""Model files that released versions wrote are read by this one, and say the same (docs/versioning.md)."""

import json
from pathlib import Path

import pytest

from nmt import Generator, Translator

FORMER = sorted(path for path in (Path(__file__).parent / "fixtures" / "models").iterdir() if path.name[0].isdigit())
# Log-probabilities are sums of some ten numbers in float32, computed by other instructions on other machines.
CLOSE = 2e-3


def expected(place):
    return json.loads((place / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize("name", ["folder", "bundle.nmt", "int8.nmt"])
@pytest.mark.parametrize("place", FORMER, ids=lambda path: path.name)
def test_a_former_translator_says_what_it_said(place, name):
    known = expected(place)
    found = Translator.load(place / name, threads=1).translate_nbest(known["sources"], n_best=1, beam_size=3)
    assert [best.text for best, *_ in found] == known["translations"][name]
    assert [best.log_prob for best, *_ in found] == pytest.approx(known["log_probs"][name], abs=CLOSE)


@pytest.mark.parametrize("place", FORMER, ids=lambda path: path.name)
def test_a_former_language_model_says_what_it_said(place):
    known = expected(place)
    scored = Generator.load(place / "language.nmt", threads=1).score(known["sources"])
    assert [sum(one.log_probs) for one in scored] == pytest.approx(known["log_probs"]["language.nmt"], abs=CLOSE)


def test_there_are_such_files_and_they_are_small():
    assert FORMER, "the sdist or the checkout lacks tests/fixtures/models"
    for place in FORMER:
        files = [path for path in place.rglob("*") if path.is_file()]
        assert len(files) >= 7 and sum(path.stat().st_size for path in files) < 150_000
