"""Makes the demo corpus, offline: English number words, dates, clock times, prices; their German.

    python data_scripts/number_words.py --out data/demo

writes train, dev, test and examples as OUT/NAME.en and OUT/NAME.de, one sentence a line. The same
seed and size give the same files. No input of dev, test or examples is in train, and each input
has exactly one right answer.
"""

import argparse
from pathlib import Path
from random import Random

from demo_corpus.clauses import ARRIVE, CLOSE, LEAVE, OPEN, SHIP, SHOP, SISTER, TRAIN, Clause
from demo_corpus.mixture import basic_pairs, draw_pair
from demo_corpus.phrases import EURO, Pair, number_pair, on_date, price, spoken_time
from text_files import fail, write_aside

DEV_SIZE = 500
TEST_SIZE = 1000
# Small kinds have few distinct inputs: past this size they run dry and the mixture tilts.
LARGEST_TRAIN_SIZE = 200_000


def examples() -> list[Pair]:
    """Returns the pairs the demo shows; training never sees them."""
    half_past_three, quarter_to_nine = spoken_time(3, 30), spoken_time(8, 45)
    cost = price(EURO, 21, 50)
    birthday = on_date(3, 5, 1987)
    monday = Pair("on Monday", "am Montag")
    return [
        number_pair(4721),
        Clause(TRAIN, LEAVE, "present", quarter_to_nine).say("main"),
        Clause(SHOP, CLOSE, "present", half_past_three, monday).say("fronted"),
        Clause(SISTER, ARRIVE, "must", half_past_three, monday).say("that"),
        Clause(SHIP, LEAVE, "past", spoken_time(6, 35)).say("question"),
        Clause(SHOP, OPEN, "will", quarter_to_nine, Pair("tomorrow", "morgen")).say("fronted"),
        Pair(f"I was born {birthday.en}", f"ich wurde {birthday.de} geboren"),
        Pair(f"I paid {cost.en} for the coat", f"ich habe {cost.accusative} für den Mantel bezahlt"),
    ]


def make_corpus(seed: int, train_size: int) -> dict[str, list[Pair]]:
    """Returns the parts of the corpus by name; raises ValueError if an input has two answers."""
    rng = Random(seed)
    shown = examples()
    basics = dict(basic_pairs())
    answers = dict(shown) | basics
    drawn: list[Pair] = []
    needed = DEV_SIZE + TEST_SIZE + max(0, train_size - len(basics))
    while len(drawn) < needed:
        pair = draw_pair(rng)
        if pair.en not in answers:
            drawn.append(pair)
        known = answers.setdefault(pair.en, pair.de)
        if known != pair.de:
            raise ValueError(f"{pair.en!r} has two answers: {known!r} and {pair.de!r}")
    train = [Pair(*pair) for pair in basics.items()][:train_size] + drawn[DEV_SIZE + TEST_SIZE :]
    rng.shuffle(train)
    return {"dev": drawn[:DEV_SIZE], "test": drawn[DEV_SIZE:][:TEST_SIZE], "train": train, "examples": shown}


def write_corpus(parts: dict[str, list[Pair]], folder: Path) -> None:
    """Writes every part as NAME.en and NAME.de."""
    for name, pairs in parts.items():
        write_aside(folder / f"{name}.en", "".join(f"{pair.en}\n" for pair in pairs).encode())
        write_aside(folder / f"{name}.de", "".join(f"{pair.de}\n" for pair in pairs).encode())


def main() -> None:
    """Reads the options, makes the corpus and writes it."""
    parser = argparse.ArgumentParser(description="Make the English-German demo corpus of number words.")
    parser.add_argument("--out", type=Path, default=Path("data/demo"), help="folder to write (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another corpus (default: %(default)s)")
    parser.add_argument("--train-size", type=int, default=30_000, help="training pairs (default: %(default)s)")
    options = parser.parse_args()
    if not 1 <= options.train_size <= LARGEST_TRAIN_SIZE:
        fail(f"--train-size: must be from 1 to {LARGEST_TRAIN_SIZE}, got {options.train_size}; choose another")
    parts = make_corpus(options.seed, options.train_size)
    write_corpus(parts, options.out)
    sizes = ", ".join(f"{len(pairs)} {name}" for name, pairs in parts.items())
    print(f"{options.out}: {sizes} (English-German pairs)")


if __name__ == "__main__":
    main()
