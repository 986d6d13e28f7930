"""XLIFF: what counts as translated, states, languages, CDATA, encodings; and that time grows in line."""

# ruff: noqa: E501 - files are easier to read in long lines

import re

import pytest
from click.testing import CliRunner

from nmt.cli.commands.translate import translate
from nmt.documents.document import read_document
from nmt.errors import DataError
from tests.documents.details import changed
from tests.documents.test_passages import backward, by_words
from tests.refusals import refused
from tests.saved_models import sentences, write_folder


def whole(units, head='version="1.2"', file='source-language="en" target-language="de"'):
    return f"<xliff {head}><file {file}><body>{units}</body></file></xliff>"


def whole_2(units, head='version="2.0" srcLang="en" trgLang="de"'):
    return f'<xliff {head}><file id="f"><unit id="u">{units}</unit></file></xliff>'


def translated(text, languages=None, encoding="utf-8", change=str.upper):
    return changed(text.encode(encoding), "xliff", change, languages=languages).decode(encoding)


@pytest.mark.parametrize("state", ["new", "needs-translation"])
def test_a_copied_target_that_says_it_is_untranslated_is(state):
    unit = '<trans-unit><source>hi you</source><target state="{}">{}</target></trans-unit>'
    assert translated(whole(unit.format(state, "hi you"))) == whole(unit.format("needs-review-translation", "HI YOU"))
    for stays in (unit.format("translated", "hi you"), unit.format(state, "hallo")):
        assert translated(whole(stays)) == whole(stays)


def test_segments_of_version_2_say_that_they_are_translated():
    segment = '<segment id="1" state="initial"><source>hi you</source></segment><segment><source>no</source></segment>'
    found = '<segment id="1" state="translated"><source>hi you</source><target>HI YOU</target></segment>'
    found += '<segment state="translated"><source>no</source><target>NO</target></segment>'
    assert translated(whole_2(segment)) == whole_2(found)
    copied = '<segment state="initial"><source>hi you</source><target>hi you</target></segment>'
    assert "<target>HI YOU</target>" in translated(whole_2(copied))


def test_new_targets_have_the_indentation_of_their_source_and_attributes_of_empty_ones_stay():
    unit = "<trans-unit>\n    <source>hi you</source>{}\n</trans-unit>"
    assert translated(whole(unit.format(""))) == whole(unit.format("\n    <target>HI YOU</target>"))
    unit = '<trans-unit><source>hi you</source><target state="new" xml:lang="de" /></trans-unit>'
    assert '<target state="needs-review-translation" xml:lang="de">HI YOU</target>' in translated(whole(unit))


def test_the_file_names_the_language_of_its_targets():
    segment = "<segment><source>hi you</source></segment>"
    for former in ('version="2.0" srcLang="en"', 'version="2.0" srcLang="en" trgLang=""'):
        found = translated(whole_2(segment, former), ("en", "de"))
        assert found.startswith('<xliff version="2.0" srcLang="en" trgLang="de">')
    unit = "<trans-unit><source>hi you</source></trans-unit>"
    found = translated(whole(unit, file='source-language="en"'), ("en", "de"))
    assert '<file source-language="en" target-language="de">' in found
    done = whole("<trans-unit><source>hi</source><target>HI</target></trans-unit>", file='source-language="en"')
    assert translated(done, ("en", "de")) == done


@pytest.mark.parametrize(
    "languages, said",
    [
        (("en", "fr"), "target-language must be the model's, fr, got de"),
        (("sl", "de"), "source-language must be the model's, sl, got en"),
    ],
)
def test_a_file_of_other_languages_is_refused(languages, said):
    refused(DataError, said, read_document, whole("").encode(), "xliff", "some", None, languages)
    for text in (whole("", file='source-language="en-US" target-language="de_AT"'), whole("", file=""), whole_2("")):
        read_document(text.encode(), "xliff", "some", None, ("en", "de"))


def test_cdata_is_translated():
    unit = "<trans-unit><source><![CDATA[{}]]></source>{}</trans-unit>"
    text = "see <b>this</b> & <a href='x?a=1&b=2'>that</a>"
    answer = "SEE <b>THIS</b> & <a href='x?a=1&b=2'>THAT</a>"
    found = unit.format(text, f"<target><![CDATA[{answer}]]></target>")
    assert translated(whole(unit.format(text, ""))) == whole(found)
    mixed = "<trans-unit><source>see <g id='1'><![CDATA[a < b]]></g> now</source>{}</trans-unit>"
    found = mixed.format("<target>SEE <g id='1'>A &lt; B</g> NOW</target>")
    assert translated(whole(mixed.format(""))) == whole(found)


