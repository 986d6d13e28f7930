"""DOCX: what has no text stays at its place, and the XML around a translation is what it was."""

# ruff: noqa: E501 - runs of XML are easier to read in one line

import io
import random
import re
import warnings
import zipfile
from xml.etree import ElementTree

import pytest

from nmt.documents.document import read_document
from nmt.documents.forms import Limits
from nmt.errors import DataError
from tests.documents.growth import grows_in_line
from tests.documents.test_passages import backward, by_words, forward

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
M = "http://schemas.openxmlformats.org/officeDocument/2006/math"
BOLD, ITALIC = "<w:rPr><w:b/></w:rPr>", "<w:rPr><w:i/></w:rPr>"


def run(text, form="", inside="t"):
    return f'<w:r>{form}<w:t xml:space="preserve">{text}</w:t></w:r>'


def packed(body, more=(), root="w"):
    names = f'xmlns:w="{W}" xmlns:m="{M}" xmlns:{root}="{W}"' if root != "w" else f'xmlns:w="{W}" xmlns:m="{M}"'
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", f"<w:document {names}><w:body>{body}</w:body></w:document>")
        for name, content in more:
            archive.writestr(name, content)
    return out.getvalue()


def document_of(content):
    return zipfile.ZipFile(io.BytesIO(content)).read("word/document.xml").decode()


def translated(body, order=forward, change=str.swapcase):
    document = read_document(packed(body), "docx")
    new = [p.joined([by_words(s.asked, order, change) for s in p.sentences]) for p in document.passages]
    found = document_of(document.write(new))
    ElementTree.fromstring(found)
    return found.partition("<w:body>")[2].partition("</w:body>")[0]


def shown(xml):
    """Texts and what stands between them, as a reader sees it."""
    xml = re.sub(r"<w:t(?: [^>]*)?>([^<]*)</w:t>", lambda m: m[1].replace(" ", "_"), xml)
    xml = re.sub(r"<w:rPr>.*?</w:rPr>|</?w:(?:r|p)>|<w:rPr/>", "", xml)
    return xml


NOTE = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
DRAWING = '<w:r><w:drawing><x id="1"/></w:drawing></w:r>'


@pytest.mark.parametrize(
    "mark",
    [
        NOTE,
        DRAWING,
        '<w:r><w:sym w:font="Wingdings" w:char="F04A"/></w:r>',
        '<w:r><w:commentReference w:id="1"/></w:r>',
        "<m:oMath><m:r><m:t>x=two</m:t></m:r></m:oMath>",
        '<w:moveFrom w:id="1"><w:r><w:t>old words</w:t></w:r></w:moveFrom>',
        '<w:del w:id="1"><w:r><w:delText>old words</w:delText></w:r></w:del>',
        '<w:bookmarkStart w:id="0" w:name="a"/><w:bookmarkEnd w:id="0"/>',
    ],
)
def test_what_has_no_text_stays_where_it_is(mark):
    """Footnote marks and the like went behind all text of their format; formulas and moved text were translated."""
    found = translated(f"<w:p>{run('one two')}{mark}{run(' three four')}</w:p>")
    before, _, after = found.partition(mark)
    assert shown(before) == "ONE_TWO" and shown(after) == "_THREE_FOUR", found


def test_marks_follow_their_words():
    found = translated(f"<w:p>{run('one two')}{NOTE}{run(' three')}</w:p>", backward)
    assert shown(found) == 'THREE_TWO<w:footnoteReference w:id="2"/>_ONE'


def test_ranges_stay_around_their_words():
    body = f'{run("one ")}<w:bookmarkStart w:id="7" w:name="a"/>{run("two")}<w:bookmarkEnd w:id="7"/>{run(" three")}'
    found = shown(translated(f"<w:p>{body}</w:p>", backward))
    assert found == 'THREE_<w:bookmarkStart w:id="7" w:name="a"/>TWO<w:bookmarkEnd w:id="7"/>_ONE'


