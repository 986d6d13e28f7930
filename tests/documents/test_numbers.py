"""Numbers in translations: what denotes the same stays, what provably does not becomes the source's."""

import pytest

from nmt.documents.passage import RULES, Rules
from nmt.documents.tagged_text import read_passage
from nmt.inference.translation import Translation
from tests.documents.details import detail_of
from tests.documents.test_passages import translated

NARROW = "\u202f"


def aligned(source, target, alignment, markup="text", rules=RULES):
    """Translate a sentence: each word of the target attends to a word of the source."""
    passage = read_passage(source, markup, rules=rules)
    (sentence,) = passage.sentences
    words, texts = sentence.asked.split(" "), target.split(" ")
    detail = detail_of([f"▁{word}" for word in words], [f"▁{text}" for text in texts], alignment)
    return passage.joined([Translation(target, 0.0, 0.0, detail)])


@pytest.mark.parametrize(
    "source, target, alignment",
    [
        ("it costs 10,000 euros here", f"il coûte 10{NARROW}000 euros ici", [0, 1, 2, 3, 4]),
        ("it costs 10,000 euros here", "il coûte 10 000 euros ici", [0, 1, 2, 2, 3, 4]),
        ("it costs 1,234.50 here", "il coûte 1 234,50 ici", [0, 1, 2, 2, 3]),
        (f"il coûte 10{NARROW}000 euros", "it costs 10,000 euros", [0, 1, 2, 3]),
        ("il coûte 10 000 euros", "it costs 10,000 euros", [0, 1, 2, 3]),
        ("an 18-year-old man", "ein achtzehn Jahre alter Mann", [0, 1, 1, 1, 2]),
        ("COVID-19 is bad", "das Coronavirus ist schlimm", [0, 0, 1, 2]),
        ("costs $5 today", "kostet heute fünf Dollar", [0, 2, 1, 1]),
        ("2.5 billion dollars", "2.500.000.000 Dollar", [0, 2]),
        ("2.500.000.000 Dollar", "2.5 billion dollars", [0, 0, 1]),
        ("5 million people", "5.000.000 Menschen", [0, 2]),
        ("30 万人", "300,000 people", [0, 1]),
        ("3 lakh people", "300,000 Menschen", [0, 2]),
        ("at 3:30 pm today", "um 15:30 Uhr heute", [0, 1, 2, 3]),
        ("at 3:30 pm today", "um 15.30 Uhr heute", [0, 1, 2, 3]),
        ("at 3:30 pm today", "à 15 h 30 aujourd'hui", [0, 1, 1, 1, 3]),
        ("at 3:30 pm today", "à 15h30 aujourd'hui", [0, 1, 3]),
        ("um 15 Uhr heute", "at 3 pm today", [0, 1, 2, 3]),
        ("at 12:05 am today", "um 0:05 Uhr heute", [0, 1, 2, 3]),
        ("at half past 3 today", "um halb 4 heute", [0, 1, 3, 4]),
        ("at 3:30 today", "um halb 4 heute", [0, 1, 1, 2]),
        ("temperature of -5 °C", "Temperatur von minus fünf Grad", [0, 1, 2, 2, 3]),
        ("it was -12 outside", "es war minus 12 draußen", [0, 1, 2, 2, 3]),
        ("it was -12 outside", "es war \u221212 draußen", [0, 1, 2, 3]),
        ("I have 2 cats and two dogs", "ich habe 2 Katzen und 2 Hunde", [0, 1, 2, 3, 4, 5, 6]),
        ("10 of ten people", "10 von 10 Leuten", [0, 1, 2, 3]),
        ("2 or 2 or 2", "2 oder 2 oder 2", [0, 1, 2, 3, 4]),
        ("pages 3-5 here", "Seiten 3 bis 5 hier", [0, 1, 1, 1, 2]),
        ("June 7, 1990 was", "der 7.6.1990 war", [0, 1, 3]),
        ("on 12/31/2026 it", "am 31.12.2026 ist", [0, 1, 2]),
        ("on 2026-12-31 it", "am 31. Dezember 2026 ist", [0, 1, 1, 1, 2]),
        ("add 2 1/2 cups", "2,5 Tassen dazu", [1, 3, 0]),
        ("add 2½ cups", "2,5 Tassen dazu", [1, 2, 0]),
        ("it is 5 miles away", "es ist 8 km weit", [0, 1, 2, 3, 4]),
        ("it is 77 °F today", "es ist 25 °C heute", [0, 1, 2, 3, 4]),
        ("in 2020 it", "ในปี 2563 มัน", [0, 1, 2]),
        ("the 1990s were", "die 90er waren", [0, 1, 2]),
        ("50% of it", "0,5 davon", [0, 2]),
        ("a ٣٫٥ b", "a 3.5 b", [0, 1, 2]),
        ("100,000 rupees", "1,00,000 Rupien", [0, 1]),
        ("20% off", "20 Rabatt", [0, 1]),
        ("version 1.2.3 is", "Version 1.2.3 ist", [0, 1, 2]),
        ("take two pills", "2 Pillen nehmen", [1, 2, 0]),
        ("the 1st of May", "der 1. Mai", [0, 1, 3]),
        ("it has 12 eggs", "es hat ein Dutzend Eier", [0, 1, 2, 2, 3]),
        ("at quarter past 9", "um 9:15 Uhr", [0, 3, 3]),
        ("um Viertel nach 9", "at 9:15", [0, 3]),
        ("3時半 です", "it is 3:30", [1, 1, 0]),
        ("at 5:00 a.m. today", "um 5 Uhr heute", [0, 1, 2, 3]),
        ("it takes 3½ hours", "ça prend 3h30", [0, 0, 2]),
        ("we won 3:2 there", "wir siegten 3-2 dort", [0, 1, 2, 3]),
        ("a ratio of 16:9 is", "un rapport 16/9 est", [0, 1, 3, 4]),
        ("1990–1995 were", "1990-95 waren", [0, 1]),
        ("on 5/6/26 we", "am 05.06.2026 wir", [0, 1, 2]),
        ("ISBN 978-3-16-148410-0 is", "ISBN 9783161484100 ist", [0, 1, 2]),
        ("call (030) 123-4567 now", "ruf 030/1234567 an", [0, 1, 3]),
        ("3億5000万円 です", "350 million yen", [0, 0, 0]),
        ("25億円 です", "2.5 billion yen", [0, 0, 0]),
        ("5 crore rupees", "50 million rupees", [0, 1, 2]),
        ("12,345,678 people", "12,3 Millionen Menschen", [0, 0, 1]),
        ("about 0.5 % of it", "etwa 5 Promille davon", [0, 1, 2, 4]),
        ("1 in 5 people", "20 % der Leute", [0, 1, 2, 3]),
        ("昭和60年 でした", "in 1985", [0, 0]),
        ("for 2 weeks now", "seit 14 Tagen jetzt", [0, 1, 2, 3]),
        ("for 1 hour", "60 Minuten", [1, 2]),
        ("at 60 mph it", "mit 100 km/h es", [0, 1, 2, 3]),
        ("it is 5'11\" tall", "es ist 1,80 m groß", [0, 1, 2, 2, 3]),
        ("it was -5 degrees", "było 5 stopni poniżej zera", [0, 2, 3, 2, 2]),
        ("it was -5 degrees", "היה מינוס 5 מעלות", [0, 2, 2, 3]),
        ("GMT -5 is", "GMT-5 ist", [0, 2]),
        ("add 5 ½ cups", "5,5 Tassen dazu", [1, 3, 0]),
        ("it costs 10 000 kr", "it costs 1,000 kr", [0, 1, 2, 4]),  # of a group in two words nothing is proved
    ],
)
def test_what_may_denote_the_same_stays(source, target, alignment):
    assert aligned(source, target, alignment) == target


