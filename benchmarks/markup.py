"""Do tags come out once, nested as they were, and at the words they stood at?

    python benchmarks/markup.py MODEL LINES.en [--gold runs/quickstart]

LINES get random nested tags, comments, entities and placeholders, are translated by MODEL, and each must have every tag
once and be well-formed. With --gold, the model of `make demo`, number words of its test file are tagged: what their
German is, is known, and so where the tags belong.
"""

import argparse
import random
import re
import sys
from pathlib import Path

from nmt import Translator
from nmt.documents import read_passage, translate_passages
from nmt.documents.tagged_text import html_tokens

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "data_scripts"))
HOLDERS = ("%1$s", "{name}", "https://example.org/a?b=1", "me@example.org", "&amp;", "1,234.5")


def translated(translator: Translator, texts: list[str]) -> list[str]:
    """The texts by the model, as html."""

    def ask(sentences: list[str], details: bool) -> list:
        return [found[0] for found in translator.translate_nbest(sentences, n_best=1, details=details)]

    return translate_passages([read_passage(text, "html") for text in texts], ask)


def tagged(line: str, draw: random.Random) -> str:
    """A line with up to three elements, nested, a comment, an image and a placeholder."""
    words = line.replace("&", "&amp;").replace("<", "&lt;").split()
    if draw.random() < 0.5:
        words.insert(draw.randint(0, len(words)), draw.choice(HOLDERS))
    for name in draw.sample(["b", "i", "u", "span"], draw.randint(1, 3)):
        low, high = sorted(draw.sample(range(len(words) + 1), 2))
        words[low:high] = [f"<{name}>" + " ".join(words[low:high]) + f"</{name}>"]
    if draw.random() < 0.3:
        words.insert(draw.randint(0, len(words)), "<!-- a note --><img src='x'>")
    return " ".join(words)


def is_tree(text: str) -> bool:
    """Whether elements are closed as they were opened."""
    opened = []
    for token in html_tokens(text):
        if token.kind == "open":
            opened.append(token.name)
        elif token.kind == "close" and (not opened or opened.pop() != token.name):
            return False
    return not opened


def check_random(translator: Translator, lines: list[str], count: int) -> None:
    """Tags of random markup."""
    draw = random.Random(1)
    texts = [tagged(lines[n % len(lines)], draw) for n in range(count)]
    tags = well = kept = holders = 0
    for text, found in zip(texts, translated(translator, texts), strict=True):
        marks = [sorted(token.raw for token in html_tokens(one) if token.kind != "text") for one in (text, found)]
        tags += marks[0] == marks[1]
        well += is_tree(found)
        for holder in HOLDERS[:4]:
            holders += holder in text
            kept += holder in text and found.count(holder) == text.count(holder)
    print(f"{count} lines: every tag once in {tags}, well-formed {well}; placeholders once {kept} of {holders}")


def check_gold(folder: str) -> None:
    """Tags around number words."""
    from demo_corpus.numbers import english_cardinal, german_cardinal

    numbers = {english_cardinal(n): german_cardinal(n) for n in range(21, 100) if n % 10}
    texts, wanted = [], []
    for line in Path("data/demo/test.en").read_text("utf-8").splitlines():
        found = [word for word in re.findall(r"\w+-\w+", line) if word in numbers]
        if len(found) == 1:
            texts.append(line.replace(found[0], f"<b>{found[0]}</b>"))
            wanted.append(numbers[found[0]])
    right = there = 0
    for text, gold in zip(translated(Translator.load(folder), texts), wanted, strict=True):
        if not re.search(rf"(?<!\w){gold}(?!\w)", re.sub("<[^>]*>", "", text)):
            continue  # part of a longer German word, or mistranslated: no place is the right one
        there += 1
        right += f"<b>{gold}</b>" in text
    print(f"{there} tagged number words: {right} at their word ({right / max(there, 1):.1%})")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("lines", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--gold", metavar="FOLDER")
    given = parser.parse_args()
    if given.gold:
        check_gold(given.gold)
    lines = [line for line in given.lines.read_text("utf-8").splitlines() if line.strip()]
    check_random(Translator.load(given.model, compute_dtype="int8"), lines, given.count)


if __name__ == "__main__":
    main()