def field(instruction, result, form=""):
    def character(kind):
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    code = f"<w:r><w:instrText> {instruction} </w:instrText></w:r>"
    return character("begin") + code + character("separate") + run(result, form) + character("end")


@pytest.mark.parametrize("order", [forward, backward])
@pytest.mark.parametrize("instruction", ["REF _Ref1 \\h", "PAGEREF a", "SEQ Table", "DATE", "NOBODY KNOWS"])
def test_results_of_fields_that_are_computed_stay(instruction, order):
    """The result was emptied, and its text stood before the field: twice, once Word had computed it again."""
    one = field(instruction, "Table 1")
    found = translated(f"<w:p>{run('see ')}{one}{run(' below')}</w:p>", order)
    assert one in found and found.count("Table 1") == 1
    assert shown(found.replace(one, "FIELD")).casefold() in ("see_field_below", "field_below_see")


def test_results_of_links_are_translated_in_their_fields():
    found = translated(
        f"<w:p>{run('see ')}{field('HYPERLINK &quot;x&quot;', 'our page')}{run(' below')}</w:p>", backward
    )
    inside = found.partition('"separate"/>')[2].partition("<w:fldChar")[0]
    assert "".join(re.findall(r"<w:t[^>]*>([^<]*)", inside)) == "PAGE OUR"
    assert [m for m in re.findall(r'fldCharType="(\w+)"', found)] == ["begin", "separate", "end"]


def test_fields_over_paragraphs_and_within_fields_stay_whole():
    def character(kind):
        return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'

    toc = character("begin") + "<w:r><w:instrText> TOC </w:instrText></w:r>" + character("separate")
    inner = field("PAGEREF x", "12")
    body = f"<w:p>{toc}{run('first part')}{inner}</w:p><w:p>{run('second part')}{character('end')}</w:p>"
    found = translated(body)
    assert inner in found and found.count("FIRST PART") == found.count("SECOND PART") == 1
    kinds = re.findall(r'fldCharType="(\w+)"', found)
    assert kinds == ["begin", "separate", "begin", "separate", "end", "end"]


def test_runs_keep_their_formats_at_spaces():
    """Bold was lost, or numbers of runs came into the file, where runs end with spaces, as editors write them."""
    body = f"<w:p>{run(' the train ')}{run('leaves ', BOLD)}{run('at nine ', ITALIC)}</w:p>"
    for order in (forward, backward):
        found = translated(body, order)
        assert "\x02" not in found and "\x03" not in found
        for form, text in ((BOLD, {"LEAVES"}), (ITALIC, {"AT NINE", "NINE AT"})):
            held = re.search(re.escape(form) + r"<w:t[^>]*>([^<]*)<", found)
            assert held and held[1].strip() in text, found


def test_links_insertions_and_controls_keep_their_texts():
    link = '<w:hyperlink r="x">' + run("our page") + "</w:hyperlink>"
    added = '<w:ins w:id="3">' + run("new words") + "</w:ins>"
    held = "<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent>" + run("a choice") + "</w:sdtContent></w:sdt>"
    found = translated(f"<w:p><w:pPr><w:jc/></w:pPr>{run('see ')}{link} {run(' and ')}{added}{run(' or ')}{held}</w:p>")
    assert found == (
        '<w:p><w:pPr><w:jc/></w:pPr><w:r><w:t xml:space="preserve">SEE </w:t></w:r>'
        '<w:hyperlink r="x"><w:r><w:t>OUR PAGE</w:t></w:r></w:hyperlink>'
        '<w:r><w:t xml:space="preserve"> AND </w:t></w:r>'
        '<w:ins w:id="3"><w:r><w:t>NEW WORDS</w:t></w:r></w:ins><w:r><w:t xml:space="preserve"> OR </w:t></w:r>'
        "<w:sdt><w:sdtPr><w:alias/></w:sdtPr><w:sdtContent><w:r><w:t>A CHOICE</w:t></w:r></w:sdtContent></w:sdt></w:p>"
    )


