"""Office documents and books in zip archives: formatting follows its words, all that is no text stays as it was."""

# ruff: noqa: E501 - paragraphs of XML are easier to read in one line

import io
import re
import zipfile
from xml.etree import ElementTree

import pytest

from nmt.documents.document import read_document
from nmt.documents.forms import Limits
from nmt.errors import DataError
from tests.documents.growth import grows_in_line
from tests.documents.test_passages import backward, by_words, forward

A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
ODF = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in {
        "office": "office", "text": "text", "table": "table", "draw": "drawing", "svg": "svg-compatible",
    }.items()
)  # fmt: skip
MIMETYPE = {
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "odp": "application/vnd.oasis.opendocument.presentation",
    "epub": "application/epub+zip",
}
NCX = "http://www.daisy.org/z3986/2005/ncx/"
PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><head><title>one book</title></head>
<body>{}</body></html>
"""


def zipped(form, parts):
    """A package: `mimetype` is first and not packed, as ODF and EPUB demand."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        if form in MIMETYPE:
            archive.writestr("mimetype", MIMETYPE[form], zipfile.ZIP_STORED)
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def slide(body):
    return f'<?xml version="1.0"?>\n<p:sld {A} xmlns:p="urn:p"><p:txBody>{body}</p:txBody></p:sld>'


def open_document(body):
    return f'<?xml version="1.0"?>\n<office:document-content {ODF}><office:body>{body}</office:body></office:document-content>'


def packed(form, body, more=()):
    """A package around the paragraphs of its main part."""
    parts = {
        "pptx": lambda: {"ppt/presentation.xml": "<p/>", "ppt/slides/slide1.xml": slide(body)},
        "epub": lambda: {"META-INF/container.xml": "<container/>", "EPUB/a.xhtml": PAGE.format(body)},
    }.get(form, lambda: {"content.xml": open_document(body)})()
    return zipped(form, parts | {"media/a.png": bytes(range(256))} | dict(more))


MAIN = {"pptx": "ppt/slides/slide1.xml", "epub": "EPUB/a.xhtml"}
BODIES = {
    "pptx": '<a:p><a:r><a:rPr b="1"/><a:t>hello </a:t></a:r><a:r><a:t>world &amp; co</a:t></a:r></a:p>',
    "odt": '<text:h>hello</text:h><text:p>big <text:span text:style-name="B">red &amp; round</text:span> world</text:p>',
    "ods": '<table:table-cell office:value-type="string"><text:p>hello world</text:p></table:table-cell>',
    "odp": '<draw:text-box><text:p text:style-name="P1">hello <text:s/> world</text:p></draw:text-box>',
    "epub": '<h1>hello</h1><p>big <b>red</b> world&#160;<img src="a.png" alt="a tree"/></p>',
}
CONTENTS = {form: packed(form, body) for form, body in BODIES.items()}


def part_of(content, name):
    return zipfile.ZipFile(io.BytesIO(content)).read(name).decode()


def translated(form, content, order=forward, languages=None):
    document = read_document(content, form, "some", None, languages)
    assert document.write([p.source for p in document.passages]) == content
    found = document.write([p.joined([by_words(s.asked, order) for s in p.sentences]) for p in document.passages])
    before, after = (zipfile.ZipFile(io.BytesIO(one)) for one in (content, found))
    assert [(one.filename, one.compress_type) for one in before.infolist()] == [
        (one.filename, one.compress_type) for one in after.infolist()
    ]
    assert after.read("media/a.png") == bytes(range(256))
    return found


def body_of(form, body, order=forward):
    text = part_of(translated(form, packed(form, body), order), MAIN.get(form, "content.xml"))
    ElementTree.fromstring(text)
    around = part_of(packed(form, "\x01"), MAIN.get(form, "content.xml")).split("\x01")
    return text[len(around[0]) : len(text) - len(around[1])]


R = "<a:r><a:t>{}</a:t></a:r>"
BOLD = '<a:r><a:rPr lang="en-US" b="1"/><a:t>{}</a:t></a:r>'
NOTE = "<text:note><text:note-citation>1</text:note-citation><text:note-body>{}</text:note-body></text:note>"