@pytest.mark.parametrize(
    "text, said",
    [
        ("take 2.5 pills", "25"),
        ("take 0.5 mg", "05"),
        ("pages 3-5 here", "35"),
        ("add 1/2 cup", "12"),
        ("at 10:30 now", "1030"),
        ("on 12.11.2026 it", "12112026"),
        ("version 1.10 is", "11.0"),
        ("it costs 483,221 now", "483,212"),
        ("it costs $7 now", "€9"),
        ("it was -12 outside", "12"),
        ("take 0,75 ml now", "75"),
        ("add ½ cup", "12"),
        ("see [1] here", "[7]"),
        ("it was \u221212 outside", "12"),
    ],
)
def test_a_wrong_number_becomes_the_source_s_and_nothing_else_changes(text, said):
    change = lambda word: said if any(c.isdigit() for c in word) else word.swapcase()  # noqa: E731
    assert translated(text, change=change) == text.upper()


@pytest.mark.parametrize(
    "source, target, alignment, expected",
    [
        ("it has 12kg here", "es hat 17 kg hier", [0, 1, 2, 2, 3], "es hat 17 kg hier"),  # `12kg` may be a name
        ("it has 12 kg here", "es hat 17 kg hier", [0, 1, 2, 3, 4], "es hat 12 kg hier"),
        ("it has 12 kg here", "es hat 17kg hier", [0, 1, 2, 4], "es hat 12kg hier"),
        ("from 300 to 400 m", "von 300 bis 700 m", [0, 1, 2, 3, 4], "von 300 bis 400 m"),
        ("the 4,812 men", "die Männer", [0, 2], "die 4,812 Männer"),
        ("paid $1,234.50 today", "heute bezahlt", [2, 0], "heute bezahlt $1,234.50"),
        ("from 1,234€ today", "heute ab", [2, 0], "heute ab 1,234€"),
        ("at 99.5% today", "heute bei", [2, 0], "heute bei 99.5%"),
        ("the 7 men", "die Männer", [0, 2], "die Männer"),
        ("the 4,812 men", "die viertausend Männer", [0, 1, 2], "die viertausend Männer"),
        ("for 7,654 %-5s now", "für 935 %-5S jetzt", [0, 1, 2, 3], "für 7,654 %-5s jetzt"),  # no percentage
        ("at 2.5 to 600,000 kg", "bei 47 bis 60 kg", [0, 1, 2, 3, 4], "bei 2.5 bis 60 kg"),  # no days in hours
        ("at 1,234.56 or ¾ cup", "bei 93571 3/4 Becher", [0, 1, 3, 4], "bei 1,234.56 3/4 Becher"),
        ("from 18 to 18 men", "von 935 bis 18 Mann", [0, 1, 2, 3, 4], "von 18 bis 18 Mann"),
        ("on 12.11.2026 600,000 men", "am 93571 600 000 Mann", [0, 1, 2, 2, 3], "am 12.11.2026 600 000 Mann"),
        ("at 12:30 %s left", "bei 12:30 ging", [0, 2, 3], "bei 12:30 %s ging"),
    ],
)
def test_only_the_figures_are_replaced(source, target, alignment, expected):
    assert aligned(source, target, alignment) == expected


def test_no_tag_divides_a_number():
    assert aligned("7,654 <b>men</b> here", "7 654 hier", [0, 0, 2], "html") == "<b>7 654</b> hier"


def test_numbers_can_be_left_to_the_model():
    given = ("it has 12 kg here", "es hat 17 kg hier", [0, 1, 2, 3, 4])
    assert aligned(*given, rules=Rules(numbers=False)) == "es hat 17 kg hier"
    assert read_passage(given[0]).sentences[0].needs_detail
    assert not read_passage(given[0], rules=Rules(numbers=False)).sentences[0].needs_detail


def test_what_was_changed_is_told():
    (sentence,) = read_passage("it has 12 kg").sentences
    assert sentence.changes(Translation("it has 17 kg", 0.0, 0.0)) == [("17", "12")]
    assert sentence.changes(Translation("it has 12,0 kg", 0.0, 0.0)) == []


@pytest.mark.parametrize("sign", ["9" * 5000, "1" + ",000" * 2000, "½" * 900, "1/0 2 1/0", "1:2:3:4:5:6"])
def test_odd_numbers_are_no_error(sign):
    for said in (sign, "7", sign + "1"):
        translated(f"a {sign} b", change=lambda word, said=said: said if any(map(str.isdigit, word)) else word)
