"""The mixture of the demo corpus: which kinds of sentence there are and how often each is drawn.

Every kind maps an input to exactly one right answer; number_words.py refuses a corpus where two
kinds disagree.
"""

from collections.abc import Callable
from random import Random

from demo_corpus.amounts import (
    draw_age,
    draw_count,
    draw_number,
    draw_ordinal,
    draw_price_phrase,
    draw_price_sentence,
    draw_sum,
    draw_temperature,
)
from demo_corpus.phrases import MONTHS, WEEKDAYS, Pair, number_pair, spoken_time
from demo_corpus.times import (
    draw_clause,
    draw_date,
    draw_duration,
    draw_opening_hours,
    draw_time_phrase,
    draw_year,
    draw_year_sentence,
)

# Kind of sentence -> its share in the corpus; the shares need not sum to anything.
KINDS: list[tuple[Callable[[Random], Pair], int]] = [
    (draw_clause, 24),
    (draw_number, 12),
    (draw_price_sentence, 10),
    (draw_date, 10),
    (draw_price_phrase, 8),
    (draw_time_phrase, 8),
    (draw_opening_hours, 6),
    (draw_count, 6),
    (draw_year_sentence, 4),
    (draw_year, 3),
    (draw_duration, 3),
    (draw_ordinal, 3),
    (draw_age, 2),
    (draw_temperature, 1),
    (draw_sum, 4),
]


def draw_pair(rng: Random) -> Pair:
    """Draws one pair of any kind."""
    draw, _ = rng.choices(KINDS, weights=[share for _, share in KINDS])[0]
    return draw(rng)


def basic_pairs() -> list[Pair]:
    """What the rest is built from, so that training always sees it: numbers, names, clock times."""
    numbers = [*range(121), *range(200, 1000, 100), *range(1000, 10_000, 1000)]
    times = [spoken_time(hour, minute) for hour in range(1, 13) for minute in range(0, 60, 5)]
    return [number_pair(number) for number in numbers] + WEEKDAYS + MONTHS + times
