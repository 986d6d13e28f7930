"""Documents of every format that are broken, hostile or too large: one line for each; and time that grows in line."""

# ruff: noqa: E501 - tables of pieces of documents

import io
import sys
import warnings
import zipfile

import pytest

from nmt.documents.document import read_document
from nmt.documents.forms import Limits
from nmt.errors import DataError, NMTError
from tests.documents.growth import grows_in_line, rewritten
from tests.documents.test_packages import BODIES, BOLD, CONTENTS, DOCX_BOLD, DOCX_NOTE, NOTE, R, packed, run, zipped
from tests.documents.test_po import header
from tests.documents.test_xliff import whole
from tests.refusals import refused

for _needed in ("markdown_it", "pyicumessageformat"):
    pytest.importorskip(_needed, reason="needs the extra [documents]")

LIMITS = Limits(60_000, 200_000, 1500, 500)
TIMES = "00:00:01,000 --> 00:00:02,000"
ENTITIES = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><a>&d;</a>'
ENTRY, UNIT = 'msgid "a"\nmsgstr ""\n', "<trans-unit><source>a</source></trans-unit>"


@pytest.mark.parametrize(
    "form, content, said",
    [
        ("text", b"\xff", "line 1 must be UTF-8"),
        ("srt", "no times", "must be SubRip"),
        ("srt", f"1\n{TIMES}\na\n\n" * 1600, "at most 1,500 elements"),
        ("srt", f"1\n{TIMES}\na\n\n" * 2000, "at most 60,000 bytes"),
        ("vtt", "00:01.000 --> 00:02.000\na", "must begin with WEBVTT"),
        ("vtt", "WEBVTTX", "must begin with WEBVTT"),
        ("markdown", "a \x02 0\x03", "must be text, got control characters"),
        ("markdown", b"\xff", "line 1 must be UTF-8"),
        ("markdown", "# a\n" * 1000, "at most 1,500 elements"),
        ("markdown", "a" * 70_000, "at most 60,000 bytes of text"),
        ("po", header(charset="rot13").encode() + 'msgid "é"'.encode("latin-1"), "encoding must be a known one, got 'rot13'"),
        ("po", header(charset="punycode").encode() + 'msgid "é"'.encode("latin-1"), "encoding must be a known one, got 'punycode'"),
        ("po", (header() + 'msgid "é"\nmsgstr ""\n').encode("latin-1"), "line 6 must be UTF-8"),
        ("po", "nothing of it", "line 1 must be a comment"),
        ("po", 'msgid "a"\n#~ msgid "b"\n"c"\n', "line 3 must be a comment"),
        ("po", 'msgid "a"\nmsgid "b"\nmsgstr ""\n', "line 2 must be in an entry without msgid"),
        ("po", f"{ENTRY}\n" * 1600, "at most 1,500 elements"),
        ("po", "#" * 70_000, "at most 60,000 bytes"),
        ("xliff", "<a/>", "must be XLIFF"),
        ("xliff", "<xliff><a></xliff>", "must be XML"),
        ("xliff", '<!DOCTYPE x [<!ENTITY a "b">]><xliff/>', "must declare no entities"),
        ("xliff", whole("<trans-unit>" * 400 + "</trans-unit>" * 400), "at most 200 deep"),
        ("xliff", whole("<trans-unit/>" * 2000), "at most 1,500 elements"),
        ("xliff", whole("x" * 70_000), "at most 60,000 bytes"),
        ("xliff", '<?xml version="1.0" encoding="rot13"?>' + whole(""), "encoding must be a known one, got 'rot13'"),
        ("xliff", '<?xml version="1.0" encoding="nobody"?>' + whole(""), "encoding must be a known one, got 'nobody'"),
        ("docx", b"PK no", "must be a DOCX file"),
        ("docx", b"", "must be a DOCX file"),
        ("docx", packed("docx", "<w:p>" * 1000 + "</w:p>" * 1000), "at most 200 deep"),
        ("docx", packed("docx", "<w:p/>" * 2000), "at most 1,500 elements"),
        ("docx", packed("docx", "<w:p>" + "<w:r/>" * 600 + "</w:p>"), "paragraph must have at most 500 elements"),
        ("docx", packed("docx", "<!--" + "x" * 70_000 + "-->"), "at most 60,000 bytes of text"),
        ("docx", packed("docx", "", [("a", b"0" * 300_000)]), "unpack to at most 200,000 bytes"),
        ("odt", b"PK\x03\x04 no", "must be an ODT file, got a broken one"),
        ("epub", b"", "must be an EPUB file, got a broken one"),
        ("pptx", CONTENTS["pptx"][:-90], "must be a PPTX file, got a broken one"),
        ("odt", CONTENTS["pptx"], "must be an ODT file with content.xml, got another archive"),
        ("pptx", CONTENTS["odt"], "must be a PPTX file with ppt/presentation.xml, got another archive"),
        ("epub", CONTENTS["odt"], "must be an EPUB file with META-INF/container.xml, got another archive"),
        ("odt", zipped("odt", {"content.xml": ENTITIES}), "content.xml: must declare no entities"),
        ("pptx", zipped("pptx", {"ppt/presentation.xml": "", "ppt/slides/slide1.xml": "<a>"}), "must be XML"),
        ("pptx", packed("pptx", "<a:p>" * 300 + "</a:p>" * 300), "at most 200 deep"),
        ("ods", packed("ods", "<text:p>" + "<text:s/>" * 600 + "</text:p>"), "paragraph must have at most 500 elements"),
        ("epub", packed("epub", "<br/>" * 2000), "at most 1,500 elements"),
        ("epub", packed("epub", "x" * 70_000), "at most 60,000 bytes of text"),
        ("odp", packed("odp", "", [("Pictures/a", b"0" * 300_000)]), "unpack to at most 200,000 bytes"),
        ("epub", zipped("epub", {"META-INF/container.xml": "", "a.xhtml": b"\xff\xfe"}), "a.xhtml: must be UTF-8, got text that looks like UTF-16"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_broken_or_too_large_is_refused_in_a_line(form, content, said):
    content = content.encode() if isinstance(content, str) else content
    refused(DataError, said, read_document, content, form, "some", limits=LIMITS)


def test_two_members_of_one_name_are_refused_without_a_warning_of_python():
    twins = io.BytesIO(packed("docx", ""))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, as the twins are packed
        with zipfile.ZipFile(twins, "a") as archive:
            archive.writestr("media/a.png", b"2")
        warnings.simplefilter("error")
        refused(DataError, "without two members of one name", read_document, twins.getvalue(), "docx")


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    refused(NMTError, "markdown-it-py", read_document, b"a", "markdown")


PIECES = {
    "html": ["<img alt=a>", "<p title='", "<p alt title", "<pre title=a>", "\x02", "<b title=a>"],
    "markdown": [
        "a\n\n", "a\n", "# a\n", "> ", "- ", "1. a\n", "| a ", "|-", "`", "`` ` ", "[", "]", "[a](", "[a](b) ", "![", "*", "**a ",
        "a*", "_", "a_", "<", "<a ", "<a@", "<!-- ", "\\", "\\`", "$", "$ a", "~~", "[^a]", "{#", "http://", ":::", "---\n", "```\n",
        "[a]: b\n", "[a][b]", "[a]", "&", "  \n", "a" + " " * 20, "<div>\n\n", "](a (", "](a \"", "](a '", "][", "\t- a\n", "> a\n", "a\n\n    b\n\n",
    ],
}  # fmt: skip
GROWING = {
    "srt": [
        (lambda n: f"1\n{TIMES}\na\n\n" * n, 200),
        (lambda n: f"1\n{TIMES}\n" + "- a\n" * n, 200),
        (lambda n: f"1\n{TIMES}\n" + "a\n" * n, 1000),
        (lambda n: f"1\n{TIMES}\n" + "<a" * n, 1000),
        (lambda n: f"1\n{TIMES}\n" + "{\\a" * n, 1000),
        (lambda n: f"1\n{TIMES}\n" + "<b>" * n + "- a", 1000),
        (lambda n: f"1\n{TIMES}\n" + " " * n + "- a\n" + "{" * n, 1500),
        (lambda n: "1" * n + f"\n{TIMES}\n" + "1:" * n, 2000),
    ],
    "po": [
        (lambda n: header() + "".join(f'msgid "a{k}"\nmsgstr ""\n\n' for k in range(n)), 400),
        (lambda n: header() + 'msgid ""\n' + '"abc"\n' * n + 'msgstr ""\n', 3000),
        (lambda n: header() + 'msgid "' + "\\n" * n + 'a"\nmsgstr ""\n', 1500),
        (lambda n: header() + "# a\n" * n + ENTRY, 3000),
        (lambda n: header() + "#, c-format\n" * n + ENTRY, 3000),
        (lambda n: header() + "\n" * n + ENTRY + "".join(f'"{k}"\n' for k in range(n)), 3000),
        (lambda n: header() + 'msgid "' + "<a" * n + '"\nmsgstr ""\n', 1500),
        (lambda n: header() + 'msgid "a" ' + '"b" ' * n + '\nmsgstr ""\n', 3000),
    ],
    "xliff": [
        (lambda n: whole("<trans-unit>" + "<source/>" * n + "</trans-unit>"), 3000),
        (lambda n: whole("<trans-unit><source>a</source>" + "<source/>" * n + "</trans-unit>"), 3000),
        (lambda n: '<?xml version="1.0"?>\n' + whole(UNIT * n), 400),
        (lambda n: whole("<group>" * 150 + UNIT * n + "</group>" * 150), 200),
        (lambda n: whole(UNIT.replace("unit>", "unit " + " ".join(f'a{k}=">"' for k in range(n)) + ">", 1)), 3000),
        (lambda n: whole("<trans-unit><source>" + "<![CDATA[a]]>" * n + "</source></trans-unit>"), 2000),
    ],
    "docx": [
        (lambda n: "<w:p><w:r>" + "<w:t>a</w:t>" * n + "</w:r></w:p>", 1500),
        (lambda n: "<w:p>" + run("a ") * n + "</w:p>", 300),
        (lambda n: "<w:p>" + (run("a ") + DOCX_NOTE) * n + "</w:p>", 100),
        (lambda n: "<w:p>" + run("a ") + run(" b", DOCX_BOLD) * n + "</w:p>", 300),
        (lambda n: "<w:p>" + run("a") + "".join(f'<w:bookmarkStart w:id="{k}"/>' for k in range(n)) + "</w:p>", 600),
        (lambda n: "<w:p>" + run("a") + '<w:r><w:fldChar w:fldCharType="begin"/></w:r>' * n + "</w:p>", 600),
        (lambda n: "<w:p>" + run("a") + "</w:p>" + f"<w:p>{run('b')}</w:p>" * n, 100),
        (lambda n: "<w:p/>" * n, 1500),
    ],
    "pptx": [
        (lambda n: "<a:p>" + (R.format("a ") + BOLD.format("b ")) * n + "</a:p>", 200),
        (lambda n: f"<a:p>{R.format('a')}</a:p>" * n, 150),
    ],
    "odt": [
        (lambda n: "<text:p>" + "a<text:span>b </text:span>" * n + "</text:p>", 300),
        (lambda n: "<text:p>" + "a<text:bookmark-start/>" * n + "</text:p>", 300),
        (lambda n: "<text:p>a" + NOTE.format("<text:p>b</text:p>") * n + "</text:p>", 150),
    ],
    "ods": [(lambda n: BODIES["ods"] * n, 150)],
    "epub": [(lambda n: BODIES["epub"] * n, 80)],
} | {form: [(lambda n, piece=piece: piece * n, 300) for piece in pieces] for form, pieces in PIECES.items()}
PACKED = {*CONTENTS, "docx"}


@pytest.mark.parametrize(("form", "number"), [(form, n) for form, cases in GROWING.items() for n in range(len(cases))])
def test_time_grows_in_line(form, number):
    make, size = GROWING[form][number]
    content = (lambda n: packed(form, make(n))) if form in PACKED else (lambda n: make(n).encode())
    assert grows_in_line(content, rewritten(form), size)
