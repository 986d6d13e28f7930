"""XLIFF: what counts as translated, states, languages, CDATA, encodings; and that time grows in line."""

import pytest

from nmt.documents.document import read_document
from nmt.documents.limits import Limits
from nmt.errors import DataError
from nmt.inference.translation import Translation
from tests.documents.growth import grows_in_line


def whole(units, head='version="1.2"', file='source-language="en" target-language="de"'):
    return f"<xliff {head}><file {file}><body>{units}</body></file></xliff>"


def whole_2(units, head='version="2.0" srcLang="en" trgLang="de"'):
    return f'<xliff {head}><file id="f"><unit id="u">{units}</unit></file></xliff>'


def translated(text, languages=None, encoding="utf-8", change=str.upper):
    document = read_document(text.encode(encoding), "xliff", "some", None, languages)
    answers = [p.joined([Translation(change(s.asked), 0.0, 0.0) for s in p.sentences]) for p in document.passages]
    return document.write(answers).decode(encoding)


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


def test_attributes_of_empty_targets_stay():
    unit = '<trans-unit><source>hi you</source><target state="new" xml:lang="de" /></trans-unit>'
    found = '<target state="needs-review-translation" xml:lang="de">HI YOU</target>'
    assert found in translated(whole(unit))


def test_the_file_names_the_language_of_its_targets():
    segment = "<segment><source>hi you</source></segment>"
    for former in ('version="2.0" srcLang="en"', 'version="2.0" srcLang="en" trgLang=""'):
        found = translated(whole_2(segment, former), ("en", "de"))
        assert found.startswith('<xliff version="2.0" srcLang="en" trgLang="de">')
    unit = "<trans-unit><source>hi you</source></trans-unit>"
    found = translated(whole(unit, file='source-language="en"'), ("en", "de"))
    assert '<file source-language="en" target-language="de">' in found
    done = "<trans-unit><source>hi</source><target>HI</target></trans-unit>"
    assert translated(whole(done, file='source-language="en"'), ("en", "de")) == whole(
        done, file='source-language="en"'
    )


@pytest.mark.parametrize(
    "languages, said",
    [
        (("en", "fr"), "target-language must be the model's, fr, got de"),
        (("sl", "de"), "source-language must be the model's, sl, got en"),
    ],
)
def test_a_file_of_other_languages_is_refused(languages, said):
    with pytest.raises(DataError, match=said):
        read_document(whole("").encode(), "xliff", "some", None, languages)
    for text in (whole("", file='source-language="en-US" target-language="de_AT"'), whole("", file=""), whole_2("")):
        read_document(text.encode(), "xliff", "some", None, ("en", "de"))


def test_cdata_is_translated():
    unit = "<trans-unit><source><![CDATA[{}]]></source>{}</trans-unit>"
    text = "see <b>this</b> & <a href='x?a=1&b=2'>that</a>"
    answer = "SEE <b>THIS</b> & <a href='x?a=1&b=2'>THAT</a>"
    assert translated(whole(unit.format(text, ""))) == whole(
        unit.format(text, f"<target><![CDATA[{answer}]]></target>")
    )
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


def test_the_target_stands_behind_the_segmented_source():
    unit = '<trans-unit><source>hi</source><seg-source><mrk mtype="seg">hi</mrk></seg-source></trans-unit>'
    assert "</seg-source><target>HI</target>" in translated(whole(unit))


@pytest.mark.parametrize(
    "text, said",
    [
        (whole("<trans-unit>" * 400 + "</trans-unit>" * 400), "at most 200 deep"),
        (whole("<trans-unit/>" * 2000), "at most 1,500 elements"),
        (whole("x" * 70_000), "at most 60,000 bytes"),
        ('<?xml version="1.0" encoding="rot13"?>' + whole(""), "encoding must be a known one, got 'rot13'"),
        ('<?xml version="1.0" encoding="nobody"?>' + whole(""), "encoding must be a known one, got 'nobody'"),
    ],
    ids=["deep", "elements", "bytes", "codec", "unknown"],
)
def test_what_is_beyond_the_limits_is_refused_in_a_line(text, said):
    with pytest.raises(DataError, match=said) as caught:
        read_document(text.encode(), "xliff", "some", None, None, Limits(60_000, 60_000, 1500))
    assert "\n" not in str(caught.value)


def both(content):
    document = read_document(content, "xliff")
    document.write(["a" + p.source for p in document.passages])


@pytest.mark.parametrize(
    "make, size",
    [
        (lambda n: whole("<trans-unit>" + "<source/>" * n + "</trans-unit>"), 3000),
        (lambda n: whole("<trans-unit><source>a</source>" + "<source/>" * n + "</trans-unit>"), 3000),
        (lambda n: '<?xml version="1.0"?>\n' + whole("<trans-unit><source>a</source></trans-unit>" * n), 400),
        (lambda n: whole("<group>" * 150 + "<trans-unit><source>a</source></trans-unit>" * n + "</group>" * 150), 200),
        (
            lambda n: whole(
                "<trans-unit " + " ".join(f'a{k}=">"' for k in range(n)) + "><source>a</source></trans-unit>"
            ),
            3000,
        ),
        (lambda n: whole("<trans-unit><source>" + "<![CDATA[a]]>" * n + "</source></trans-unit>"), 2000),
    ],
    ids=["sources", "open", "one-line", "deep", "attributes", "cdata"],
)
def test_time_grows_in_line(make, size):
    assert grows_in_line(lambda n: make(n).encode(), both, size)


def test_the_command_refuses_a_file_of_other_languages(tmp_path):
    from click.testing import CliRunner

    from nmt.cli.commands.translate import translate
    from tests.saved_models import write_folder

    folder = write_folder(tmp_path / "model", seed=6)
    source, out = tmp_path / "a.xlf", tmp_path / "b.xlf"
    source.write_text(whole("", file='target-language="zz-AA"'), "utf-8")
    result = CliRunner().invoke(
        translate, [str(folder), str(source), "--format", "xliff", "--no-split", "-o", str(out)]
    )
    assert result.exit_code != 0 and "must be the model's, yy, got zz-AA" in result.output
    assert not out.exists()