@pytest.mark.parametrize(
    "form, body, expected",
    [
        # Runs of DrawingML have one text each, without xml:space, which its schema does not have.
        ("pptx", f"<a:p>{R.format('one ')}{BOLD.format('two')}{R.format(' three')}<a:endParaRPr/></a:p>",
         f"<a:p>{R.format('THREE ')}{BOLD.format('TWO')}{R.format(' ONE')}<a:endParaRPr/></a:p>"),
        # What a spelling checker says of the old text divides no run.
        ("pptx", '<a:p><a:r><a:rPr b="1" dirty="0"/><a:t>one </a:t></a:r><a:r><a:rPr b="1" err="1"/><a:t>two</a:t></a:r></a:p>',
         '<a:p><a:r><a:rPr b="1"/><a:t>TWO ONE</a:t></a:r></a:p>'),
        ("pptx", f"<a:p><a:pPr/>{R.format('one two')}<a:br/>{R.format('three four')}</a:p>",
         f"<a:p><a:pPr/>{R.format('TWO ONE')}<a:br/>{R.format('FOUR THREE')}</a:p>"),
        ("pptx", f"<a:p>{R.format('one two&#9;three four')}{BOLD.format('five')}</a:p>",
         f"<a:p>{R.format('TWO ONE')}{R.format(chr(9))}{R.format('FOUR')}{BOLD.format('FIVE')}{R.format(' THREE')}</a:p>"),
        ("pptx", f'<a:p>{R.format("page one ")}<a:fld type="slidenum"><a:t>7 of</a:t></a:fld></a:p>',
         f'<a:p>{R.format("ONE PAGE ")}<a:fld type="slidenum"><a:t>7 of</a:t></a:fld></a:p>'),
        ("pptx", f"<a:tbl><a:tc><a:txBody>{'<a:p><a:endParaRPr/></a:p>'}<a:p>{R.format('a b')}</a:p></a:txBody></a:tc></a:tbl>",
         f"<a:tbl><a:tc><a:txBody>{'<a:p><a:endParaRPr/></a:p>'}<a:p>{R.format('B A')}</a:p></a:txBody></a:tc></a:tbl>"),
        ("odt", '<text:p>one <text:span text:style-name="B">two</text:span> &lt;three</text:p>',
         '<text:p>&lt;THREE <text:span text:style-name="B">TWO</text:span> ONE</text:p>'),
        ("odt", f"<text:p>one two{NOTE.format('<text:p>three four</text:p>')} five</text:p>",
         f"<text:p>FIVE TWO{NOTE.format('<text:p>FOUR THREE</text:p>')} ONE</text:p>"),
        ("odt", "<text:p>one two<text:line-break/>three four<text:tab/>five</text:p>",
         "<text:p>TWO ONE<text:line-break/>FOUR THREE<text:tab/>FIVE</text:p>"),
        ("odt", '<text:p>one <text:bookmark-start text:name="x"/>two<text:bookmark-end text:name="x"/> three</text:p>',
         '<text:p>THREE <text:bookmark-start text:name="x"/>TWO<text:bookmark-end text:name="x"/> ONE</text:p>'),
        ("odt", '<text:p>one <text:bookmark-start text:name="x"/>two</text:p><text:p>b<text:bookmark-end text:name="x"/></text:p>',
         '<text:p><text:bookmark-start text:name="x"/>TWO ONE</text:p><text:p>B<text:bookmark-end text:name="x"/></text:p>'),
        ("odt", "<text:p>on page <text:page-number>7 no</text:page-number></text:p><text:p/><text:p> </text:p>",
         "<text:p>PAGE ON <text:page-number>7 no</text:page-number></text:p><text:p/><text:p> </text:p>"),
        ("odt", "<text:tracked-changes><text:deletion><text:p>was here</text:p></text:deletion></text:tracked-changes><text:p>a b</text:p>",
         "<text:tracked-changes><text:deletion><text:p>was here</text:p></text:deletion></text:tracked-changes><text:p>B A</text:p>"),
        ("odt", "<text:p>see<draw:frame><draw:image/><svg:desc>red tree</svg:desc></draw:frame> it</text:p>",
         "<text:p>IT SEE<draw:frame><draw:image/><svg:desc>TREE RED</svg:desc></draw:frame></text:p>"),
        ("odt", "<text:p>one <![CDATA[<two]]> three<!-- no --><?no no?></text:p>", "<text:p>THREE &lt;TWO ONE</text:p>"),
        ("ods", '<table:table-cell office:value-type="float" office:value="3"><text:p>three no</text:p></table:table-cell>', None),
        ("ods", '<table:table-cell table:formula="x" office:value-type="string"><text:p>made of</text:p></table:table-cell>', None),
        ("ods", BODIES["ods"], BODIES["ods"].replace("hello world", "WORLD HELLO")),
        ("odp", BODIES["odp"], BODIES["odp"].replace("hello <text:s/> world", "<text:s/> WORLD HELLO")),
        ("odp", '<text:p><text:s text:c="4"/>one <text:s/>two<text:s/>three<text:s text:c="2"/>four</text:p>',
         '<text:p><text:s text:c="4"/><text:s text:c="2"/>FOUR THREE <text:s/>TWO ONE</text:p>'),
        ("epub", '<p>one <a epub:type="noteref" href="#x">two</a><br/>three four</p><pre>a b</pre>',
         '<p><a epub:type="noteref" href="#x">TWO</a> ONE<br/>FOUR THREE</p><pre>a b</pre>'),
        ("epub", '<nav epub:type="toc"><ol><li><a href="a.xhtml" title="go to">part one</a></li></ol></nav>',
         '<nav epub:type="toc"><ol><li><a href="a.xhtml" title="TO GO">ONE PART</a></li></ol></nav>'),
    ],
)  # fmt: skip
def test_formatting_follows_its_words(form, body, expected):
    assert body_of(form, body, backward) == (body if expected is None else expected)


