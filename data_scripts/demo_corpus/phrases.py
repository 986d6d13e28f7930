"""Clock times, prices, dates and durations as English-German pairs, one right answer an input.

Every function is plain and deterministic; chance comes in with times.py and amounts.py.
"""

from typing import NamedTuple

from demo_corpus.numbers import (
    english_cardinal,
    english_ordinal,
    english_year,
    german_cardinal,
    german_ordinal,
    german_year,
)


class Pair(NamedTuple):
    """A source text and its only right translation."""

    en: str
    de: str


class Price(NamedTuple):
    """A price; German has the accusative after "kosten", "bezahlen" ("einen Euro fünfzig")."""

    en: str
    nominative: str
    accusative: str


class Currency(NamedTuple):
    """Names of a currency; `article` is "ein" in its accusative form."""

    singular: str
    plural: str
    cent: str
    cents: str
    german: str
    article: str


WEEKDAYS = [
    Pair("Monday", "Montag"),
    Pair("Tuesday", "Dienstag"),
    Pair("Wednesday", "Mittwoch"),
    Pair("Thursday", "Donnerstag"),
    Pair("Friday", "Freitag"),
    Pair("Saturday", "Samstag"),
    Pair("Sunday", "Sonntag"),
]
MONTHS = [
    Pair("January", "Januar"),
    Pair("February", "Februar"),
    Pair("March", "März"),
    Pair("April", "April"),
    Pair("May", "Mai"),
    Pair("June", "Juni"),
    Pair("July", "Juli"),
    Pair("August", "August"),
    Pair("September", "September"),
    Pair("October", "Oktober"),
    Pair("November", "November"),
    Pair("December", "Dezember"),
]
# Without the 29th of February, so that any day goes with any year.
MONTH_DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

DAY_PARTS = {
    "morning": Pair("in the morning", "morgens"),
    "afternoon": Pair("in the afternoon", "nachmittags"),
    "evening": Pair("in the evening", "abends"),
    "night": Pair("at night", "nachts"),
}
NOON = Pair("noon", "zwölf Uhr mittags")
MIDNIGHT = Pair("midnight", "Mitternacht")

EURO = Currency("euro", "euros", "cent", "cents", "Euro", "einen")
DOLLAR = Currency("dollar", "dollars", "cent", "cents", "Dollar", "einen")
POUND = Currency("pound", "pounds", "penny", "pence", "Pfund", "ein")
CURRENCIES = [EURO, DOLLAR, POUND]


def number_pair(number: int) -> Pair:
    """Returns a cardinal number."""
    return Pair(english_cardinal(number), german_cardinal(number))


def year_pair(year: int) -> Pair:
    """Returns a year."""
    return Pair(english_year(year), german_year(year))


def spoken_time(hour: int, minute: int) -> Pair:
    """Returns a time in steps of five minutes: (3, 30) is "half past three", "halb vier"."""
    _check_clock(hour, minute, step=5)
    this, following = number_pair(hour), number_pair(hour % 12 + 1)
    if minute == 0:
        return Pair(f"{this.en} o'clock", f"{german_cardinal(hour, one='ein')} Uhr")
    if minute == 30:
        return Pair(f"half past {this.en}", f"halb {following.de}")
    # German counts the five minutes on either side of the half hour from that half.
    if minute == 25:
        return Pair(f"twenty-five past {this.en}", f"fünf vor halb {following.de}")
    if minute == 35:
        return Pair(f"twenty-five to {following.en}", f"fünf nach halb {following.de}")
    distance = minute if minute < 30 else 60 - minute
    quarter = Pair("quarter", "Viertel") if distance == 15 else number_pair(distance)
    if minute < 30:
        return Pair(f"{quarter.en} past {this.en}", f"{quarter.de} nach {this.de}")
    return Pair(f"{quarter.en} to {following.en}", f"{quarter.de} vor {following.de}")


def minutes_time(hour: int, minute: int) -> Pair:
    """Returns a time to the minute: (3, 53) is "seven minutes to four"."""
    _check_clock(hour, minute, step=1)
    if minute in (0, 30):
        raise ValueError("minute must be before or after the hour, got 0 or 30; use spoken_time")
    distance = minute if minute < 30 else 60 - minute
    span = _counted(distance, Pair("minute", "Minute"), Pair("minutes", "Minuten"))
    if minute < 30:
        nearest = number_pair(hour)
        return Pair(f"{span.en} past {nearest.en}", f"{span.de} nach {nearest.de}")
    nearest = number_pair(hour % 12 + 1)
    return Pair(f"{span.en} to {nearest.en}", f"{span.de} vor {nearest.de}")


def digital_time(hour: int, minute: int) -> Pair:
    """Returns a time read from a display: (7, 5) is "seven oh five", "sieben Uhr fünf"."""
    _check_clock(hour, minute, step=1)
    if minute == 0:
        raise ValueError("minute must be at least 1, got 0; use spoken_time")
    oh = "oh " if minute < 10 else ""
    return Pair(
        f"{english_cardinal(hour)} {oh}{english_cardinal(minute)}",
        f"{german_cardinal(hour, one='ein')} Uhr {german_cardinal(minute)}",
    )


