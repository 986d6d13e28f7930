"""The look at a corpus: planted faults are found with their lines, sound text is left alone, memory is bounded."""

import json
import random
import subprocess

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.data.corpora.sources import Source
from nmt.data.quality.overlap import Likeness, OverlapIndex
from nmt.doctor import examine
from nmt.doctor.texts import Block, Duplicates, Text
from nmt.errors import DataError
from nmt.train.tasks.prepare import check_data
from tests.data.corpora import WORDS, sentences
from tests.refusals import refused
from tests.settings import settings_with

SRC = dict(zip(WORDS, (word[::-1] + "o" for word in WORDS), strict=True))


def pairs(count, seed):
    """Sentences of 4 to 14 words and their translation word by word, no two equal."""
    drawn = random.Random(seed)
    tgt = sorted({" ".join(drawn.choices(WORDS, k=drawn.randint(4, 14))) for _ in range(2 * count)})[:count]
    return [" ".join(SRC[word] for word in line.split()) for line in tgt], tgt


def write(folder, name, src, tgt):
    for lang, lines in (("de", src), ("en", tgt)):
        whole = (line if isinstance(line, bytes) else line.encode() for line in lines)
        (folder / f"{name}.{lang}").write_bytes(b"\n".join([*whole, b""]))


def config(folder, **data):
    langs = {"src": {"lang": "de"}, "tgt": {"lang": "en"}}
    settings = {"train": str(folder / "train"), "dev": str(folder / "dev"), **langs, **data}
    return config_from_dict({"model_dir": str(folder / "m"), "data": settings})


@pytest.fixture
def corpus(tmp_path):
    """The folder, and the lines of a sound training text; dev and test are other sentences."""
    src, tgt = pairs(600, 1)
    write(tmp_path, "dev", *pairs(50, 2))
    write(tmp_path, "test", *pairs(50, 3))
    write(tmp_path, "train", src, tgt)
    return tmp_path, src, tgt


def names(found):
    return {finding.name for finding in found.findings}


def lines_of(found, name):
    return {example.line for finding in found.findings if finding.name == name for example in finding.examples}


def test_sound_text_has_nothing_to_tell(corpus):
    found = check_data(config(corpus[0], test=str(corpus[0] / "test"), subwords={"type": "bpe", "vocab_size": 120}))
    assert found.findings == []
    assert list(found.counts.values()) == [600, 50, 50] and found.complete
    assert "0 errors, 0 warnings" in found.page()