def book(language="<dc:language>en</dc:language>"):
    metadata = f"<dc:title>one book</dc:title><dc:creator>jane doe</dc:creator>{language}<dc:language>la</dc:language>"
    return packed("epub", "<p>a b</p>", {
        "EPUB/b.opf": f'<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>{metadata}</metadata></package>',
        "EPUB/toc.ncx": f'<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">\n'
        f'<ncx xmlns="{NCX}"><docTitle><text>one book</text></docTitle><docAuthor><text>jane doe</text></docAuthor>'
        "<navLabel><text>part one</text></navLabel></ncx>",
    }.items())  # fmt: skip


@pytest.mark.parametrize("languages, code", [(("en", "de"), "de"), (None, "en"), (("en", ""), "en")])
def test_books_have_their_contents_and_language_in_the_target_language(languages, code):
    found = translated("epub", book(), backward, languages)
    assert zipfile.ZipFile(io.BytesIO(found)).infolist()[0].filename == "mimetype"
    assert found[30:58] == b"mimetypeapplication/epub+zip"
    about = part_of(found, "EPUB/b.opf")
    assert f"<dc:title>BOOK ONE</dc:title><dc:creator>jane doe</dc:creator><dc:language>{code}<" in about
    assert "<dc:language>la<" in about
    contents = part_of(found, "EPUB/toc.ncx")
    assert re.findall("<text>([^<]*)", contents) == ["BOOK ONE", "jane doe", "ONE PART"]
    assert "<dc:language/>" in part_of(translated("epub", book("<dc:language/>")), "EPUB/b.opf")


def test_other_parts_of_office_documents_are_translated():
    more = {"ppt/notesSlides/notesSlide1.xml": slide(f"<a:p>{R.format('a note')}</a:p>"),
            "ppt/charts/chart1.xml": slide(f"<a:p>{R.format('a chart')}</a:p>"),
            "ppt/diagrams/data1.xml": slide(f"<a:p>{R.format('a box')}</a:p>"),
            "ppt/slideLayouts/slideLayout1.xml": slide(f"<a:p>{R.format('click to edit')}</a:p>")}  # fmt: skip
    found = translated("pptx", packed("pptx", BODIES["pptx"], more.items()))
    texts = [re.findall("<a:t>([^<]*)", part_of(found, name))[0] for name in more]
    assert texts == ["A NOTE", "A CHART", "A BOX", "click to edit"]
    styles = open_document("<text:p>a footer</text:p>")
    assert "A FOOTER" in part_of(translated("odt", packed("odt", "", [("styles.xml", styles)])), "styles.xml")


def test_texts_of_drawings_in_docx_are_translated():
    drawing = f"<w:drawing><a:txBody {A}><a:p>{R.format('a box')}</a:p></a:txBody></w:drawing>"
    body = f"<w:p><w:r><w:t>one two</w:t></w:r><w:r>{drawing}</w:r></w:p>"
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = f'<w:document xmlns:w="{word}">{body}</w:document>'
    content = zipped("docx", {"word/document.xml": document, "media/a.png": bytes(range(256))})
    found = part_of(translated("docx", content, backward), "word/document.xml")
    assert found == document.replace("one two", "TWO ONE").replace("a box", "BOX A")