def price(currency: Currency, units: int, cents: int, *, short: bool = False) -> Price:
    """Returns a price; `short` omits "and" and "cents" in English ("twelve euros fifty").

    A number that ends in 01 is refused except 1 itself: German usage wavers there ("hundertein",
    "hunderteins").
    """
    if units < 1 or not 0 <= cents < 100 or (units > 1 and units % 100 == 1):
        raise ValueError(f"units must be at least 1, not end in 01, cents below 100; got {units}, {cents}")
    english = f"{english_cardinal(units)} {currency.singular if units == 1 else currency.plural}"
    tail = ""
    if cents:
        name = currency.cent if cents == 1 else currency.cents
        number = english_cardinal(cents)
        english += f" {number}" if short else f" and {number} {name}"
        tail = f" {german_cardinal(cents)}"
    return Price(
        english,
        f"{german_cardinal(units, one='ein')} {currency.german}{tail}",
        f"{german_cardinal(units, one=currency.article)} {currency.german}{tail}",
    )


def cents_price(cents: int) -> Price:
    """Returns a price below one euro: "fifty cents"."""
    name = "cent" if cents == 1 else "cents"
    german = [f"{german_cardinal(cents, one=one)} Cent" for one in ("ein", "einen")]
    return Price(f"{english_cardinal(cents)} {name}", german[0], german[1])


def date(day: int, month: int, year: int | None = None) -> Pair:
    """Returns a date as a subject: "the third of May", "der dritte Mai"; months from 1."""
    english, german = _date_tail(day, month, year)
    return Pair(f"the {english}", f"der {german_ordinal(day, ending='e')} {german}")


def on_date(day: int, month: int, year: int | None = None) -> Pair:
    """Returns a date as an adverbial: "on the third of May", "am dritten Mai"."""
    english, german = _date_tail(day, month, year)
    return Pair(f"on the {english}", f"am {german_ordinal(day, ending='en')} {german}")


def month_first_date(day: int, month: int) -> Pair:
    """Returns the other English order, "May the third"; the German is the same as in `date`."""
    name = MONTHS[month - 1].en
    return Pair(f"{name} the {english_ordinal(day)}", date(day, month).de)


def weekday_date(weekday: Pair, day: int, month: int) -> Pair:
    """Returns "Monday the third of May", "Montag, der dritte Mai"."""
    plain = date(day, month)
    return Pair(f"{weekday.en} {plain.en}", f"{weekday.de}, {plain.de}")


def on_weekday_date(weekday: Pair, day: int, month: int) -> Pair:
    """Returns "on Monday the third of May", "am Montag, dem dritten Mai"."""
    plain = date(day, month)
    german = f"{german_ordinal(day, ending='en')} {MONTHS[month - 1].de}"
    return Pair(f"on {weekday.en} {plain.en}", f"am {weekday.de}, dem {german}")


def date_range(first: int, last: int, month: int) -> Pair:
    """Returns "from the third to the ninth of May", "vom dritten bis zum neunten Mai"."""
    name = MONTHS[month - 1]
    begin, end = (german_ordinal(day, ending="en") for day in (first, last))
    return Pair(
        f"from the {english_ordinal(first)} to the {english_ordinal(last)} of {name.en}",
        f"vom {begin} bis zum {end} {name.de}",
    )


def duration(hours: int, minutes: int) -> Pair:
    """Returns hours and minutes; parts of zero are omitted."""
    parts = []
    if hours:
        parts.append(_counted(hours, Pair("hour", "Stunde"), Pair("hours", "Stunden")))
    if minutes:
        parts.append(_counted(minutes, Pair("minute", "Minute"), Pair("minutes", "Minuten")))
    if not parts:
        raise ValueError("hours and minutes must not both be 0")
    return Pair(" and ".join(part.en for part in parts), " und ".join(part.de for part in parts))


def _counted(number: int, singular: Pair, plural: Pair) -> Pair:
    noun = singular if number == 1 else plural
    return Pair(f"{english_cardinal(number)} {noun.en}", f"{german_cardinal(number, one='eine')} {noun.de}")


def _date_tail(day: int, month: int, year: int | None) -> tuple[str, str]:
    """Returns what follows the article in English and the ordinal in German."""
    english = f"{english_ordinal(day)} of {MONTHS[month - 1].en}"
    german = MONTHS[month - 1].de
    return (english, german) if year is None else (f"{english} {english_year(year)}", f"{german} {german_year(year)}")


def _check_clock(hour: int, minute: int, *, step: int) -> None:
    if not 1 <= hour <= 12 or not 0 <= minute < 60 or minute % step:
        raise ValueError(f"hour must be 1 to 12, minute a multiple of {step} below 60; got {hour}:{minute:02d}")