@pytest.mark.parametrize("encoding", ["iso-8859-1", "utf-16"])
def test_files_stay_in_their_encoding(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + whole("<trans-unit><source>für</source></trans-unit>")
    found = translated(text, None, encoding, lambda one: one + "łß")
    assert ("<target>fürłß</target>" if encoding == "utf-16" else "<target>für&#322;ß</target>") in found


def test_translate_no_is_that_of_the_nearest():
    unit = "<trans-unit{}><source>hi you</source></trans-unit>"
    found = translated(whole('<group translate="no">' + unit.format("") + unit.format(' translate="yes"') + "</group>"))
    assert found.count("<target>") == 1 and "</source></trans-unit><trans" in found


def test_the_target_stands_behind_the_segmented_source_and_has_its_segments():
    segments = '<mrk mtype="seg" mid="1">{}</mrk> <g id="2"><mrk mtype="seg" mid="2">{}</mrk></g><mrk mtype="seg"/>'
    unit = f"<trans-unit><source>hi. you</source><seg-source>{segments.format('hi.', 'you')}</seg-source></trans-unit>"
    assert f"</seg-source><target>{segments.format('HI.', 'YOU')}</target></trans-unit>" in translated(whole(unit))


@pytest.mark.parametrize(
    "text, target",
    [
        ('<source>five <g id="1">six</g></source><target><g id="1"></g></target>', 'FIVE <g id="1">SIX</g>'),
        ('<source>one</source><target><mrk mtype="seg" mid="1"/></target>', '<mrk mtype="seg" mid="1">ONE</mrk>'),
        ('<source>one <x id="1"/></source><target> <x id="1"/> </target>', 'ONE <x id="1"/>'),
        ("<source>one <ph>code</ph></source><target><ph>code</ph></target>", "ONE <ph>code</ph>"),
        ("<source>a &amp; b</source><target state='new'>a  &#38; b</target>", "A &amp; B"),
    ],
)
def test_a_target_without_text_or_with_the_same_text_is_no_translation(text, target):
    assert f">{target}</target>" in translated(whole(f"<trans-unit>{text}</trans-unit>"))


def test_segments_without_text_are_filled_and_others_stay():
    segment = '<mrk mtype="seg" mid="{}">{}</mrk>'
    source = "<source>one. two <g id='1'>x</g></source><seg-source>{} {}</seg-source>"
    source = source.format(segment.format(1, "one."), segment.format(2, "two <g id='1'>x</g>"))
    for former, new in (("Eins.", "Eins."), ("", "ONE.")):
        target = f'<target state="new">{segment.format(1, former)} <mrk mtype="seg" mid="2"/></target>'
        filled = f"{segment.format(1, new)} {segment.format(2, 'TWO <g id=' + chr(39) + '1' + chr(39) + '>X</g>')}"
        found = translated(whole(f"<trans-unit>{source}{target}</trans-unit>"))
        assert f'<target state="needs-review-translation">{filled}</target>' in found
    done = f"<trans-unit>{source}<target>{segment.format(1, 'Eins.')} {segment.format(2, 'Zwei')}</target></trans-unit>"
    assert translated(whole(done)) == whole(done)


LINES = "First line.\nSecond &lt;b&gt;line&lt;/b&gt;.\n\n- item\tone&#10;two"


@pytest.mark.parametrize("where", ["unit", "source", "file"])
def test_lines_of_preserved_space_stay_and_a_new_target_repeats_it(where):
    space = ' xml:space="preserve"'
    unit = f"<trans-unit{space * (where == 'unit')}><source{space * (where == 'source')}>{LINES}</source></trans-unit>"
    found = translated(whole(unit, file=(space * (where == "file")).strip()))
    target = LINES.upper().replace("&LT;B&GT;", "&lt;b&gt;").replace("&LT;/B&GT;", "&lt;/b&gt;")
    assert f"<target{space * (where == 'source')}>{target}</target>" in found


PLURAL = "{VAR_PLURAL, plural, =1 {one item} other {<x id='I'/> items}}"


@pytest.mark.parametrize(
    "source, target",
    [
        (PLURAL, "{VAR_PLURAL, plural, =1 {ONE ITEM} other {<x id='I'/> ITEMS}}"),
        (f"{{VAR_SELECT, select, male {{his {PLURAL}}} other {{<g id='1'>their</g> item}}}}",
         "{VAR_SELECT, select, male {HIS {VAR_PLURAL, plural, =1 {ONE ITEM} other {<x id='I'/> ITEMS}}} other {<g id='1'>THEIR</g> ITEM}}"),
        ("you have {n, plural, offset:1 =0 {nothing} one {# file of {name}} other {# files}}, dear",
         "YOU HAVE {n, plural, offset:1 =0 {NOTHING} one {# FILE OF {name}} other {# FILES}}, DEAR"),
        ("{n, selectordinal, one {#st place} other {at {d, date, short}}}", "{n, selectordinal, one {#ST PLACE} other {AT {d, date, short}}}"),
        ("{n, plural, other {'{'raw'}' it''s {{m}} ago}}", "{n, plural, other {'{'RAW'}' IT''S {{m}} AGO}}"),
    ],
)  # fmt: skip
def test_messages_keep_their_syntax(source, target):
    def change(text):
        return re.sub(r"(?<![{\w])[a-z]+", lambda one: one[0].upper(), text)

    found = translated(whole(f"<trans-unit><source>{source}</source></trans-unit>"), change=change)
    assert f"<target>{target}</target>" in found


@pytest.mark.parametrize("text", ["{n, plural, one {x}", "{0,choice,0#no|1#one {0}}", "{n, plural, one {a} {b}}"])
def test_a_message_that_cannot_be_read_stays_untranslated_and_is_counted(text):
    unit = whole(f"<trans-unit><source>{text}</source></trans-unit><trans-unit><source>hi</source></trans-unit>")
    assert read_document(unit.encode(), "xliff").left == {"ICU messages that cannot be read": 1}
    assert translated(unit) == unit.replace("hi</source>", "hi</source><target>HI</target>")


def test_strict_writes_nothing_and_without_it_a_warning_is_given(tmp_path):
    folder = write_folder(tmp_path / "model", seed=6)
    source, out = tmp_path / "a.xlf", tmp_path / "b.xlf"
    units = f"<trans-unit><source>{sentences(1, seed=5)[0]}</source></trans-unit>"
    units += "<trans-unit><source>{n, plural, one {x}</source></trans-unit>"
    source.write_text(whole(units, file=""), "utf-8")
    command = [str(folder), str(source), "--format", "xliff", "--no-split", "-o", str(out)]
    result = CliRunner().invoke(translate, [*command, "--strict"])
    assert result.exit_code != 0 and not out.exists()
    assert "must be all translated, got 1 ICU messages that cannot be read" in result.output
    result = CliRunner().invoke(translate, command)
    assert result.exit_code == 0 and out.exists()
    assert "a.xlf: left untranslated: 1 ICU messages that cannot be read" in result.stderr
    source.write_text(whole("", file='target-language="zz-AA"'), "utf-8")
    result = CliRunner().invoke(translate, command)
    assert result.exit_code != 0 and "must be the model's, yy, got zz-AA" in result.output
    result = CliRunner().invoke(translate, [str(folder), str(source), "--strict"])
    assert result.exit_code == 2 and "--strict is for a document" in result.output


def code(name, is_end=False):
    """Return a code of XLIFF 1.2 as Angular writes it."""
    tag = f"&lt;{'/' * is_end}{name} class=&quot;a&quot;&gt;"
    return f'<x id="{"CLOSE" if is_end else "START"}_TAG" ctype="x-{name}" equiv-text="{tag}"/>'


LISTED = code("ul") + code("li") + "one man" + code("li", True) + code("li") + "two men" + code("li", True)


@pytest.mark.parametrize(
    "source, read",
    [
        (LISTED + code("ul", True), ["one man", "two men"]),
        ('one man<x id="LINE_BREAK" ctype="lb" equiv-text="&lt;br/&gt;"/>two men', ["one man", "two men"]),
        ('one man<x id="LINE_BREAK" ctype="lb"/>two men', ["one man", "two men"]),
        ('one man<ph id="1">&lt;br/></ph>two men', ["one man", "two men"]),
        ('one man<x id="CLOSE_PARAGRAPH" ctype="x-p"/><x id="START_PARAGRAPH" ctype="x-p"/>two', ["one man", "two"]),
        (f"press {code('kbd')}Ctrl+S{code('kbd', True)} now", ["press  now"]),
        ("press &lt;code&gt;Ctrl+S&lt;/code&gt; now", ["press  now"]),
        ("press <bpt id='1'>&lt;kbd></bpt>Ctrl+S<ept id='1'>&lt;/kbd></ept> now", ["press  now"]),
        ('one <x id="START_TAG" equiv-text="{{ a }}"/> man', ["one  man"]),
    ],
)
def test_codes_divide_texts_as_the_tags_that_they_stand_for(source, read):
    """The items of a list were one text, `one mantwo men`."""
    document = read_document(whole(f"<trans-unit><source>{source}</source></trans-unit>").encode(), "xliff")
    assert [s.text for p in document.passages for s in p.sentences] == read
    found = translated(whole(f"<trans-unit><source>{source}</source></trans-unit>"), change=lambda text: f"{text}.")
    assert found.count("Ctrl+S") == 2 * source.count("Ctrl+S")


def test_codes_of_version_2_divide_texts_as_the_tags_that_they_stand_for():
    items = "".join(f'<pc id="{n}" dispStart="&lt;li&gt;" dispEnd="&lt;/li&gt;">{n} man</pc>' for n in (1, 2))
    key = '<pc id="3" equivStart="START_TAG_KBD" dispStart="&lt;kbd&gt;" dispEnd="&lt;/kbd&gt;">Ctrl</pc>'
    brk = '<ph id="4" equiv="LINE_BREAK" disp="&lt;br/&gt;"/><ph id="5" type="fmt" subType="xlf:lb"/>'
    bold = '<pc id="6" dispStart="&lt;b&gt;" dispEnd="&lt;/b&gt;">two</pc>'
    source = f"{items}push {key} now{brk}one {bold} men"
    document = read_document(whole_2(f"<segment><source>{source}</source></segment>").encode(), "xliff")
    assert [s.text for p in document.passages for s in p.sentences] == ["1 man", "2 man", "push  now", "one two men"]
    (passage,) = document.passages
    new = passage.joined([by_words(s.asked, backward, str.upper) for s in passage.sentences])
    assert f"{bold.replace('two', 'TWO')}" in new and key in new and brk in new


@pytest.mark.parametrize(
    "start, end",
    [
        ('<x id="START_LINK" ctype="x-a" equiv-text="&lt;a>"/>', '<x id="CLOSE_LINK" ctype="x-a" equiv-text="&lt;/a>"/>'),
        ('<x id="START_LINK_1" ctype="x-a"/>', '<x id="CLOSE_LINK" ctype="x-a"/>'),
        ('<x id="START_BLOCK_IF" ctype="x-if" equiv-text="@if (a) {"/>', '<x id="CLOSE_BLOCK_IF" ctype="x-if" equiv-text="}"/>'),
        ('<bpt id="1">[0</bpt>', '<ept id="1">0]</ept>'),
        ('<bx id="1" rid="7"/>', '<ex id="2" rid="7"/>'),
        ('<sc id="1"/>', '<ec startRef="1"/>'),
    ],
)  # fmt: skip
def test_paired_codes_surround_their_words(start, end):
    """An end stood before its start, or two links crossed, if the words changed places."""
    source = f"one {start}two three{end} four"
    unit = whole(f"<trans-unit><source>{source}</source></trans-unit>")
    (passage,) = read_document(unit.encode(), "xliff").passages
    new = passage.joined([by_words(s.asked, backward, str.upper) for s in passage.sentences])
    assert new == f"FOUR {start}THREE TWO{end} ONE"


def test_a_break_within_a_message_keeps_its_quotes():
    """Behind a break the apostrophe of a message was not doubled."""
    source = "{n, plural, other {one '{x}'&lt;br/&gt;two}}"
    found = translated(whole(f"<trans-unit><source>{source}</source></trans-unit>"), change=lambda text: f"{text}'s")
    assert found.count("''s") == 2
