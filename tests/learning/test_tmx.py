"""TMX: what is written is read again, and files of other tools or of nobody."""

import pytest

from nmt.errors import DataError
from nmt.learning.memory import Pair, State, read_tmx, write_tmx

TEXTS = [
    ("Guten Morgen!", "Good morning!"),
    ("a < b & c > d \"q\" 'r'", "x ]]> y"),
    ("<b>fett</b>", "&amp; stays"),
    ("日本語 עברית 😀", "café\u0301"),
]

OTHER = """<?xml version="1.0" encoding="utf-16"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header creationtool="x" srclang="de-DE" datatype="xml"/>
<body>
<tu><tuv xml:lang="de-AT"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Haus<ept i="1">&lt;/b&gt;</ept>
 am <hi>See</hi></seg></tuv>
<tuv xml:lang="EN-US"><seg>A house <ph>{0}</ph>by the <![CDATA[<lake>]]></seg></tuv>
<tuv xml:lang="fr"><seg>Une maison</seg></tuv></tu>
<tu><tuv lang="de"><seg>nur Deutsch</seg></tuv></tu>
<tu><tuv lang="de"><prop type="n">1</prop><seg>alt</seg></tuv><tuv lang="en"><seg>old</seg></tuv></tu>
</body></tmx>"""


def pairs():
    return [
        Pair(n, "p", source, target, 'A & "B"', "2026-11-25T10:00:00+00:00", State.LEARNT, 1.0)
        for n, (source, target) in enumerate(TEXTS, start=1)
    ]


def test_what_is_written_is_read_again(tmp_path):
    write_tmx(tmp_path / "a.tmx", pairs(), "de", "en")
    assert read_tmx(tmp_path / "a.tmx", "de", "en") == TEXTS
    assert read_tmx(tmp_path / "a.tmx", "en", "de-CH") == [(target, source) for source, target in TEXTS]
    assert 'creationdate="20261125T100000Z"' in (tmp_path / "a.tmx").read_text("utf-8")


def test_characters_that_xml_cannot_hold_are_left_out(tmp_path):
    odd = Pair(1, "", "a\x00b\x1b", "\uffffc", "", "2026-11-25T10:00:00+00:00", State.LEARNT, 1.0)
    write_tmx(tmp_path / "a.tmx", [odd], "de", "en")
    assert read_tmx(tmp_path / "a.tmx", "de", "en") == [("ab", "c")]


def test_a_file_of_another_tool(tmp_path):
    (tmp_path / "o.tmx").write_bytes(OTHER.encode("utf-16"))
    assert read_tmx(tmp_path / "o.tmx", "de", "en") == [("Ein Haus am See", "A house by the <lake>"), ("alt", "old")]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "must be"),
        (b"not XML", "must be"),
        (b"<html><tu/></html>", "must be XML whose first element is tmx"),
        (b"<tmx><body/></tmx>", "no translation unit"),
        (b'<tmx><tu><tuv lang="fr"><seg>x</seg></tuv></tu></tmx>', "got fr"),
        (b'<!DOCTYPE t [<!ENTITY a "b">]><tmx><tu><tuv lang="de"><seg>&a;</seg></tuv></tu></tmx>', "entities"),
        (b"<tmx>" + b"<a>" * 500 + b"</a>" * 500 + b"</tmx>", "deep"),
        (b'<tmx><tu><tuv lang="de"><seg>x</seg>', "must be"),
    ],
)
def test_other_files_are_one_line(tmp_path, content, match):
    (tmp_path / "o.tmx").write_bytes(content)
    with pytest.raises(DataError, match=match) as caught:
        read_tmx(tmp_path / "o.tmx", "de", "en")
    assert "\n" not in str(caught.value)


def test_no_other_file_is_replaced(tmp_path):
    (tmp_path / "a.txt").write_text("a text of mine\n")
    with pytest.raises(DataError, match="a.txt: must be a new file or a TMX file, got another file"):
        write_tmx(tmp_path / "a.txt", [], "de", "en")
    assert (tmp_path / "a.txt").read_text() == "a text of mine\n"
    for _ in range(2):
        write_tmx(tmp_path / "a.tmx", [], "de", "en")


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_tmx(tmp_path / "no.tmx", "de", "en")
    with pytest.raises(DataError, match="must be written"):
        write_tmx(tmp_path / "no" / "a.tmx", [], "de", "en")
