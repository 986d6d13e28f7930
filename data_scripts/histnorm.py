"""Brings old spelling and new to data/histnorm/CORPUS/{train,dev}.{old,new}, a word a line, letters between spaces.

    python data_scripts/histnorm.py                  downloads from the data's public home
    python data_scripts/histnorm.py --from FOLDER    takes a copy: CORPUS.PART.txt or CORPUS.PART.tsv, plain or .gz

The corpora: RIDGES (German, 1482-1652, CC BY 3.0) and goo300k in the Bohorič alphabet (Slovene, 1750-1840s, CC BY-SA
4.0), as Bollmann, "A Large-Scale Comparison of Historical Text Normalization Systems", 2019, divided them. Words are
prepared in the same way: lower case, equal digits of both forms replaced by 0, punctuation and words without a
counterpart removed, a space within a word replaced by a special character.

An old form alone can be ambiguous ("das" is das or dass), so each line of train.old also has its neighbours:
`--context` words before and after, each as one symbol (<das, >iſt; the nearest next to the letters). They are taken
only from the old text, never across the end of a sentence; `--context 0` omits them.
"""

import argparse
import re
import unicodedata
from pathlib import Path

from parallel_text import Corpus, write_parallel_corpus
from text_files import fail, fetch, find_text_file, read_table, read_text_bytes

HOME = "https://raw.githubusercontent.com/coastalcph/histnorm/master/datasets/historical"
# Corpus -> the folder of its language there.
CORPORA = {"german-ridges": "german", "slovene-goo300k-bohoric": "slovene"}
PARTS = ("train", "dev")
SPACE = "\u00f7"
"""The character that replaces a space within a word; from Bollmann."""

Words = list[tuple[str, ...] | None]
"""Old form and new one, word by word; None between sentences."""


def prepared(rows: Words) -> Words:
    """Returns the words as Bollmann's experiments had them (his preprocess.py --all), ends of sentences kept."""
    words: Words = []
    for row in rows:
        if row is None:
            words.append(None)
            continue
        old, new = (unicodedata.normalize("NFC", form).lower() for form in row)
        if not old or not new or _is_punctuation(old) or _is_punctuation(new):
            continue
        if old == new:
            old = new = re.sub(r"\d", "0", old)
        words.append((old.replace(" ", SPACE), new.replace(" ", SPACE)))
    return words


def _is_punctuation(form: str) -> bool:
    return all(unicodedata.category(character).startswith("P") for character in form)


def sides_of(words: Words, context: int) -> dict[str, bytes]:
    """Returns the lines of old forms, with so many neighbours, and of new ones."""
    old_lines, new_lines = [], []
    for at, word in enumerate(words):
        if word is None:
            continue
        before = _neighbours(words, at, -1, context)
        behind = _neighbours(words, at, +1, context)
        units = [*(f"{'<' * n}{form}" for n, form in reversed(before)), *word[0]]
        old_lines.append(" ".join(units + [f"{'>' * n}{form}" for n, form in behind]))
        new_lines.append(" ".join(word[1]))
    return {side: ("\n".join(lines) + "\n").encode() for side, lines in (("old", old_lines), ("new", new_lines))}


def _neighbours(words: Words, at: int, step: int, count: int) -> list[tuple[int, str]]:
    """Distances and old forms of the words around the one at `at`, up to the ends of its sentence."""
    found: list[tuple[int, str]] = []
    for distance in range(1, count + 1):
        place = at + step * distance
        if not 0 <= place < len(words) or words[place] is None:
            break
        neighbour = words[place]
        if neighbour is not None:
            found.append((distance, neighbour[0]))
    return found


def main() -> None:
    """Reads or downloads every table and writes both sides."""
    parser = argparse.ArgumentParser(description="Bring old and new spelling to plain text, one word a line.")
    parser.add_argument("--from", dest="folder", type=Path, help="folder of the corpus; else download")
    parser.add_argument("--context", type=int, default=1, help="neighbours on each side (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("data/histnorm"), help="folder to write (default: %(default)s)"
    )
    options = parser.parse_args()
    if options.folder is not None and not options.folder.is_dir():
        fail(f"--from {options.folder}: must be a folder, got none there; check the path")
    if options.context < 0:
        fail(f"--context {options.context}: must be at least 0, got less; 0 leaves neighbours out")
    for name, language in CORPORA.items():
        corpus: Corpus = {}
        for part in PARTS:
            if options.folder is None:
                table = fetch(f"{HOME}/{language}/{name}.{part}.txt")
            else:
                files = [f"{name}.{part}.txt", f"{name}.{part}.tsv"]
                table = read_text_bytes(find_text_file(options.folder, files))
            rows = read_table(table, f"{name}.{part}", 1, 2)
            corpus[part] = sides_of(prepared(rows), options.context)
        write_parallel_corpus(corpus, options.out / name)


if __name__ == "__main__":
    main()
