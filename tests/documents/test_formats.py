"""Documents: a translator that changes nothing gives every byte back, another one changes texts alone. In pages,
attributes that readers see are translated and quoted; all others, and those in kept elements, stay."""

# ruff: noqa: E501 - files are easier to read in long lines

import html
from html.parser import HTMLParser

import pytest
from click.testing import CliRunner

from nmt.cli.commands.translate import translate
from nmt.documents.document import read_document
from nmt.documents.forms import FORMATS, format_of
from nmt.documents.tagged_text import _TAG
from nmt.errors import DataError
from tests.documents import test_packages
from tests.documents.details import changed
from tests.documents.test_packages import DOCX_BOLD, run
from tests.documents.test_passages import backward, by_words, forward
from tests.refusals import refused
from tests.saved_models import sentences, write_folder

SRT = (
    "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>hello there,\r\nhow are</i> you?\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\nfine.\r\n"
).encode()

VTT = (
    b"WEBVTT - a title\nKind: captions\n\nSTYLE\n::cue(b) { color: red }\n\nNOTE\nnot read\n\n"
    b"first\n00:01.000 --> 01:02:03.500 align:start position:10%\n<v.loud Mary Ann>hello <b>there</b>\n\n"
    b"00:02.000 --> 00:03.000\nTom &amp; <c.red>you</c> <00:02.500>all &lt;now\n"
)

HTML = b"""<!DOCTYPE html>
<html lang=en><head><title>a page</title><style>p > a { }</style></head>
<body><!-- c --><p class="x">hello <b>big</b> world &mdash; here<br>new line</p>
<ul><li>one<li>two &copy; three</ul><pre>a  b</pre><a href='?a=1&b=2'>link</a></body></html>
"""

DOCX = f"<w:p>{run('hello ')}{run('bi', DOCX_BOLD)}{run('g', DOCX_BOLD)}{run(' world &amp; co')}</w:p>"
DOCX += f"<w:p><w:r><w:t>left</w:t><w:tab/><w:t>right</w:t></w:r></w:p><w:tbl><w:p>{run('cell')}</w:p></w:tbl>"
"""Runs of three formats, a tab and a table."""


CONTENTS = {
    "text": "one\r\n\r\n two\u2028three".encode(),
    "html": HTML,
    "xml": b"<?xml version='1.0'?>\n<a><b x='1'>hello <i>big</i> world</b><![CDATA[a < b]]></a>",
    "markdown": b"---\nno: no\n---\n\n# Hello\n\n- one *big* `x`\n  world\n\n| a |\n|---|\n| b |\n",
    "srt": SRT,
    "vtt": VTT,
    "docx": test_packages.packed("docx", DOCX),
    **test_packages.CONTENTS,
}


def through(form, change):
    return changed(CONTENTS[form], form, change)


@pytest.mark.parametrize("form", CONTENTS)
def test_nothing_changes_by_a_translator_that_changes_nothing(form):
    assert through(form, str) == CONTENTS[form]


def test_every_format_is_tried():
    assert CONTENTS.keys() | {"po", "xliff"} == set(FORMATS), "these two have files of tests of their own"
    (option,) = [one for one in translate.params if one.name == "form"]
    assert tuple(option.type.choices) == ("lines", "auto", *FORMATS)


def test_subtitles_keep_times_tags_and_numbers_of_lines():
    expected = SRT.replace(b"hello there,", b"HELLO THERE,").replace(b"fine.", b"FINE.")
    assert through("srt", str.upper) == expected.replace(b"how are</i> you?", b"HOW ARE</i> YOU?")


def test_cues_of_webvtt_are_translated_and_nothing_else():
    expected = VTT.replace(b"hello <b>there", b"HELLO <b>THERE").replace(b"all &lt;now", b"ALL &lt;NOW")
    assert through("vtt", str.upper) == expected.replace(b"Tom &amp; <c.red>you", b"TOM &amp; <c.red>YOU")
    found = through("vtt", lambda text: "a --> b & c")
    assert found.count(b"-->") == VTT.count(b"-->") and b"a --&gt; <c.red>b</c>" in found


def test_runs_of_docx_keep_their_formats_and_move_with_their_words():
    text = test_packages.part_of(through("docx", str.upper), "word/document.xml")
    assert (big := f"<w:r>{DOCX_BOLD}<w:t>BIG</w:t></w:r>") in text
    assert "<w:t>LEFT</w:t><w:tab/><w:t>RIGHT</w:t>" in text.replace(' xml:space="preserve"', "")
    assert " WORLD &amp; CO</w:t>" in text and ">CELL<" in text
    text = test_packages.body_of("docx", DOCX, backward).replace(' xml:space="preserve"', "")
    assert text.startswith(f"<w:p><w:r><w:t>CO &amp; WORLD </w:t></w:r>{big}<w:r><w:t> HELLO</w:t></w:r></w:p>")