PLANTED = {
    "empty": lambda src, tgt: ("", tgt),
    "encoding": lambda src, tgt: (src, tgt + " GÃ¤rten"),
    "control": lambda src, tgt: (src + "\x07", tgt),
    "markup": lambda src, tgt: (src, f'<a href="x">{tgt}</a>'),
    "script": lambda src, tgt: ("Быстрая лиса прыгает через собаку", tgt),
    "mixed": lambda src, tgt: (src, tgt.replace("e", "е")),  # noqa: RUF001 - the second one is Cyrillic
    "same": lambda src, tgt: (tgt, tgt),
    "ratio": lambda src, tgt: (src, " ".join([tgt] * 6)),
    "utf-8": lambda src, tgt: (src.encode() + b" sch\xf6n", tgt),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_with_its_lines(corpus, name):
    folder, src, tgt = corpus
    long = [i for i in range(600) if "e" in tgt[i] and len(tgt[i]) > 40]
    planted = long[3], long[70], long[-1]
    for number in planted:
        src[number], tgt[number] = PLANTED[name](src[number], tgt[number])
    write(folder, "train", src, tgt)
    found = examine(config(folder))
    assert name in names(found)
    (finding,) = [one for one in found.findings if one.name == name]
    assert finding.count == 3 and lines_of(found, name) == {number + 1 for number in planted}
    assert finding.level == ("error" if name == "utf-8" else "warning")
    assert "\n" not in finding.line() and "\n" not in finding.examples[0].text
    json.dumps(found.to_dict())


@pytest.mark.parametrize(
    ("name", "cut", "undo"),
    [
        ("bpe", lambda line: line.replace("o ", "@@ o "), "s/@@ //g"),
        ("pieces", lambda line: "▁" + line[:2] + " " + line[2:].replace(" ", " ▁"), "s/ //g; s/▁/ /g; s/^ //"),
        ("joiners", lambda line: line.replace("o ", " ￭o ") + " ￭.", "s/ ￭//g; s/￭ //g"),
    ],
)
def test_text_that_is_cut_already_is_found_with_what_undoes_it(corpus, name, cut, undo):
    folder, src, tgt = corpus
    write(folder, "train", [cut(line) for line in src], tgt)
    (finding,) = [one for one in examine(config(folder)).findings if one.name == name]
    assert finding.where.endswith("train.de")
    assert finding.count / finding.total > 0.9
    assert f"sed '{undo}'" in finding.line()
    done = subprocess.run(["sed", undo], input="\n".join(map(cut, src)), capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ([f"{line}." for line in src] if name == "joiners" else src)
    words = config(folder, subwords={"type": "word", "vocab_size": 500})
    assert name not in names(examine(words)), "whoever asks for words may have cut them"


def test_a_few_signs_that_only_look_like_cut_text_are_no_finding(corpus):
    folder, src, tgt = corpus
    src[3], src[4], tgt[5], tgt[6] = "@@ -1,2 +3 @@ " + src[3], src[4] + " @@", "▁▂▃ " + tgt[5], "￭ " + tgt[6]
    write(folder, "train", src, tgt)
    assert not names(examine(config(folder))) & {"bpe", "pieces", "joiners"}


@pytest.mark.parametrize(
    ("subwords", "advice"),
    [
        ({"type": "word", "vocab_size": 500}, "use subwords instead of words (data.subwords.type: unigram)"),
        ({"type": "bpe", "vocab_size": 120}, "the training text has none of these characters; add text that has them"),
        ({"type": "bpe", "vocab_size": 120, "character_coverage": 0.999}, "raise data.subwords.character_coverage"),
    ],
)
def test_the_advice_on_unknown_units_is_for_the_subwords_in_use(corpus, subwords, advice):
    folder, src, tgt = corpus
    write(folder, "dev", [line + " 12345" for line in src[:50]], tgt[:50])
    found = check_data(config(folder, subwords=subwords))
    lines = [one.line() for one in found.findings if one.name == "unknown" and one.where.endswith("dev.de")]
    assert advice in lines[0]
    assert ("instead of words" in lines[0]) == (subwords["type"] == "word")


def test_duplicates_and_overlap_are_found_with_their_lines(corpus):
    folder, src, tgt = corpus
    src[100], tgt[100] = src[40], tgt[40]
    dev_src, dev_tgt = pairs(50, 2)
    src[200], tgt[200] = dev_src[7], dev_tgt[7]
    src[300] = dev_src[8].upper() + " !"
    words = dev_src[9].split()
    dev_src[9] = " ".join(words * 3)
    src[400] = " ".join([*words * 3, "nun"])
    write(folder, "train", src, tgt)
    write(folder, "dev", dev_src, dev_tgt)
    found = {finding.name: finding for finding in examine(config(folder)).findings}
    assert found["duplicates"].count == 1
    assert [(one.line, one.text) for one in found["duplicates"].examples] == [(101, "as line 41")]
    overlap = found["overlap"]
    assert overlap.count == 3 and overlap.total == 50
    assert "1 letter for letter (1 of them with the same translation), 2 nearly so" in overlap.line()
    found = {(one.line, one.text.split(" of ")[0]) for one in overlap.examples}
    assert found == {(8, "as line 201"), (9, "nearly as line 301"), (10, "nearly as line 401")}
    (overlap,) = [one for one in examine(config(folder, filter={"overlap": "exact"})).findings if one.name == "overlap"]
    assert overlap.count == 2, "what the filter keeps out of training is no finding"
    assert "0 letter for letter" in overlap.line()
    assert {one.line for one in overlap.examples} == {9, 10}
    assert "overlap" not in names(examine(config(folder, filter={"overlap": "near"})))
    write(folder, "other", src[190:210], tgt[190:210])
    two = examine(config(folder, train=[{"path": str(folder / name)} for name in ("train", "other")])).findings
    for name, line in zip(("train", "other"), [one.line() for one in two if one.name == "overlap"], strict=True):
        assert f"in the training text {folder}/{name}:" in line


def test_training_on_the_held_out_text_is_told(corpus):
    found = examine(config(corpus[0], dev=str(corpus[0] / "train")))
    assert any("are the training text itself" in finding.line() for finding in found.warnings)


def test_filters_are_named_for_the_training_text_alone(corpus):
    """They leave validation texts as they are."""
    folder, src, tgt = corpus
    src[3] = tgt[3] = "<b>some text</b>"
    write(folder, "train", src, tgt)
    write(folder, "dev", src[:9], tgt[:9])
    lines = [one.line() for one in examine(config(folder)).findings if one.name == "markup"]
    wanted = {True: False, False: True}
    assert {"/dev." in line: "--set data.filter.markup=true leaves" in line for line in lines} == wanted


def test_unequal_files_are_refused(corpus):
    folder, src, tgt = corpus
    write(folder, "train", src, tgt[:-3])
    (error,) = examine(config(folder)).errors
    assert "must have the same number of lines, got 600 and 597" in error.line()
    two = [{"path": str(folder / "train.de"), "tgt_path": str(folder / "train.en")}]
    (error,) = examine(config(folder, train=two)).errors
    assert error.line().startswith(f"{folder}/train.de, {folder}/train.en: must have the same number of lines")


def test_subwords_that_do_not_fit(corpus):
    folder, src, tgt = corpus
    dev_src, dev_tgt = pairs(50, 2)
    dev_tgt[4] += " ξένος"
    write(folder, "dev", dev_src, dev_tgt)
    src = [f"{line} w{number}" for number, line in enumerate(src)]
    write(folder, "train", src, tgt)
    words = {"type": "word", "joint": False}
    found = check_data(config(folder, subwords=words, tgt={"lang": "en", "max_length": 5}))
    told = {finding.name: finding for finding in found.findings}
    assert told["vocabulary"].count == 600 and "use subwords (data.subwords.type: unigram)" in told["vocabulary"].line()
    for size, advised in ((1020, True), (1000, False), ("auto", False)):  # auto makes 1,000 of this text
        found_of_size = check_data(config(folder, subwords={"vocab_size": size})).findings
        assert any(one.name == "vocabulary" and "auto takes fewer" in one.line() for one in found_of_size) is advised
    assert told["unknown"].where.endswith("dev.en") and lines_of(found, "unknown") == {5}
    assert "ξένος" in told["unknown"].line() and "character_coverage" not in told["unknown"].line()
    less = check_data(config(folder, subwords={**words, "character_coverage": 0.99})).findings
    lines = [finding.line() for finding in less if finding.name == "unknown"]
    assert lines and all("raise data.subwords.character_coverage" in line for line in lines)
    assert told["long"].count > 400
    (error,) = check_data(config(folder, subwords={"type": "bpe", "vocab_size": 50_000})).errors
    assert error.line().startswith("data.subwords.vocab_size must be at most")


def test_no_text_at_all_is_one_line(corpus):
    folder = corpus[0]
    (folder / "train.de").write_bytes("wide".encode("utf-16"))
    refused(DataError, "got text that looks like UTF-16", examine, config(folder))


def test_a_limit_says_that_it_was_one(corpus):
    found = examine(config(corpus[0]), limit=100)
    assert found.counts[str(corpus[0] / "train")] == 100 and not found.complete
    assert "the first lines alone" in found.summary()


def test_duplicates_of_a_sample_are_an_estimate(corpus):
    """Hashes kept are bounded, whatever the text; equal pairs are in the sample together."""
    drawn = random.Random(5)
    duplicates, total = Duplicates(most=3_000), 0
    for _ in range(20):
        lines = [str(drawn.randrange(10_000)) for _ in range(2_000)]
        duplicates.add(Block(total, [lines, lines], [lines, lines]))
        total += len(lines)
        assert duplicates._kept <= 3_000
    text = Text("x", config(corpus[0]).data.src and [config(corpus[0]).data.src, config(corpus[0]).data.tgt])
    text.total = total
    finding = duplicates.finding(text)
    assert "estimated from one in" in finding.line()
    want = 40_000 - 10_000 * (1 - (1 - 1e-4) ** 40_000)
    assert abs(finding.count - want) < 0.1 * want


def jaccard(a, b):
    pieces = [{line[i : i + 4] for i in range(len(line) - 3)} for line in (a.replace(" ", ""), b.replace(" ", ""))]
    return len(pieces[0] & pieces[1]) / len(pieces[0] | pieces[1])


def test_near_lines_are_those_of_the_definition():
    """Against every pair compared in full: none reported that is not near, and hardly one missed."""
    lines = sorted({line for line in sentences(400, 4, 14) if len(line.replace(" ", "")) >= 16})
    drawn = random.Random(6)
    changed = [" ".join(word for word in line.split() if drawn.random() > 0.06) for line in lines]
    changed = [line for line in changed if len(line.replace(" ", "")) >= 16]
    found = {(m.number, m.held_out) for m in OverlapIndex(lines, every=True).find(changed)}
    want = {(i, j) for i, a in enumerate(changed) for j, b in enumerate(lines) if jaccard(a, b) >= 0.8}
    assert found <= want and len(want - found) <= 0.01 * len(want) and len(want) > 100


def test_near_ignores_case_punctuation_and_spaces_of_short_lines_too():
    index = OverlapIndex(["Guten Tag!", "", "Nein."])
    found = index.find(["guten tag", "GUTEN, TAG", "", "Neun."])
    assert [(m.number, m.held_out, m.likeness) for m in found] == [(0, 0, Likeness.NEAR), (1, 0, Likeness.NEAR)]
    assert index.find(["Guten Tag!"])[0].likeness == Likeness.EXACT
    np.testing.assert_array_equal(index.likeness, [Likeness.EXACT, Likeness.NONE, Likeness.NONE])
    assert OverlapIndex([]).find(["anything"]) == []


def test_what_a_rule_leaves_out_of_training_is_no_warning(corpus):
    folder, src, tgt = corpus
    held_out = (folder / "dev.de").read_text().splitlines(), (folder / "dev.en").read_text().splitlines()
    write(folder, "train", [*src, "same", src[0], held_out[0][0]], [*tgt, "same", tgt[0], held_out[1][0]])
    assert {"same", "duplicates", "overlap"} <= names(examine(config(folder)))
    for name, rule in (("same", True), ("duplicates", True), ("overlap", "near")):
        assert names(examine(config(folder, filter={name: rule}))) == names(examine(config(folder))) - {name}


def write_table(tmp_path, lines):
    (tmp_path / "t.tsv").write_text("".join(f"{line}\n" for line in lines))
    return {"path": str(tmp_path / "t.tsv")}


def test_warnings_of_a_table_say_which_side_and_the_row_of_the_file(tmp_path):
    many = [f"one number {n}\teine Zahl {n}" for n in range(50)]
    corpus = write_table(tmp_path, ["Numbers\t", "English\tGerman", *many, "<b>x</b>\ty", "x\t<i>y</i>"])
    given = settings_with({"src": {"lang": "en"}, "tgt": {"lang": "de"}, "train": [corpus], "dev": [corpus]})
    tags = [(one.where, one.examples[0].line) for one in check_data(given).findings if "tags" in one.what]
    assert sorted(set(tags)) == [(f"{corpus['path']} (de)", 54), (f"{corpus['path']} (en)", 53)]


def test_a_blank_line_of_a_table_is_a_pair_of_nothing_as_in_two_files(tmp_path):
    corpus = write_table(tmp_path, ["one\teins", "", "   ", "two\tzwei"])
    (part,) = Source(corpus["path"]).parts(["en", "de"])
    assert list(part.rows()) == [("one", "eins"), ("", ""), ("", ""), ("two", "zwei")]
    data = settings_with({"src": {"lang": "en"}, "tgt": {"lang": "de"}}).data
    assert [len(block) for block in Text(Source(corpus["path"]), [data.src, data.tgt]).blocks()] == [4]