def test_text_boxes_within_paragraphs_that_move():
    box = f"<w:r><w:pict><w:txbxContent><w:p>{run('in the box')}</w:p></w:txbxContent></w:pict></w:r>"
    found = translated(f"<w:p>{run('one ')}{box}{run('two ', BOLD)}{run('three')}</w:p>", backward)
    assert "BOX THE IN" in found.partition("<w:txbxContent>")[2].partition("</w:txbxContent>")[0]
    assert found.count("<w:pict>") == 1 and len(re.findall("ONE|TWO|THREE", found)) == 3


def test_a_document_is_written_as_often_as_one_likes():
    content = packed(f"<w:p>{run('one two')}</w:p>", [("word/media/a.png", bytes(range(256)))])
    document = read_document(content, "docx")
    first = document.write(["UNO"])
    assert document.write(["UNO"]) == first and document.write([p.source for p in document.passages]) == content


PIECES = [
    run("one two. "), run(" three ", BOLD), run("fo"), run("ur", ITALIC), run(" "), run(" ", BOLD), NOTE, DRAWING,
    '<w:bookmarkStart w:id="1"/>', '<w:bookmarkEnd w:id="1"/>', '<w:bookmarkStart w:id="2"/>',
    '<w:bookmarkEnd w:id="2"/>', "<w:proofErr/>", "<w:r><w:tab/></w:r>", "<w:hyperlink>", "</w:hyperlink>",
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r>', '<w:r><w:fldChar w:fldCharType="separate"/></w:r>',
    '<w:r><w:fldChar w:fldCharType="end"/></w:r>', "<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_or_doubled_whatever_stands_in_a_paragraph(seed):
    draw = random.Random(seed)
    for _ in range(300):
        pieces, is_open = [], False
        for piece in (draw.choice(PIECES) for _ in range(draw.randint(1, 14))):
            if piece in ("<w:hyperlink>", "</w:hyperlink>"):
                piece = "</w:hyperlink>" if is_open else "<w:hyperlink>"
                is_open = not is_open
            pieces.append(piece)
        body = "<w:p>" + "".join(pieces) + "</w:hyperlink>" * is_open + "</w:p>"
        found = translated(body, lambda n: draw.sample(range(n), n), str)

        def kept(xml):
            return sorted(re.findall(r"<w:(?:fldChar|footnote|drawing|bookmark|instrText|hyperlink)[^>]*>", xml))

        def letters(xml):
            return sorted("".join(re.findall(r"<w:t(?: [^>]*)?>([^<]*)", xml)).replace(" ", ""))

        assert kept(found) == kept(body) and letters(found) == letters(body), (body, found)


def test_names_are_those_of_the_format_not_prefixes():
    body = f'<p:p xmlns:p="{W}"><p:r><p:t>one two</p:t></p:r></p:p><x:p xmlns:x="urn:x"><x:t>stays</x:t></x:p>'
    found = translated(body)
    assert "<p:t>ONE TWO</p:t>" in found and "<x:t>stays</x:t>" in found


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: packed("<w:p>" * 1000 + "</w:p>" * 1000), "at most 200 deep"),
        (lambda: packed("<w:p/>" * 2000), "at most 1,500 elements"),
        (lambda: packed("<w:p>" + "<w:r/>" * 600 + "</w:p>"), "paragraph must have at most 500 elements"),
        (lambda: packed("<!--" + "x" * 70_000 + "-->"), "at most 60,000 bytes of text"),
        (lambda: packed("", [("a", b"0" * 300_000)]), "unpack to at most 200,000 bytes"),
        (lambda: packed("", [("a", b"1"), ("a", b"2")]), "without two members of one name"),
    ],
    ids=["deep", "elements", "paragraph", "text", "archive", "twins"],
)
def test_what_is_beyond_the_limits_is_refused_in_a_line(make, said):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, as the twins are packed
        content = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataError, match=said) as caught:
            read_document(content, "docx", "some", None, None, Limits(60_000, 200_000, 1500, 500))
    assert "\n" not in str(caught.value)


