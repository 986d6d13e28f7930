"""Time grows with the length of a text and not with its square, whatever somebody writes.

Each reader and each regular expression reads hostile texts of one and of eight times a length. Processor time is
compared, the best of several tries: eight times as much text takes eight times as long, 64 times where it is quadratic.
"""

import importlib
import pkgutil
import re
import time

import pytest

import nmt.documents
from nmt.documents import passage as passages
from nmt.documents.document import read_document
from nmt.documents.passage import Sentence, pieces, windows
from nmt.documents.placeholders import placeholders_of
from nmt.documents.tagged_text import read_passage
from nmt.inference.translation import Translation
from tests.documents.growth import grows_in_line
from tests.documents.test_passages import by_words, forward

_LENGTH, _TIMES, _BOUND = 2_000, 8, 24

MARKUP = [
    "<", "<a ", "<a/", "<a b=\"", "<a b='", "<a =", "<!--", "<![CDATA[", "<!doctype [", "<!doctype [>",
    "<!doctype '", "<?", "</", "</ ", "<b>", "</b>", "<b></b>", "<i>x</i> ", "<b><p>", "<li>", "<b><li>",
    "<ul><li>", "<td><tr>", "</p>", "<p translate=no>", "<li translate=no>x", "<code>", "<code></code>",
    "<script>", "</script", "<textarea>", "&", "&#", "&#1", "&amp", "&amp;", "&nbsp;", "&nope;", "&;", "]]>",
    "<x/>", "<svg>", "<a>¶</a>", "<b>x y ", "-->", "<table><td>",
]  # fmt: skip
TEXT = [
    "x", " ", '\n', "1 ", "1-", "1,", "12:", "%", "%0", "%(a", "%(a)0", "%1$", "%d ", "%d/", "{", "${", "{{",
    "{a} ", "{a}{b} ", "www.", "www.a", "-www.a", "http://", "http://.", "a://", "a@", "a@b.", "@", "«", "“", "'",
    ". ", "A ", "AB. ", "́", '\u200b', '\xa0', 'x\xa0', "😀", '\x00', '\x1c', '\r', "?!", "<?", 'a\t',
]  # fmt: skip


def seconds(work, text):
    start = time.thread_time()
    work(text)
    return time.thread_time() - start


def assert_grows_in_line(work, family):
    short, long = (family * (n // len(family) + 1) for n in (_LENGTH, _LENGTH * _TIMES))
    best = [float("inf")] * 2
    for _ in range(6):
        best = [min(one, seconds(work, text)) for one, text in zip(best, (short, long), strict=True)]
        if best[1] <= _BOUND * max(best[0], 0.0005):
            return
    raise AssertionError(f"{family!r}: {_TIMES} times as much takes {best[1]:.2f} s instead of {best[0]:.4f} s")


def document(form, before=""):
    def work(text):
        read = read_document((before + text).encode(), form)
        sentences = [p.joined([Translation(f"{s.asked} 7 %d", 0, 0) for s in p.sentences]) for p in read.passages]
        read.write(sentences)

    return work


def snippet(text):
    passage = read_passage(text, "xml")
    passage.joined([by_words(one.asked, forward, str.upper) for one in passage.sentences])


BEFORE = {"html": "", "xml": "<r>z ", "markdown": "", "vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\nz "}
READERS = {form: document(form, before) for form, before in BEFORE.items()} | {"snippet": snippet}
TEXT_READERS = {"text": document("text"), "placeholders": placeholders_of, "windows": windows}
TEXT_READERS["pieces"] = lambda text: pieces(text, None)


@pytest.mark.parametrize("said", ["7", "x", "z%d", "{a}"])
@pytest.mark.parametrize("word", ["7 ", "%d/%s ", "{a} ", "{{ y }} ", "a@b.org ", "n%d ", "%s", "{a}"])
def test_placeholders_of_a_long_sentence_grow_in_line(word, said):
    """Each placeholder was looked for in each word of the translation, and those that touch among all their copies."""

    def work(text):
        translation = " ".join([said] * len(text.split())) if " " in word else f"{said} {text}"
        Sentence(text).translated(Translation(translation, 0, 0))

    assert_grows_in_line(work, word)


@pytest.mark.parametrize("name", READERS)
def test_readers_of_markup_grow_in_line(name):
    for family in MARKUP + TEXT:
        assert_grows_in_line(READERS[name], family)


@pytest.mark.parametrize("name", TEXT_READERS)
def test_readers_of_text_grow_in_line(name):
    for family in TEXT + MARKUP[:6]:
        assert_grows_in_line(TEXT_READERS[name], family)


def test_sentences_grow_in_line():
    pytest.importorskip("sentencex", reason="needs the extra [documents]")
    split = passages.sentence_splitter("en")
    for family in ("«", "?! ", "“a ", "<?"):
        texts = [family * (n // len(family)) for n in (20_000, 160_000)]
        ratios = (seconds(split, texts[1]) / max(seconds(split, texts[0]), 0.001) for _ in range(6))
        assert any(ratio <= _BOUND for ratio in ratios), family


def test_a_long_line_is_cut_in_line():
    """Each cut was a copy of the rest, which is seen in longer lines alone."""
    copied = 0

    class Counted(str):
        def __getitem__(self, key):
            nonlocal copied
            found = str.__getitem__(self, key)
            copied += len(found)
            return Counted(found)

    text = Counted("word " * 40_000)
    assert "".join(pieces(text, lambda whole: [whole])) == text and copied <= 2 * len(text)


def expressions():
    """Every regular expression of the modules that read what clients send."""
    packages = [nmt.documents]
    if importlib.util.find_spec("starlette"):
        packages.append(importlib.import_module("nmt.serve"))
    for package in packages:
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, re.Pattern) and isinstance(value.pattern, str):
                    yield f"{module.name}.{name}", value


GOING_ON = {f"nmt.documents.markup.{name}" for name in ("_PLAIN_END", "_ATTRIBUTE", "_END")} | {
    f"nmt.documents.formats.srt.{name}" for name in ("_TIMES", "_SPEAKER", "_VOICE", "_VERSE", "_SOUND", "_WORD")
}
"""Those that are matched where another one has ended or where a line begins, and are looked for nowhere else."""


def test_regular_expressions_grow_in_line():
    found = dict(expressions())
    assert len(found) > 5 and found.keys() >= GOING_ON
    for name, pattern in found.items():
        for family in TEXT + MARKUP:
            try:
                assert_grows_in_line(pattern.match, family)
                if name not in GOING_ON:
                    assert_grows_in_line(pattern.findall, family)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None


def test_lost_placeholders_are_put_in_line():
    """Each looked for a neighbour with a translation, one source word after the other."""

    def work(text):
        Sentence(text).translated(Translation("one", 0, 0))

    assert grows_in_line(lambda count: "{a} " * count, work, 500)
