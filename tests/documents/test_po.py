"""PO: every byte but the translations stays; plural forms, headers, tags, encodings; and that time grows in line."""

import re
import shutil
import subprocess

import pytest

from nmt.documents.document import read_document
from nmt.documents.formats.po import plural_forms, plural_rule
from nmt.inference.translation import Translation
from tests.documents.details import changed, detail_of

RU = "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"


def header(plural="", charset="UTF-8", language=""):
    lines = [f"Content-Type: text/plain; charset={charset}", f"Language: {language}"]
    lines += [f"Plural-Forms: {plural}"] if plural else []
    return 'msgid ""\nmsgstr ""\n' + "".join(f'"{line}\\n"\n' for line in lines) + "\n"


PLURAL = '#, c-format\nmsgid "one file"\nmsgid_plural "%d files"\n'
FORMS = "".join(f'msgstr[{n}] ""\n' for n in range(2))


def translated(text, languages=None, encoding="utf-8", change=str.upper):
    return changed(text.encode(encoding), "po", change, languages=languages).decode()


def check(text, tmp_path):
    """Let gettext judge, where it is installed."""
    if shutil.which("msgfmt"):
        path = tmp_path / "x.po"
        path.write_text(text, "utf-8")
        found = subprocess.run(["msgfmt", "-c", "-o", "/dev/null", str(path)], capture_output=True, text=True)
        assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    "rule, forms",
    [
        ("nplurals=1; plural=0;", ["%d FILES"]),
        ("nplurals=2; plural=(n != 1);", ["ONE FILE", "%d FILES"]),
        ("nplurals=2; plural=(n > 1);", ["%d FILES", "%d FILES"]),
        (RU, ["%d FILES"] * 3),
        ("nplurals=3; plural=(n==1 ? 0 : n>=2 && n<=4 ? 1 : 2);", ["ONE FILE", "%d FILES", "%d FILES"]),
    ],
)
def test_there_are_as_many_plural_forms_as_the_header_says(rule, forms, tmp_path):
    found = translated(header(rule) + PLURAL + FORMS)
    expected = "".join(f'msgstr[{n}] "{text}"\n' for n, text in enumerate(forms))
    assert found == header(rule) + PLURAL.replace("c-format", "c-format, fuzzy") + expected
    check(found, tmp_path)


@pytest.mark.parametrize("former", ["", "nplurals=INTEGER; plural=EXPRESSION;", "nplurals=2; plural=n/0;"])
@pytest.mark.parametrize("language, count", [("de", 2), ("ja", 1), ("ru", 3), ("sl", 4), ("nobody", 2)])
def test_a_template_gets_the_plural_forms_of_the_language(former, language, count, tmp_path):
    found = translated(header(former, "CHARSET") + PLURAL + FORMS, ("en", language))
    assert f'"Plural-Forms: {plural_rule(language)}\\n"\n' in found and "charset=UTF-8" in found
    assert f'"Language: {language}\\n"' in found and found.count("msgstr[") == count
    check(found, tmp_path)


def test_rules_of_plurals_are_valid():
    for language in "ja fr ru cs pl lt lv ro sl gd ga mt cy ar is de".split():
        assert plural_forms(plural_rule(language)) is not None, language
    assert plural_rule("pt_BR") == plural_rule("fr")
    broken = "", "nplurals=0; plural=0;", "nplurals=2; plural=n;", "nplurals=2; plural=(((", "nplurals=99; plural=0"
    assert [plural_forms(rule) for rule in broken] == [None] * 5


def test_all_but_the_translations_stays():
    text = (
        "# a  comment\r\n" + header("nplurals=2; plural=(n != 1);").replace("\n", "\r\n") + "#. x\r\n#: a.c:1\r\n"
        'msgid "done"\r\nmsgstr "fer"\r\n"tig"\r\n\r\n'
        '#, c-format\r\n#| msgid "old"\r\nmsgctxt "c"\r\nmsgid "a "\r\n"%d"\r\n'
        'msgstr ""\r\n#~ msgid "gone"\r\n#~ msgstr ""\r\n'
    )
    found = translated(text)
    expected = text.replace('"%d"\r\nmsgstr ""', '"%d"\r\nmsgstr "A %d"')
    assert found == expected.replace("#, c-format\r\n#|", "#, c-format, fuzzy\r\n#|")


