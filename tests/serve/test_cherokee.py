"""A language that the detector does not know, whose letters Unicode calls capitals."""

import json
import subprocess
import sys

import pytest

from nmt.serve.models import Detector, language_name
from tests.serve.servers import model_folder, running

WORDS = ["ᎣᏏᏲ", "ᏙᎯᏧ", "ᎤᏪᏥ", "ᎠᎴ", "ᎾᏍᎩ", "ᎨᏎ", "ᎠᏂᏴᏫ", "ᏧᏂᎳᏫᏍᏗ"]
LINES = ["ᎣᏏᏲ ᏙᎯᏧ", "ᎤᏪᏥ ᎠᎴ ᎾᏍᎩ ᎨᏎ ᎠᏂᏴᏫ", "ᏧᏂᎳᏫᏍᏗ ᎠᎴ ᎣᏏᏲ"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("chr") / "model"
    return model_folder(place, "chr", "en", "cherokee", words=WORDS, vocab_size=30, seed=5)


@pytest.fixture(scope="module")
def server(folder):
    with running(folder, "--threads", 1) as one:
        yield one


@pytest.fixture(scope="module")
def expected(folder):
    """What nmt-translate says of the lines."""
    command = [sys.executable, "-m", "nmt", "translate", str(folder), "--threads", "1"]
    done = subprocess.run(command, input="\n".join(LINES), text=True, capture_output=True, check=True)
    return done.stdout.splitlines()


def test_the_server_says_what_the_command_says(server, expected):
    found = server.json("/translate", {"q": LINES, "source": "chr", "target": "en"})
    assert found["translatedText"] == expected


def test_an_unknown_language_is_detected_by_its_script(server, expected):
    found = server.json("/translate", {"q": LINES, "source": "auto", "target": "en"})
    assert found["translatedText"] == expected
    assert {one["language"] for one in found["detectedLanguage"]} == {"chr"}
    assert server.json("/detect", {"q": LINES[0]})[0]["language"] == "chr"
    english = "This is English, and nothing but English text."
    assert server.json("/translate", {"q": english, "source": "auto", "target": "en"})["translatedText"] == english


def test_loading_a_model_logs_nothing_about_a_text(server):
    assert not [line for line in server.log if json.loads(line)["level"] == "warning"], server.log


@pytest.mark.parametrize(
    "text, among, first",
    [
        (LINES[1], ["de", "chr"], "chr"),
        (LINES[1], ["ko", "chr"], "chr"),  # the detector takes it for Korean
        ("Das ist ein Haus, und das ist ein Baum.", ["chr", "de"], "de"),
        ("Das ist ein Haus, und das ist ein Baum.", ["nah", "de"], "de"),  # both are written in Latin letters
        ("Nican mopohua motecpana in quenin", ["nah", "de"], "nah"),
        ("Das ist ein Haus, und das ist ein Baum.", ["chr", "src"], "src"),
        ("", ["chr", "de"], "de"),
    ],
)
def test_languages_that_the_detector_does_not_know(text, among, first):
    ranked = Detector().ranked(text, among)
    assert ranked[0][0] == first and sorted(code for code, _ in ranked) == sorted(among)


def test_languages_that_nobody_named_have_no_names():
    assert [language_name(code) for code in ("src", "tgt", "chr")] == ["source", "target", "Cherokee"]
