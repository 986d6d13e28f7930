"""The demo corpus as a whole: parts do not overlap, answers are unique, files are what was made."""

import hashlib
import subprocess
import sys
import unicodedata
from pathlib import Path
from random import Random

import number_words
import pytest
from demo_corpus import clauses, phrases
from demo_corpus.clauses import Clause
from demo_corpus.mixture import KINDS, basic_pairs, draw_pair
from demo_corpus.numbers import english_cardinal, english_ordinal, german_cardinal, german_ordinal
from demo_corpus.phrases import EURO, WEEKDAYS, Pair

from tests.data_scripts.test_corpora import one_line, run

SCRIPT = Path(number_words.__file__)
PARTS = ("train", "dev", "test", "examples")


@pytest.fixture(scope="module")
def corpus():
    return number_words.make_corpus(seed=1, train_size=30_000)


def test_sizes(corpus):
    sizes = {part: len(pairs) for part, pairs in corpus.items()}
    assert sizes == {"train": 30_000, "dev": 500, "test": 1000, "examples": 8}


def test_no_input_stands_in_two_parts(corpus):
    inputs = [pair.en for part in PARTS for pair in corpus[part]]
    assert len(inputs) == len(set(inputs))


def test_training_sees_the_basics(corpus):
    assert set(basic_pairs()) <= set(corpus["train"])


def test_every_word_of_the_held_out_inputs_is_known(corpus):
    words = {part: {word.rstrip("?") for pair in pairs for word in pair.en.split()} for part, pairs in corpus.items()}
    assert words["dev"] | words["test"] | words["examples"] <= words["train"]


def test_lines_are_short_and_clean(corpus):
    for pairs in corpus.values():
        for pair in pairs:
            for text in pair:
                assert text == " ".join(text.split()) != ""
                assert len(text.split()) <= 25
                assert unicodedata.is_normalized("NFC", text)


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS], ids=lambda kind: kind.__name__)
def test_each_kind_has_one_answer_an_input_beside_all_others(kind, corpus):
    answers = {pair.en: pair.de for pairs in corpus.values() for pair in pairs}
    rng = Random(7)
    for _ in range(500):
        pair = kind(rng)
        assert answers.setdefault(pair.en, pair.de) == pair.de


def test_two_answers_are_refused(monkeypatch):
    def contradict(rng):
        pair = draw_pair(rng)
        return pair._replace(de=f"{pair.de} {rng.random()}")

    monkeypatch.setattr(number_words, "draw_pair", contradict)
    with pytest.raises(ValueError, match="two answers"):
        number_words.make_corpus(seed=1, train_size=5000)


def test_same_seed_same_files_other_seed_other_files(tmp_path):
    for folder, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        command = [sys.executable, SCRIPT, "--out", tmp_path / folder, "--seed", seed]
        subprocess.run([*command, "--train-size", "400"], check=True, capture_output=True)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(f"{part}.{language}" for part in PARTS for language in ("en", "de"))
    for name in names:
        text = (tmp_path / "a" / name).read_bytes()
        assert text == (tmp_path / "b" / name).read_bytes()
        assert text.endswith(b"\n")
    assert (tmp_path / "a/test.en").read_bytes() != (tmp_path / "c/test.en").read_bytes()
    assert len((tmp_path / "a/train.en").read_text().splitlines()) == 400


@pytest.mark.parametrize("size", ["0", "200001"])
def test_impossible_size_is_one_line(tmp_path, size):
    answer = run(SCRIPT, "--out", tmp_path / "out", "--train-size", size)
    assert one_line(answer, SCRIPT.name).startswith(f"{SCRIPT.name}: --train-size: must be")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


NINE = phrases.spoken_time(9, 0)
SAID = [
    *((f"{english_cardinal(n)}", german_cardinal(n)) for n in (16, 77, 101, 1234)),
    *((f"{english_ordinal(n)}", german_ordinal(n, ending="e")) for n in (3, 20, 107)),
    phrases.year_pair(1905),
    phrases.spoken_time(6, 25),
    phrases.on_weekday_date(WEEKDAYS[0], 3, 5),
    phrases.price(EURO, 1, 1)[:2],
    Clause(clauses.BUS, clauses.LEAVE, "present", NINE, Pair("on Monday", "am Montag")).say("that"),
    Clause(clauses.CHILD, clauses.GET_UP, "past", NINE).say("question"),
]
EXPECTED = """\
sixteen = sechzehn
seventy-seven = siebenundsiebzig
one hundred and one = hunderteins
one thousand two hundred and thirty-four = tausendzweihundertvierunddreißig
third = dritte
twentieth = zwanzigste
one hundred and seventh = hundertsiebte
nineteen oh five = neunzehnhundertfünf
twenty-five past six = fünf vor halb sieben
on Monday the third of May = am Montag, dem dritten Mai
one euro and one cent = ein Euro eins
I know that the bus leaves on Monday at nine o'clock = ich weiß, dass der Bus am Montag um neun Uhr abfährt
did the child get up at nine o'clock? = ist das Kind um neun Uhr aufgestanden?
"""


def test_a_pair_of_each_kind():
    assert "".join(f"{one} = {other}\n" for one, other in SAID) == EXPECTED


def test_numbers_and_basic_pairs_are_those_that_people_have_read():
    """Whatever is said otherwise than when each kind was read and found right."""
    numbers = [(english_cardinal(n), german_cardinal(n)) for n in range(0, 1_000_000, 997)]
    numbers += [(english_ordinal(n), german_ordinal(n, ending="en")) for n in range(1, 999)]
    lines = "".join(f"{one} = {other}\n" for one, other in [*numbers, *basic_pairs()])
    assert hashlib.sha256(lines.encode()).hexdigest()[:16] == "76829ac03326af1a"


def test_no_two_numbers_read_alike():
    for words in (english_cardinal, german_cardinal):
        assert len({words(number) for number in range(11_000)}) == 11_000


@pytest.mark.parametrize(
    "call",
    [
        lambda: german_cardinal(1_000_000),
        lambda: english_cardinal(-1),
        lambda: german_ordinal(0, ending="e"),
        lambda: phrases.spoken_time(13, 0),
        lambda: phrases.spoken_time(3, 7),
        lambda: phrases.digital_time(3, 0),
        lambda: phrases.price(EURO, 101, 0),
        lambda: phrases.price(EURO, 5, 100),
        lambda: phrases.duration(0, 0),
        lambda: Clause(clauses.BUS, clauses.LEAVE, "past", NINE).say("fronted"),
    ],
)
def test_what_has_no_right_answer_is_refused(call):
    with pytest.raises(ValueError, match="must"):
        call()