def test_paragraphs_without_text_take_no_memory():
    """An empty paragraph took 57 times its bytes."""
    import tracemalloc

    def peak(count):
        content = packed("<w:p/>" * count)
        tracemalloc.start()
        read_document(content, "docx")
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(1)  # what is imported
    assert peak(22_000) < 1.3 * peak(11_000)


def both(content):
    document = read_document(content, "docx")
    document.write(["a" + p.source for p in document.passages])


@pytest.mark.parametrize(
    "make, size",
    [
        (lambda n: "<w:p><w:r>" + "<w:t>a</w:t>" * n + "</w:r></w:p>", 1500),
        (lambda n: "<w:p>" + run("a ") * n + "</w:p>", 300),
        (lambda n: "<w:p>" + (run("a ") + NOTE) * n + "</w:p>", 100),
        (lambda n: "<w:p>" + run("a ") + run(" b", BOLD) * n + "</w:p>", 300),
        (lambda n: "<w:p>" + run("a") + "".join(f'<w:bookmarkStart w:id="{k}"/>' for k in range(n)) + "</w:p>", 600),
        (lambda n: "<w:p>" + run("a") + '<w:r><w:fldChar w:fldCharType="begin"/></w:r>' * n + "</w:p>", 600),
        (lambda n: "<w:p>" + run("a") + "</w:p>" + f"<w:p>{run('b')}</w:p>" * n, 100),
        (lambda n: "<w:p/>" * n, 1500),
    ],
    ids=["texts", "runs", "notes", "formats", "ranges", "fields", "paragraphs", "empty"],
)
def test_time_grows_in_line(make, size):
    assert grows_in_line(lambda n: packed(make(n)), both, size)


RAISED = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'


@pytest.mark.parametrize("order, words", [(forward, "THE TRAIN LEAVES"), (backward, "LEAVES TRAIN THE")])
def test_superscript_numbers_behind_words_are_marks_of_notes(order, words):
    body = f"<w:p>{run('the train')}{run('1', RAISED)}{run(' leaves')}</w:p>"
    found = translated(body, order)
    assert [s.text for p in read_document(packed(body), "docx").passages for s in p.sentences] == ["the train leaves"]
    assert re.sub("<[^>]*>", "", found) == words.replace("TRAIN", "TRAIN1") and f"{RAISED}<w:t>1</w:t>" in found
    found = translated(f"<w:p>{run('5 m')}{run('2', RAISED)}{run(' of the 1')}{run('st', RAISED)}</w:p>")
    assert re.sub("<[^>]*>", "", found) == "5 M2 OF THE 1ST"


@pytest.mark.parametrize("order, words", [(forward, "BIG TRAIN"), (backward, "TRAIN BIG")])
def test_texts_with_readings_are_translated_and_readings_kept(order, words):
    ruby = "<w:r><w:ruby><w:rubyPr/><w:rt><w:r><w:t>tren</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>{}</w:t></w:r></w:rubyBase></w:ruby></w:r>"
    found = translated(f"<w:p>{run('the ')}{ruby.format('big train')}{run(' leaves')}</w:p>", order)
    assert ruby.format(words) in found and len(re.findall("THE|LEAVES", found)) == 2


def test_descriptions_of_pictures_are_translated_but_no_names_of_files():
    picture = '<w:r><w:drawing><wp:docPr xmlns:wp="urn:wp" id="1" name="a b" descr="{}" title=\'{}\'/><pic:cNvPr xmlns:pic="urn:p" descr="C:\\a b.png"/></w:drawing></w:r>'
    for around in (run("see "), ""):
        found = translated(f"<w:p>{around}{picture.format('a &quot;tree&quot;', 'one')}</w:p>", backward)
        assert picture.format("&quot;TREE&quot; A", "ONE") in found