def test_forms_that_somebody_translated_stay():
    found = translated(header() + PLURAL + 'msgstr[0] "eine Datei"\nmsgstr[1] ""\n')
    assert 'msgstr[0] "eine Datei"\nmsgstr[1] "%d FILES"\n' in found


def test_tags_are_markup_and_placeholders_stay(tmp_path):
    text = header() + 'msgid "<b class=\\"x\\">save</b> & <i>%s</i> at\\n<file> 1 < 2\\n"\nmsgstr ""\n'
    found = translated(text)
    written = 'msgstr ""\n"<b class=\\"x\\">SAVE</b> & <i>%s</i> AT\\n"\n"<file> 1 < 2\\n"\n'
    assert found.endswith("#, fuzzy\n" + text[len(header()) :].replace('msgstr ""\n', written))
    assert "A &amp; B" in translated(header() + 'msgid "a &amp; b"\nmsgstr ""\n')
    assert '"A & B"' in translated(header() + 'msgid "a & b"\nmsgstr ""\n')
    check(found, tmp_path)


@pytest.mark.parametrize("encoding", ["iso-8859-1", "cp1251", "gb2312", "euc-jp"])
def test_other_encodings_become_utf_8(encoding):
    word = {"iso-8859-1": "für", "cp1251": "дом"}.get(encoding, "日本")
    found = translated(header(charset=encoding) + f'msgid "{word}"\nmsgstr ""\n', None, encoding)
    assert "charset=UTF-8" in found and f'msgstr "{word.upper()}"' in found


def test_a_file_without_header_gets_one(tmp_path):
    found = translated('msgid "a"\nmsgstr ""\n', None, change=lambda one: "ä")
    assert found.startswith('msgid ""\nmsgstr ""\n') and "charset=UTF-8" in found and 'msgstr "ä"' in found
    check(found, tmp_path)
    done = 'msgid "a"\nmsgstr "b"\n'
    assert translated(done) == done


def test_messages_and_tabs_beside_tags_keep_their_syntax(tmp_path):
    text = header() + 'msgid "{n, plural, one {# file} other {# <b>files</b>}}"\nmsgstr ""\n\n'
    text += 'msgid "<b>open</b>\\tCtrl+O"\nmsgstr ""\n\nmsgid "copy <file> to <dir> now"\nmsgstr ""\n\n'
    text += 'msgid "{n, plural, one {x}"\nmsgstr ""\n'
    found = translated(text, change=lambda one: " ".join(one.upper().split()))
    assert 'msgstr "{n, plural, one {# FILE} other {# <b>FILES</b>}}"' in found and "<b>OPEN</b>\\tCtrl+O" in found
    assert '"COPY <file> TO <dir> NOW"' in found and found.count("fuzzy") == 3 and found.endswith('x}"\nmsgstr ""\n')
    check(found, tmp_path)


@pytest.mark.parametrize(
    "text, said, expected",
    [
        ("&Open file…", "Öffne Datei …", "&Öffne Datei …"),
        ("E&xit", "Beenden", "&Beenden"),
        ("Save _As", "Speichern unter", "Speichern _unter"),
        ("E&xit…", "終了…", "終了(&X)…"),
        ("文件(&F)", "Datei", "Datei(&F)"),
        ("AT&T and R&D", "AT&T und R&D", "AT&T und R&D"),
    ],
)
def test_signs_of_keys_are_not_read(text, said, expected):
    document = read_document(f'msgid ""\nmsgstr ""\n\nmsgid "{text}"\nmsgstr ""\n'.encode(), "po")
    (one,) = document.passages[0].sentences
    assert one.asked == (re.sub(r"\(&.\)|[&_]", "", text) if said[:2] != "AT" else text)
    detail = detail_of(*([f"▁{word}" for word in text.split()] for text in (one.asked, said)))
    assert document.passages[0].joined([Translation(said, 0.0, 0.0, detail)]) == expected