def test_html_keeps_what_is_no_text():
    found = through("html", str.upper)
    for kept in (b"<style>p > a { }</style>", b"<pre>a  b</pre>", b"<a href='?a=1&b=2'>LINK</a>", b"<li>ONE<li>"):
        assert kept in found
    assert b"HELLO <b>BIG</b> WORLD" in found


def test_names_say_formats():
    names = {"a.TXT": "text", "b.htm": "html", "c.xlf": "xliff", "d.pot": "po", "e.docx": "docx"}
    assert {name: format_of(name) for name in names} == names
    refused(DataError, "must end in one of", format_of, "a.exe")


def test_the_command_translates_documents(tmp_path):
    pytest.importorskip("sentencex", reason="needs the extra [documents]")
    folder = write_folder(tmp_path / "model", seed=6)
    a, b = sentences(2, seed=5)
    source, out = tmp_path / "page.html", tmp_path / "out.html"
    source.write_text(f"<p>{a} <b>{b}</b></p>\n<p>{b}</p>\n", "utf-8")
    result = CliRunner().invoke(translate, [str(folder), str(source), "--format", "auto", "-o", str(out)])
    assert result.exit_code == 0, result.output
    lines = tmp_path / "lines"
    lines.write_text(f"{b}\n", "utf-8")
    plain = CliRunner().invoke(translate, [str(folder), str(lines)]).stdout.strip("\n")
    found = out.read_text("utf-8")
    assert found.count("<b>") == found.count("</b>") == 1
    assert f"<p>{plain.strip()}</p>" in found.replace(plain, plain.strip())
    for arguments, said in (
        (["--format", "html", "--scores"], "goes without --scores"),
        (["--format", "docx"], "must be a DOCX file"),
        (["--format", "html", "-o", str(source)], "must"),
    ):
        result = CliRunner().invoke(translate, [str(folder), str(source), *arguments])
        assert result.exit_code != 0 and said in result.output, result.output
    assert CliRunner().invoke(translate, [str(folder), "-", "--format", "auto"], input="a").exit_code == 2


PAGE = """<!DOCTYPE html>
<html lang=en><head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>the shop</title>
<meta name="Description" content="we sell &quot;red&quot; shoes"><meta property="og:title" content='our shop'>
<meta property="og:image" content="https://a.org/one two.png"><link rel=stylesheet href="a.css">
<script title="no">var alt = "no";</script></head>
<body><nav aria-label="main menu" data-name="no no"><a href="/x" title="go home">home</a></nav>
<p>press <img src="b.png" alt="the red button"> now or <abbr title=hypertext>ht</abbr> later</p>
<form><input type="search" name="q" placeholder="search here" value="no no"><input type=submit name=a value="send no">
<input type=submit value="send all">
<input type=reset value="empty all"><textarea placeholder='your "name" &amp; town'>no no</textarea>
<select><optgroup label="north side"><option value="no" label="first town">one</option></optgroup></select></form>
<table><tr><th abbr="cost">the cost</th></tr></table><video><track label="with sound" src=c.vtt></video>
<p translate="no"><img alt="no no">no</p><img translate="no" alt="no"><pre title="a listing">no</pre>
<svg aria-label="a chart"><text title="no">no</text></svg><code><span title="no">no</span></code><img alt><img alt="">
</body></html>
"""


