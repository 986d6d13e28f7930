"""The words of the studio's page: every language is whole, says what the scripts ask for, and speaks no jargon."""

import json
import re

import pytest

from nmt.data.quality.filter import FAULTS
from nmt.studio.errors import STATUSES
from nmt.studio.quality import RULES
from nmt.studio.sharing import KINDS
from nmt.studio.state import ENOUGH, STOPS
from tests.studio.canned import PAGE

ENGLISH = json.loads((PAGE / "strings" / "en.json").read_text("utf-8"))
SCRIPTS = "".join(path.read_text("utf-8") for path in sorted(PAGE.glob("*.js")))
FORMS = ("one", "other", "zero", "two", "few", "many")
JARGON = re.compile(r"\b(BLEU|(epoch|época|loss|validation|model|modelo|checkpoint|parameter|parámetro)s?)\b", re.I)


def plain(key):
    name, _, form = key.rpartition(".")
    return name if form in FORMS and f"{name}.one" in ENGLISH else key


@pytest.mark.parametrize("language", ["en", "es"])
def test_a_language_is_whole(language):
    words = json.loads((PAGE / "strings" / f"{language}.json").read_text("utf-8"))
    assert {plain(key) for key in words} == {plain(key) for key in ENGLISH}
    for key, text in words.items():
        slots = set(re.findall(r"\{[\w:]+\}", text))
        if language != "en" and not key.endswith(".one"):
            assert slots == set(re.findall(r"\{[\w:]+\}", ENGLISH[key])), key
        assert plain(key) == key or plain(key) + ".other" in words
        assert text.strip() == text != ""
        if not key.startswith("expert"):
            assert not JARGON.search(text), key


def test_scripts_ask_for_words_that_are_there():
    known = {plain(key) for key in ENGLISH} | set(ENGLISH)
    assert set(re.findall(r'\b(?:t|button)\("([\w.-]+)"[,)]', SCRIPTS)) - known == set()
    begun = set(re.findall(r't\("((?:[\w-]+\.)+)" \+|t\(`([\w.]+\.)\$\{', SCRIPTS))
    for prefix in filter(None, (a or b for a, b in begun)):
        assert any(key.startswith(prefix) for key in known), prefix


def test_what_the_studio_says_by_codes_has_words():
    codes = [f"error.{code}" for codes in STATUSES.values() for code in codes.split()]
    codes += [f"why.{rule[0]}" for rule in RULES] + [f"act.{rule[2]}" for rule in RULES]
    codes += [f"finding.{name}" for name in FAULTS] + [f"enough.{name}" for name, _ in ENOUGH]
    codes += [f"warning.{name}" for name in STOPS] + [f"share.{kind}" for kind in KINDS]
    assert [code for code in codes if code not in {plain(key) for key in ENGLISH}] == []


def test_every_word_is_asked_for():
    begun = tuple(filter(None, (a or b for a, b in re.findall(r'"((?:[\w-]+\.)+)"|`([\w.]+\.)\$\{', SCRIPTS))))
    for key in map(plain, ENGLISH):
        assert key.startswith(begun) or re.search(rf'["`\s]{re.escape(key)}["`]', SCRIPTS) or f".{key}" in SCRIPTS, key
