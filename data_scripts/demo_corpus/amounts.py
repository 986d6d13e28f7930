"""Draws sentences about how many and how much: numbers, prices, things, ordinals, ages, sums."""

from random import Random

from demo_corpus.clauses import BROTHER, SISTER
from demo_corpus.numbers import english_cardinal, english_ordinal, german_cardinal, german_ordinal
from demo_corpus.phrases import CURRENCIES, EURO, WEEKDAYS, Pair, Price, cents_price, number_pair, price
from demo_corpus.things import CITIES, HOUSE, THINGS


def draw_number(rng: Random) -> Pair:
    """A cardinal from 0 to 9,999, small ones as likely as large ones."""
    return number_pair(rng.randrange(10 ** rng.choice((2, 3, 3, 4, 4, 4, 4))))


def draw_price_phrase(rng: Random) -> Pair:
    """A price alone."""
    value = _draw_price(rng)
    return Pair(value.en, value.nominative)


def draw_price_sentence(rng: Random) -> Pair:
    """What a thing costs or what was paid for it."""
    value, thing = _draw_price(rng), rng.choice(THINGS)
    the, den = f"the {thing.en}", thing.accusative
    frames = [
        Pair(f"{the} costs {value.en}", f"{thing.nominative} kostet {value.accusative}"),
        Pair(f"does {the} cost {value.en}?", f"kostet {thing.nominative} {value.accusative}?"),
        Pair(f"I paid {value.en} for {the}", f"ich habe {value.accusative} für {den} bezahlt"),
        Pair(f"she wants to pay {value.en} for {the}", f"sie will {value.accusative} für {den} bezahlen"),
        Pair(f"he says that {the} costs {value.en}", f"er sagt, dass {thing.nominative} {value.accusative} kostet"),
        Pair(f"tomorrow {the} will cost {value.en}", f"morgen wird {thing.nominative} {value.accusative} kosten"),
    ]
    return rng.choice(frames)


def draw_count(rng: Random) -> Pair:
    """A number of things."""
    thing, number = rng.choice(THINGS), _draw_count(rng, 999)
    if number == 1:
        things = Pair(f"one {thing.en}", thing.ein)
    else:
        things = Pair(f"{english_cardinal(number)} {thing.en_plural}", f"{german_cardinal(number)} {thing.plural}")
    frames = [
        Pair(f"I have {things.en}", f"ich habe {things.de}"),
        Pair(f"she has bought {things.en}", f"sie hat {things.de} gekauft"),
        Pair(f"we want to sell {things.en}", f"wir wollen {things.de} verkaufen"),
        Pair(f"I think that he has {things.en}", f"ich glaube, dass er {things.de} hat"),
    ]
    return rng.choice(frames)


def draw_ordinal(rng: Random) -> Pair:
    """The first, second, ... ninety-ninth thing, whose ending follows gender and case."""
    thing, number = rng.choice(THINGS), rng.randint(1, 99)
    english = f"the {english_ordinal(number)} {thing.en}"
    article, name = thing.nominative.split()
    nominative = f"{article} {german_ordinal(number, ending='e')} {name}"
    article = thing.accusative.split()[0]
    accusative = f"{article} {german_ordinal(number, ending='en' if article == 'den' else 'e')} {name}"
    frames = [
        Pair(english, nominative),
        Pair(f"I am looking for {english}", f"ich suche {accusative}"),
        Pair(f"he has sold {english}", f"er hat {accusative} verkauft"),
        Pair(f"where is {english}?", f"wo ist {nominative}?"),
    ]
    return rng.choice(frames)


def draw_age(rng: Random) -> Pair:
    """The age of a person or thing."""
    person, number = rng.choice((BROTHER, SISTER, HOUSE)), rng.randint(1, 99)
    english = f"{english_cardinal(number)} {'year' if number == 1 else 'years'} old"
    german = f"{german_cardinal(number, one='ein')} {'Jahr' if number == 1 else 'Jahre'} alt"
    weekday = rng.choice(WEEKDAYS)
    frames = [
        Pair(f"{person.en} is {english}", f"{person.de} ist {german}"),
        Pair(f"{person.en} will be {english} on {weekday.en}", f"{person.de} wird am {weekday.de} {german}"),
        Pair(f"I know that {person.en} is {english}", f"ich weiß, dass {person.de} {german} ist"),
    ]
    return rng.choice(frames)


def draw_temperature(rng: Random) -> Pair:
    """How warm it is in a city; German puts the place first."""
    city, number = rng.choice(CITIES), rng.randint(2, 40)
    minus = rng.choice(("", "minus "))
    return Pair(
        f"it is {minus}{english_cardinal(number)} degrees in {city.en}",
        f"in {city.de} sind es {minus}{german_cardinal(number)} Grad",
    )


def draw_sum(rng: Random) -> Pair:
    """A sum or difference of numbers below one hundred."""
    first, second = rng.randrange(100), rng.randrange(100)
    if rng.random() < 0.5:
        numbers, sign = (first, second, first + second), "plus"
    else:
        numbers, sign = (first + second, second, first), "minus"
    en = [english_cardinal(number) for number in numbers]
    de = [german_cardinal(number) for number in numbers]
    return Pair(f"{en[0]} {sign} {en[1]} is {en[2]}", f"{de[0]} {sign} {de[1]} ist {de[2]}")


def _draw_price(rng: Random) -> Price:
    if rng.random() < 0.08:
        return cents_price(rng.randint(1, 99))
    currency = EURO if rng.random() < 0.6 else rng.choice(CURRENCIES)
    cents = 0 if rng.random() < 0.25 else rng.randint(1, 99)
    return price(currency, _draw_count(rng, 999), cents, short=rng.random() < 0.2)


def _draw_count(rng: Random, limit: int) -> int:
    """Draws 1 or more, not ending in 01 except 1: German usage wavers on "hundertein Bücher"."""
    while True:
        number = rng.randint(1, 99 if rng.random() < 0.6 else limit)
        if number == 1 or number % 100 != 1:
            return number