ENTITIES = '<!DOCTYPE a [<!ENTITY b "cc"><!ENTITY d "&b;&b;">]><a>&d;</a>'


@pytest.mark.parametrize(
    "form, content, said",
    [
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
)  # fmt: skip
def test_damaged_and_hostile_packages_are_a_line(form, content, said):
    with pytest.raises(DataError, match=said) as caught:
        read_document(content, form, "some", None, None, Limits(60_000, 200_000, 1500, 500))
    assert "\n" not in str(caught.value)


def test_entities_in_pages_of_books_are_not_resolved():
    content = zipped("epub", {"META-INF/container.xml": "", "a.xhtml": ENTITIES, "media/a.png": bytes(range(256))})
    assert part_of(translated("epub", content), "a.xhtml") == ENTITIES


@pytest.mark.parametrize(
    "form, make, size",
    [
        ("pptx", lambda n: "<a:p>" + (R.format("a ") + BOLD.format("b ")) * n + "</a:p>", 200),
        ("pptx", lambda n: f"<a:p>{R.format('a')}</a:p>" * n, 150),
        ("odt", lambda n: "<text:p>" + "a<text:span>b </text:span>" * n + "</text:p>", 300),
        ("odt", lambda n: "<text:p>" + "a<text:bookmark-start/>" * n + "</text:p>", 300),
        ("odt", lambda n: "<text:p>a" + NOTE.format("<text:p>b</text:p>") * n + "</text:p>", 150),
        ("ods", lambda n: BODIES["ods"] * n, 150),
        ("epub", lambda n: BODIES["epub"] * n, 80),
    ],
)
def test_time_grows_in_line(form, make, size):
    def both(content):
        document = read_document(content, form)
        document.write(["a" + p.source for p in document.passages])

    assert grows_in_line(lambda n: packed(form, make(n)), both, size)


RAISED = '<office:automatic-styles><style:style xmlns:style="urn:s" style:name="T1"><style:text-properties style:text-position="super 58%"/></style:style></office:automatic-styles>'
PICTURE = '<p:pic><p:cNvPr id="3" name="x" descr="{}"/></p:pic>'


@pytest.mark.parametrize(
    "form, body, expected",
    [
        ("odt", f'{RAISED}<text:p>the train<text:span text:style-name="T1">1</text:span> leaves</text:p>',
         f'{RAISED}<text:p>LEAVES TRAIN<text:span text:style-name="T1">1</text:span> THE</text:p>'),
        ("pptx", f'<a:p>{R.format("the train")}<a:r><a:rPr baseline="30000"/><a:t>1</a:t></a:r>{R.format(" leaves_x000B_at nine")}</a:p>{PICTURE.format("a tree")}',
         f'<a:p>{R.format("LEAVES TRAIN")}<a:r><a:rPr baseline="30000"/><a:t>1</a:t></a:r>{R.format(" THE")}{R.format("_x000B_")}{R.format("NINE AT")}</a:p>{PICTURE.format("TREE A")}'),
        ("epub", "<p>the <ruby>train<rt>x</rt></ruby> leaves<a epub:type='noteref' href='#a'>1</a> now</p>",
         "<p>NOW LEAVES<a epub:type='noteref' href='#a'>1</a> <ruby>TRAIN<rt>x</rt></ruby> THE</p>"),
    ],
)  # fmt: skip
def test_notes_readings_breaks_and_pictures(form, body, expected):
    assert body_of(form, body, backward) == expected


def test_pages_of_a_book_have_the_language_of_the_book():
    page = '<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="{0}-US" lang="{0}"><body xml:lang="{0}"><p xml:lang="la">et</p><p>{1}</p></body></html>'
    about = (
        '<package xml:lang="{0}" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:language>{0}</dc:language></package>'
    )
    parts = {"META-INF/container.xml": "", "b.xhtml": page.format("en", "one"), "c.xhtml": page.format("fr", "")}
    content = zipped("epub", {**parts, "a.opf": about.format("en"), "media/a.png": bytes(range(256))})
    found = translated("epub", content, backward, ("en", "de"))
    assert part_of(found, "b.xhtml") == page.format("de", "ONE").replace("de-US", "de").replace(">et<", ">ET<")
    assert part_of(found, "c.xhtml") == page.format("fr", "").replace(">et<", ">ET<")
    assert part_of(found, "a.opf") == about.format("de")
