"""Made-up forms that equal their word but for one plural: are they copied where a letter or a feature is new?

    python recipes/made_up_forms.py FOLDER [nmt-train's options]

Writes 700 forms to learn from, trains a model in FOLDER by the plain command, which takes the preset edits, and prints
how many of 200 forms of each kind are right.
"""

import argparse
import random
import subprocess
from pathlib import Path

from nmt import Translator

SINGULAR = [f"N;{case};SG" for case in ("NOM", "ACC", "GEN", "DAT")]
PLURAL = "N;NOM;PL"
Row = tuple[str, str, str]
"""A word, its form and its features."""


def word(draw: random.Random) -> str:
    """Two to four syllables."""
    syllables = [draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4))]
    return "".join(syllables) + draw.choice(["", draw.choice("bdfgklmnprstvz")])


def parts(draw: random.Random) -> dict[str, list[Row]]:
    """The forms to learn from, `train`, and those of each kind to be tested."""
    words = list(dict.fromkeys(word(draw) for _ in range(3000)))

    def row(stem: str, features: str) -> Row:
        return stem, stem + "en" * (features == PLURAL), features

    def with_new(stem: str) -> str:
        place = draw.randrange(len(stem))
        return stem[:place] + draw.choice("ABCQWXYčñ") + stem[place + 1 :]

    some = iter(words[700:])
    kinds = {
        "nothing new": lambda: row(next(some), draw.choice(SINGULAR)),
        "a new feature": lambda: row(next(some), "N;LOC;SG"),
        "new features only": lambda: row(next(some), "V;NFIN"),
        "a new letter": lambda: row(with_new(next(some)), draw.choice(SINGULAR)),
        "a new letter, plural": lambda: row(with_new(next(some)), PLURAL),
    }
    train = [row(stem, draw.choice([*SINGULAR, PLURAL])) for stem in words[:700]]
    return {"train": train} | {name: [make() for _ in range(200)] for name, make in kinds.items()}


def main() -> None:
    """Train and score."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the model is written")
    args, options = parser.parse_known_args()
    folder = args.folder
    found, table = parts(random.Random(1)), Path(f"{folder}.tsv")
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text("".join("\t".join(row) + "\n" for row in found.pop("train")), "utf-8")
    subprocess.run(["nmt-train", str(table), "-s", "word", "-t", "form", "-o", folder, *options], check=True)
    translator = Translator.load(folder)
    for kind, rows in found.items():
        forms = translator.translate([f"{stem}\t{features}" for stem, _, features in rows])
        right = sum(form == expected for form, (_, expected, _) in zip(forms, rows, strict=True))
        print(f"{kind}: {right / 2:g} %")


if __name__ == "__main__":
    main()
