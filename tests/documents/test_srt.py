"""SubRip: speakers, codes, music and tags stay where they are; and time grows in line."""

# ruff: noqa: E501 - files are easier to read in long lines

import pytest

from nmt.documents.document import read_document
from nmt.documents.forms import Limits
from nmt.errors import DataError
from tests.documents.growth import grows_in_line, rewritten
from tests.documents.test_passages import backward, by_words, forward

TIMES = "00:00:01,000 --> 00:00:02,000"


def translated(text, order=forward, change=str.upper):
    document = read_document(f"1\n{TIMES}\n{text}\n\n".encode(), "srt")
    new = [p.joined([by_words(s.asked, order, change) for s in p.sentences]) for p in document.passages]
    found = document.write(new).decode()
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
        (
            "<v.loud Ann>one two</v>\n<v Bob>three\nfour five</v>",
            "<v.loud Ann>TWO ONE</v>\n<v Bob>FIVE\nFOUR THREE</v>",
        ),
    ],
)
def test_each_speaker_keeps_the_own_words_and_line(text, expected):
    """Two speakers became one sentence in one line."""
    assert translated(text, backward) == expected


@pytest.mark.parametrize(
    "text",
    [
        r"{\an8}one two",
        r"{\an8}{\i1}one{\i0} two",
        "♪ one two ♪",
        "♪♪ <i>one two</i> ♫",
        "<font color='#ff0000'>one</font> two",
        ">> one >> two",
        "Tom & one < two",
        "it costs -5 euros",
        "one\ntwo",
    ],
)
def test_codes_music_and_tags_stay(text):
    from nmt.documents.tagged_text import _TAG

    assert translated(text, forward, lambda word: word.replace("one", "uno")) == text.replace("one", "uno")
    assert all(tag in translated(text, backward) for tag in _TAG.findall(text))


def test_an_empty_translation_does_not_end_the_subtitle():
    document = read_document(f"1\n{TIMES}\none\n- two\n".encode(), "srt")
    assert document.write(["", "zwei"]).decode() == f"1\n{TIMES}\n- zwei\n"


def test_codes_are_not_read_by_the_model():
    document = read_document(f"1\n{TIMES}\n{{\\an8}}one ♪ two\n".encode(), "srt")
    assert [" ".join(s.text.split()) for p in document.passages for s in p.sentences] == ["one two"]


def test_limits_are_told_in_a_line():
    cue = f"1\n{TIMES}\na\n\n".encode()
    for limits, said in ((Limits(100), "at most 100 bytes"), (Limits(elements=3), "at most 3 elements")):
        with pytest.raises(DataError, match=said):
            read_document(cue * 10, "srt", "some", None, None, limits)


@pytest.mark.parametrize(
    "make, size",
    [
        (lambda n: f"1\n{TIMES}\na\n\n" * n, 200),
        (lambda n: f"1\n{TIMES}\n" + "- a\n" * n, 200),
        (lambda n: f"1\n{TIMES}\n" + "a\n" * n, 1000),
        (lambda n: f"1\n{TIMES}\n" + "<a" * n, 1000),
        (lambda n: f"1\n{TIMES}\n" + "{\\a" * n, 1000),
        (lambda n: f"1\n{TIMES}\n" + "<b>" * n + "- a", 1000),
        (lambda n: f"1\n{TIMES}\n" + " " * n + "- a\n" + "{" * n, 1500),
        (lambda n: "1" * n + f"\n{TIMES}\n" + "1:" * n, 2000),
    ],
    ids=["cues", "speakers", "lines", "brackets", "codes", "tags", "blanks", "digits"],
)
def test_time_grows_in_line(make, size):
    assert grows_in_line(lambda n: make(n).encode(), rewritten("srt"), size)


def whole(text, form="srt"):
    """The translation of a file, backward and in capitals, and what is left of it."""
    document = read_document(text.encode(), form)
    new = [p.joined([by_words(s.asked, backward, str.upper) for s in p.sentences]) for p in document.passages]
    return document.write(new).decode(), document.left


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
    assert whole(text, "vtt")[0] == text.replace(
        "he <ruby>said<rt>so</rt></ruby> it", "IT <ruby>SAID<rt>so</rt></ruby> HE"
    )


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
    content = b"1\n00:00:01,000 --> 00:00:02,000\none two three\nfour five six\n"
    document = read_document(content, "srt")
    found = document.write(["一二三、四<i>五六</i>七八。"]).decode()
    assert found.splitlines()[2:] == ["一二三、四<i>五", "六</i>七八。"]
