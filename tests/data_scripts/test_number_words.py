"""The demo corpus as a whole: parts do not overlap, answers are unique, files are what was made."""

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
from demo_corpus.phrases import DOLLAR, EURO, POUND, WEEKDAYS, Pair

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
    command = [sys.executable, SCRIPT, "--out", tmp_path / "out", "--train-size", size]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 1
    assert answer.stderr.startswith("number_words.py: --train-size: must be")
    assert answer.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


MONDAY = Pair("on Monday", "am Montag")
EVERY_FRIDAY = Pair("every Friday", "jeden Freitag")
NINE = phrases.spoken_time(9, 0)
HALF_PAST_THREE = phrases.spoken_time(3, 30)

NUMBERS = [
    (0, "zero", "null"),
    (1, "one", "eins"),
    (6, "six", "sechs"),
    (7, "seven", "sieben"),
    (11, "eleven", "elf"),
    (12, "twelve", "zwölf"),
    (16, "sixteen", "sechzehn"),
    (17, "seventeen", "siebzehn"),
    (20, "twenty", "zwanzig"),
    (21, "twenty-one", "einundzwanzig"),
    (30, "thirty", "dreißig"),
    (37, "thirty-seven", "siebenunddreißig"),
    (60, "sixty", "sechzig"),
    (66, "sixty-six", "sechsundsechzig"),
    (70, "seventy", "siebzig"),
    (77, "seventy-seven", "siebenundsiebzig"),
    (100, "one hundred", "hundert"),
    (101, "one hundred and one", "hunderteins"),
    (116, "one hundred and sixteen", "hundertsechzehn"),
    (121, "one hundred and twenty-one", "hunderteinundzwanzig"),
    (200, "two hundred", "zweihundert"),
    (999, "nine hundred and ninety-nine", "neunhundertneunundneunzig"),
    (1000, "one thousand", "tausend"),
    (1001, "one thousand and one", "tausendeins"),
    (1100, "one thousand one hundred", "tausendeinhundert"),
    (1234, "one thousand two hundred and thirty-four", "tausendzweihundertvierunddreißig"),
    (2017, "two thousand and seventeen", "zweitausendsiebzehn"),
    (21_000, "twenty-one thousand", "einundzwanzigtausend"),
    (100_000, "one hundred thousand", "hunderttausend"),
    (101_000, "one hundred and one thousand", "hunderteintausend"),
    (
        999_999,
        "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
]
ORDINALS = [
    (1, "first", "erste"),
    (2, "second", "zweite"),
    (3, "third", "dritte"),
    (5, "fifth", "fünfte"),
    (7, "seventh", "siebte"),
    (8, "eighth", "achte"),
    (9, "ninth", "neunte"),
    (12, "twelfth", "zwölfte"),
    (17, "seventeenth", "siebzehnte"),
    (19, "nineteenth", "neunzehnte"),
    (20, "twentieth", "zwanzigste"),
    (21, "twenty-first", "einundzwanzigste"),
    (30, "thirtieth", "dreißigste"),
    (100, "one hundredth", "hundertste"),
    (101, "one hundred and first", "hunderterste"),
    (107, "one hundred and seventh", "hundertsiebte"),
]
PHRASES = [
    (phrases.year_pair(1987), "nineteen eighty-seven", "neunzehnhundertsiebenundachtzig"),
    (phrases.year_pair(1905), "nineteen oh five", "neunzehnhundertfünf"),
    (phrases.year_pair(1600), "sixteen hundred", "sechzehnhundert"),
    (phrases.year_pair(2000), "two thousand", "zweitausend"),
    (phrases.year_pair(2005), "two thousand and five", "zweitausendfünf"),
    (phrases.year_pair(2026), "twenty twenty-six", "zweitausendsechsundzwanzig"),
    (phrases.spoken_time(1, 0), "one o'clock", "ein Uhr"),
    (phrases.spoken_time(7, 0), "seven o'clock", "sieben Uhr"),
    (phrases.spoken_time(3, 30), "half past three", "halb vier"),
    (phrases.spoken_time(12, 30), "half past twelve", "halb eins"),
    (phrases.spoken_time(1, 15), "quarter past one", "Viertel nach eins"),
    (phrases.spoken_time(8, 45), "quarter to nine", "Viertel vor neun"),
    (phrases.spoken_time(5, 10), "ten past five", "zehn nach fünf"),
    (phrases.spoken_time(5, 40), "twenty to six", "zwanzig vor sechs"),
    (phrases.spoken_time(6, 25), "twenty-five past six", "fünf vor halb sieben"),
    (phrases.spoken_time(6, 35), "twenty-five to seven", "fünf nach halb sieben"),
    (phrases.spoken_time(12, 55), "five to one", "fünf vor eins"),
    (phrases.minutes_time(3, 1), "one minute past three", "eine Minute nach drei"),
    (phrases.minutes_time(3, 39), "twenty-one minutes to four", "einundzwanzig Minuten vor vier"),
    (phrases.digital_time(1, 1), "one oh one", "ein Uhr eins"),
    (phrases.digital_time(7, 35), "seven thirty-five", "sieben Uhr fünfunddreißig"),
    (phrases.date(3, 5), "the third of May", "der dritte Mai"),
    (
        phrases.on_date(3, 5, 1987),
        "on the third of May nineteen eighty-seven",
        "am dritten Mai neunzehnhundertsiebenundachtzig",
    ),
    (phrases.month_first_date(31, 3), "March the thirty-first", "der einunddreißigste März"),
    (phrases.weekday_date(WEEKDAYS[5], 7, 1), "Saturday the seventh of January", "Samstag, der siebte Januar"),
    (phrases.on_weekday_date(WEEKDAYS[0], 3, 5), "on Monday the third of May", "am Montag, dem dritten Mai"),
    (phrases.date_range(1, 20, 7), "from the first to the twentieth of July", "vom ersten bis zum zwanzigsten Juli"),
    (phrases.duration(1, 0), "one hour", "eine Stunde"),
    (phrases.duration(2, 21), "two hours and twenty-one minutes", "zwei Stunden und einundzwanzig Minuten"),
    (
        Clause(clauses.TRAIN, clauses.LEAVE, "present", phrases.spoken_time(8, 45)).say("main"),
        "the train leaves at quarter to nine",
        "der Zug fährt um Viertel vor neun ab",
    ),
    (
        Clause(clauses.SHOP, clauses.CLOSE, "present", NINE, MONDAY).say("main"),
        "the shop closes on Monday at nine o'clock",
        "der Laden macht am Montag um neun Uhr zu",
    ),
    (
        Clause(clauses.TRAM, clauses.ARRIVE, "past", NINE, MONDAY).say("fronted"),
        "on Monday the tram arrived at nine o'clock",
        "am Montag ist die Straßenbahn um neun Uhr angekommen",
    ),
    (
        Clause(clauses.FILM, clauses.START, "past", NINE).say("main"),
        "the film started at nine o'clock",
        "der Film hat um neun Uhr angefangen",
    ),
    (
        Clause(clauses.SISTER, clauses.GET_UP, "must", HALF_PAST_THREE, EVERY_FRIDAY).say("fronted"),
        "every Friday my sister must get up at half past three",
        "jeden Freitag muss meine Schwester um halb vier aufstehen",
    ),
    (
        Clause(clauses.BUS, clauses.LEAVE, "present", HALF_PAST_THREE, MONDAY).say("that"),
        "I know that the bus leaves on Monday at half past three",
        "ich weiß, dass der Bus am Montag um halb vier abfährt",
    ),
    (
        Clause(clauses.GUEST, clauses.CALL, "past", NINE).say("that", clauses.INTRODUCTIONS[1]),
        "she says that the guest called at nine o'clock",
        "sie sagt, dass der Gast um neun Uhr angerufen hat",
    ),
    (
        Clause(clauses.COURSE, clauses.END, "should", NINE).say("that", clauses.INTRODUCTIONS[2]),
        "we hope that the course should end at nine o'clock",
        "wir hoffen, dass der Kurs um neun Uhr aufhören sollte",
    ),
    (
        Clause(clauses.SHIP, clauses.LEAVE, "present", NINE).say("question"),
        "does the ship leave at nine o'clock?",
        "fährt das Schiff um neun Uhr ab?",
    ),
    (
        Clause(clauses.CHILD, clauses.GET_UP, "past", NINE).say("question"),
        "did the child get up at nine o'clock?",
        "ist das Kind um neun Uhr aufgestanden?",
    ),
    (
        Clause(clauses.BAKERY, clauses.OPEN, "will", NINE).say("question"),
        "will the bakery open at nine o'clock?",
        "wird die Bäckerei um neun Uhr aufmachen?",
    ),
]
PRICES = [
    (phrases.price(EURO, 12, 50), "twelve euros and fifty cents", "zwölf Euro fünfzig", "zwölf Euro fünfzig"),
    (phrases.price(EURO, 12, 50, short=True), "twelve euros fifty", "zwölf Euro fünfzig", "zwölf Euro fünfzig"),
    (phrases.price(EURO, 1, 1), "one euro and one cent", "ein Euro eins", "einen Euro eins"),
    (phrases.price(DOLLAR, 1, 0), "one dollar", "ein Dollar", "einen Dollar"),
    (phrases.price(POUND, 1, 20), "one pound and twenty pence", "ein Pfund zwanzig", "ein Pfund zwanzig"),
    (phrases.price(EURO, 21, 0), "twenty-one euros", "einundzwanzig Euro", "einundzwanzig Euro"),
    (phrases.cents_price(1), "one cent", "ein Cent", "einen Cent"),
    (phrases.cents_price(99), "ninety-nine cents", "neunundneunzig Cent", "neunundneunzig Cent"),
]


@pytest.mark.parametrize(("number", "english", "german"), NUMBERS)
def test_cardinals(number, english, german):
    assert (english_cardinal(number), german_cardinal(number)) == (english, german)


@pytest.mark.parametrize(("number", "english", "german"), ORDINALS)
def test_ordinals(number, english, german):
    assert (english_ordinal(number), german_ordinal(number, ending="e")) == (english, german)
    assert german_ordinal(number, ending="en") == f"{german}n"


@pytest.mark.parametrize(("pair", "english", "german"), PHRASES)
def test_phrases_and_clauses(pair, english, german):
    assert pair == (english, german)


@pytest.mark.parametrize(("value", "english", "nominative", "accusative"), PRICES)
def test_prices(value, english, nominative, accusative):
    assert value == (english, nominative, accusative)


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