class Reader(HTMLParser):
    """All attributes, as a browser reads them."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found += [(tag, name, value) for name, value in attributes]


SHOWN = {
    "we sell \"red\" shoes", "our shop", "main menu", "go home", "the red button", "hypertext", "search here",
    "empty all", "send all",
    'your "name" & town', "north side", "first town", "cost", "with sound", "a listing", "a chart",
}  # fmt: skip


def test_attributes_that_readers_see_are_translated_and_no_others():
    before = Reader(PAGE).found
    page = changed(PAGE.encode(), "html", str.upper).decode()
    expected = [(tag, name, value.upper() if value in SHOWN else value) for tag, name, value in before]
    assert Reader(page).found == expected and {value for _, _, value in before} >= SHOWN
    assert "HOME</a>" in page and "<title>THE SHOP</title>" in page and 'var alt = "no"' in page


@pytest.mark.parametrize(
    "page", [PAGE, "<img alt='a\x02 0\x03'>\x020\x03", "<p title='unended", "<img alt=a/><b title>c"]
)
def test_pages_come_back_byte_for_byte(page):
    assert changed(page.encode(), "html", str) == page.encode()


@pytest.mark.parametrize(
    "tag", ['<img alt="one">', "<img alt='one'>", "<img alt=one>", "<img alt = one >", "<IMG class=x ALT='one'/>"]
)
@pytest.mark.parametrize("text", ["it's", 'the "big" one', "a < b > c & d &quot;", "'\"", "x y="])
def test_values_are_quoted_so_that_browsers_read_what_was_said(tag, text):
    page = f"<p>a {tag} b</p>".encode()
    found = changed(page, "html", lambda asked: text if asked == "one" else asked).decode()
    assert ("img", "alt", html.unescape(html.escape(text))) in Reader(found).found


def test_attributes_move_with_their_tags():
    page = b'<p>one <a href=x title="big page">two</a></p>'
    found = changed(page, "html", lambda asked: by_words(asked, backward))
    assert found == b'<p><a href=x title="PAGE BIG">TWO</a> ONE</p>'


@pytest.mark.parametrize("between", ["+", " + ", "&gt;", " → ", "-", "/", " "])
def test_keys_that_are_pressed_together_stay_together(between):
    """The sign between keys was a word, which the model might lose or move."""
    keys = f"<kbd>Ctrl</kbd>{between}<kbd>Shift</kbd>{between}<kbd>a</kbd>"
    page = f"<p>press {keys} or <kbd>b</kbd> now</p>".encode()
    assert [s.text for p in read_document(page, "html").passages for s in p.sentences] == ["press  or  now"]
    found = changed(page, "html", lambda asked: by_words(asked, backward)).decode()
    assert keys in found and "<kbd>b</kbd>" in found


TIMES = "00:00:01,000 --> 00:00:02,000"


def translated(text, order=forward, change=str.upper):
    cue = f"1\n{TIMES}\n{text}\n\n".encode()
    found = changed(cue, "srt", lambda asked: by_words(asked, order, change)).decode()
    assert found.startswith(f"1\n{TIMES}\n") and found.endswith("\n\n")
    return found[len(f"1\n{TIMES}\n") : -2]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("- the train leaves.\n- my sister arrives.", "- LEAVES. TRAIN THE\n- ARRIVES. SISTER MY"),
        ("-one two\n-three four", "-TWO ONE\n-FOUR THREE"),
        ("– one two\nthree\n— four five", "– THREE\nTWO ONE\n— FIVE FOUR"),
        ("<i>- one two</i>\n- three four", "<i>- TWO ONE</i>\n- FOUR THREE"),
        ("one two\n- three four", "TWO ONE\n- FOUR THREE"),
        (">> one two\nthree\n>> four five", ">> THREE\nTWO ONE\n>> FIVE FOUR"),
        (">>> one two", ">>> TWO ONE"),
        ("♪ one two ♪\n♪ three four ♪", "♪ TWO ONE ♪\n♪ FOUR THREE ♪"),
        ("<i>♪ one two\nthree ♪\n♪ four five ♪</i>", "<i>♪ THREE\nTWO ONE ♪\n♪ FIVE FOUR ♪</i>"),
        ("<v Ann>one two\n<v Bob>three four", "<v Ann>TWO ONE\n<v Bob>FOUR THREE"),
        ("<v.l Ann>one two</v>\n<v Bob>three\nfour five</v>", "<v.l Ann>TWO ONE</v>\n<v Bob>FIVE\nFOUR THREE</v>"),
    ],
)
def test_each_speaker_keeps_the_own_words_and_line(text, expected):
    """Two speakers became one sentence in one line."""
    assert translated(text, backward) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(r"{\an8}one two", r"{\an8}{\i1}one{\i0} two", "♪ one two ♪", "♪♪ <i>one two</i> ♫"),
        *("<font color='#ff0000'>one</font> two", ">> one >> two", "Tom & one < two", "it costs -5 euros"),
        "one\ntwo",
    ],
)
def test_codes_music_and_tags_stay(text):
    assert translated(text, forward, lambda word: word.replace("one", "uno")) == text.replace("one", "uno")
    assert all(tag in translated(text, backward) for tag in _TAG.findall(text))


def test_an_empty_translation_does_not_end_the_subtitle():
    document = read_document(f"1\n{TIMES}\none\n- two\n".encode(), "srt")
    assert document.write(["", "zwei"]).decode() == f"1\n{TIMES}\n- zwei\n"


def test_codes_are_not_read_by_the_model():
    document = read_document(f"1\n{TIMES}\n{{\\an8}}one ♪ two\n".encode(), "srt")
    assert [" ".join(s.text.split()) for p in document.passages for s in p.sentences] == ["one two"]


def whole(text, form="srt"):
    """The translation of a file, backward and in capitals, and what is left of it."""
    found = changed(text.encode(), form, lambda asked: by_words(asked, backward, str.upper))
    return found.decode(), read_document(text.encode(), form).left


@pytest.mark.parametrize(
    "text",
    [
        "1\n00:00:01,000 --> 00:00:02,000\na one\n2\n00:00:02,000 --> 00:00:03,000\nb two\n",  # no blank line
        "\ufeff1\r\n00:00:20 --> 00:00:24\r\na one\r\n\r\n2\r\n00:00:25,1 --> 00:00:26,123\r\nb two\r\n",  # no milliseconds
        "1\n00:00:01.000 --> 00:00:02.000\na one\n\n2\n0:0:3,5 --> 0:0:4,5\nb two\n",  # dots, single digits
        "1\n00:01,000 --> 00:02,000\na one\n\n2\n00:05 -> 00:06\nb two",  # no hours, another arrow, no line break
        "1\n00:00:01,000 --> 00:00:02,000\n\na one\n\nb two\n\n",  # an empty first line, a blank line within
        "1\n00:00:01 --> 00:00:02  X1:100 X2:200 Y1:1 Y2:2\na one\n\n\n\n2\n\n00:00:03:000 --> 00:00:04:000\n\nb two\n\n\n",
        "00:00:01,000 --> 00:00:02,000\na one\n\n00:00:02,000 --> 00:00:03,000\nb two\n",  # no numbers
        "1\n00:00:01,000 --> 00:00:02,000\na one\n\ufeff2\n00:00:02,000 --> 00:00:03,000\nb two\n",  # two files in one
        "WEBVTT\n\n00:01.000 --> 00:02.000 align:start\na one\n2\n00:02.000 --> 00:03.000\nb two\n\nNOTE a one\n",
    ],
)
def test_cues_as_tools_write_them_are_translated_and_nothing_else(text):
    found, left = whole(text, "vtt" if text.startswith("WEBVTT") else "srt")
    assert found == text.replace("a one", "ONE A", 1).replace("b two", "TWO B") and not left


def test_times_in_the_text_of_a_cue_are_text():
    text = "1\n00:00:01,000 --> 00:00:02,000\nJump to 00:01:23,456 --> 00:01:25,000 now\n10:30 -> 11:00 lunch\n"
    found = whole(text)[0].split("\n", 2)[2]
    assert sorted(found.split()) == sorted(text.split("\n", 2)[2].upper().split())


def test_cues_that_cannot_be_read_are_counted():
    text = "1\n00:00:01 --> soon\na one\n\n2\n00:00:02,000 --> 00:00:03,000\nb two\n\n3\n00:0x:02,000 --> 9\nc\n"
    found, left = whole(text)
    assert found == text.replace("b two", "TWO B") and left == {"cues without times that can be read": 2}


def test_readings_of_ruby_in_subtitles_are_kept():
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\nhe <ruby>said<rt>so</rt></ruby> it\n"
    ruby = "{} <ruby>{}<rt>so</rt></ruby> {}"
    assert whole(text, "vtt")[0] == text.replace(ruby.format("he", "said", "it"), ruby.format("IT", "SAID", "HE"))


@pytest.mark.parametrize(
    "text", ["[one two]", "(one two)", "<i>[one two]</i>", r"{\an8}(one two)", "- [one two]", "[one\ntwo]"]
)
def test_a_sound_stays_in_brackets(text):
    """The brackets of `[Music]` were words, which the model might lose."""
    (passage,) = read_document(f"1\n{TIMES}\n{text}\n".encode(), "srt").passages
    assert [s.text for s in passage.sentences] == ["one two"]
    assert translated(text) == text.replace("one", "ONE").replace("two", "TWO")
    (passage,) = read_document(f"1\n{TIMES}\n[one] two [three]\n".encode(), "srt").passages
    assert [s.text for s in passage.sentences] == ["[one] two [three]"]


def test_scripts_without_spaces_have_as_many_lines():
    """The text became a single line."""
    document = read_document(b"1\n00:00:01,000 --> 00:00:02,000\none two three\nfour five six\n", "srt")
    found = document.write(["一二三、四<i>五六</i>七八。"]).decode()
    assert found.splitlines()[2:] == ["一二三、四<i>五", "六</i>七八。"]
