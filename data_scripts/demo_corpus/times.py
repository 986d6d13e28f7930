"""Draws sentences about when: clock times, opening hours, separable verbs, dates, durations."""

from random import Random

from demo_corpus.clauses import BROTHER, CHILD, HOUSES, INTRODUCTIONS, SISTER, USES, Clause, Frame, Tense
from demo_corpus.phrases import (
    DAY_PARTS,
    MIDNIGHT,
    MONTH_DAYS,
    NOON,
    WEEKDAYS,
    Pair,
    date,
    date_range,
    digital_time,
    duration,
    minutes_time,
    month_first_date,
    on_date,
    on_weekday_date,
    spoken_time,
    weekday_date,
    year_pair,
)
from demo_corpus.things import CITIES, LONG_THINGS


def draw_time(rng: Random) -> Pair:
    """A clock time, sometimes with its part of the day."""
    if rng.random() < 0.03:
        return rng.choice((NOON, MIDNIGHT))
    hour, style = rng.randint(1, 12), rng.random()
    if style < 0.6:
        time = spoken_time(hour, 5 * rng.randrange(12))
    elif style < 0.8:
        time = digital_time(hour, rng.randint(1, 59))
    else:
        time = minutes_time(hour, rng.choice([minute for minute in range(60) if minute % 5]))
    if rng.random() < 0.75:
        return time
    part = DAY_PARTS[rng.choice(_day_parts(hour))]
    return Pair(f"{time.en} {part.en}", f"{time.de} {part.de}")


def draw_time_phrase(rng: Random) -> Pair:
    """A time in one of its short frames."""
    time = draw_time(rng)
    frames = [
        time,
        Pair(f"at {time.en}", f"um {time.de}"),
        Pair(f"it is {time.en}", f"es ist {time.de}"),
        Pair(f"is it {time.en}?", f"ist es {time.de}?"),
    ]
    return rng.choice(frames)


def draw_opening_hours(rng: Random) -> Pair:
    """A house that is open or closed over a span of hours, weekdays or dates."""
    house = rng.choice(HOUSES)
    kind = rng.randrange(3)
    if kind == 0:
        begin, end = draw_time(rng), draw_time(rng)
        span = Pair(f"from {begin.en} until {end.en}", f"von {begin.de} bis {end.de}")
    elif kind == 1:
        begin, end = rng.sample(WEEKDAYS, 2)
        span = Pair(f"from {begin.en} to {end.en}", f"von {begin.de} bis {end.de}")
    else:
        month = rng.randint(1, 12)
        first, last = sorted(rng.sample(range(1, MONTH_DAYS[month - 1] + 1), 2))
        span = date_range(first, last, month)
    state = rng.choice((Pair("open", "geöffnet"), Pair("closed", "geschlossen")))
    return Pair(f"{house.en} is {state.en} {span.en}", f"{house.de} ist {span.de} {state.de}")


def draw_clause(rng: Random) -> Pair:
    """A sentence whose verb German splits or moves to the end."""
    verb, subjects = rng.choice(USES)
    tenses: list[Tense] = ["present", "present", "past", "will", "must", "can", "should"]
    tense = rng.choice(tenses)
    frames: list[Frame] = ["main", "main", "fronted", "that", "question"]
    frame = rng.choice(frames)
    day = _draw_day(rng, tense) if frame == "fronted" or rng.random() < 0.4 else None
    clause = Clause(rng.choice(subjects), verb, tense, draw_time(rng), day)
    return clause.say(frame, rng.choice(INTRODUCTIONS))


def draw_date(rng: Random) -> Pair:
    """A date, alone or in a sentence."""
    month = rng.randint(1, 12)
    day = rng.randint(1, MONTH_DAYS[month - 1])
    year = rng.randrange(1900, 2030) if rng.random() < 0.5 else None
    plain, on, weekday = date(day, month, year), on_date(day, month, year), rng.choice(WEEKDAYS)
    person = rng.choice((BROTHER, SISTER, CHILD))
    frames = [
        plain,
        on,
        month_first_date(day, month),
        weekday_date(weekday, day, month),
        on_weekday_date(weekday, day, month),
        Pair(f"today is {plain.en}", f"heute ist {plain.de}"),
        Pair(f"yesterday was {plain.en}", f"gestern war {plain.de}"),
        Pair(f"I was born {on.en}", f"ich wurde {on.de} geboren"),
        Pair(f"{person.en} was born {on.en}", f"{person.de} wurde {on.de} geboren"),
    ]
    return rng.choice(frames)


def draw_year(rng: Random) -> Pair:
    """A year, mostly of the last two centuries."""
    return year_pair(rng.randrange(1800 if rng.random() < 0.7 else 1500, 2030))


def draw_year_sentence(rng: Random) -> Pair:
    """Where people lived in or since a year."""
    year, city = draw_year(rng), rng.choice(CITIES)
    frames = [
        Pair(f"we moved to {city.en} in {year.en}", f"wir sind im Jahr {year.de} nach {city.de} gezogen"),
        Pair(f"he has lived in {city.en} since {year.en}", f"er wohnt seit {year.de} in {city.de}"),
        Pair(f"in {year.en} she lived in {city.en}", f"im Jahr {year.de} hat sie in {city.de} gewohnt"),
    ]
    return rng.choice(frames)


def draw_duration(rng: Random) -> Pair:
    """How long something takes."""
    hours = rng.randrange(13)
    span = duration(hours, rng.randrange(60) if hours else rng.randint(1, 59))
    thing = rng.choice(LONG_THINGS)
    frames = [
        span,
        Pair(f"{thing.en} takes {span.en}", f"{thing.de} dauert {span.de}"),
        Pair(f"{thing.en} will take {span.en}", f"{thing.de} wird {span.de} dauern"),
        Pair(f"{thing.en} took {span.en}", f"{thing.de} hat {span.de} gedauert"),
    ]
    return rng.choice(frames)


def _draw_day(rng: Random, tense: Tense) -> Pair:
    """Draws an adverbial of the day that fits the tense."""
    weekday, month = rng.choice(WEEKDAYS), rng.randint(1, 12)
    days = [
        Pair(f"on {weekday.en}", f"am {weekday.de}"),
        on_date(rng.randint(1, MONTH_DAYS[month - 1]), month),
        Pair("today", "heute"),
    ]
    if tense == "past":
        days.append(Pair("yesterday", "gestern"))
    else:
        days += [Pair("tomorrow", "morgen"), Pair(f"every {weekday.en}", f"jeden {weekday.de}")]
    return rng.choice(days)


def _day_parts(hour: int) -> list[str]:
    """Returns the parts of the day in which a clock shows this hour."""
    if hour == 12:
        return ["night"]
    if hour < 4:
        return ["afternoon", "night"]
    if hour < 6:
        return ["morning", "afternoon"]
    if hour < 11:
        return ["morning", "evening"]
    return ["morning", "night"]
