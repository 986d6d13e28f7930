"""Random Markdown for `random_texts`: its blocks, marks and emphasis stay what markdown-it reads."""

import random
import re
from collections import Counter

from markdown_it import MarkdownIt

from nmt.documents.document import read_document
from nmt.inference.translation import Translation
from tests.documents.random_texts import NUMBERS, SPACED, UNSPACED, Case, Item, Translator

ARGUMENTS = "%1$s %d {0} {name} %(name)s ${x}".split()
SYMBOLS = "😀 ✓ 👍🏽".split()
FIGURES = [one for one in NUMBERS if one not in ("¾", "600,000") and "-" not in one]  # none is part of another
EMPHASIS = ("**", "*", "~~", "__")
SINGLES = ("`x_y z`", "![q](p.png)", "[^1]", "<br>")
BLOCKS = ("{}", "## {}", "- {}\n- {}", "- {}\n  - {}", "1. {}\n2. {}", "- [ ] {}\n- [x] {}", "> {}", "{}  \n{}")
TABLE = "| {} | {} |\n|---|:-:|\n| {} | {} |"
CODE = "```py\nx = 1 # leaves\n```"
_READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_AROUND = re.compile(r"\\|!\[|\]\((?:p\.png|q\.md#a)\)|\[\^1\]|\[|<br>|`x_y z`|[*~_’'\s]")


def _line(draw: random.Random, items: dict[str, Item], words: list[str]) -> str:
    """Return words, placeholders and numbers with inline marks."""
    pools = {"word": words, "argument": ARGUMENTS, "symbol": SYMBOLS, "number": FIGURES}
    pieces = []
    for _ in range(draw.randint(1, 7)):
        kind = draw.choice(("word",) * 5 + ("argument", "number", "symbol"))
        pieces.append(draw.choice(pools[kind]))
        if kind != "word":
            items[pieces[-1]] = Item(kind, pieces[-1])
    for kind in draw.choices((*EMPHASIS, "[", "", ""), k=draw.randint(0, 3)):
        low, high = sorted(draw.sample(range(len(pieces) + 1), 2))
        inner = " ".join(pieces[low:high])
        if not kind:
            pieces.insert(low, draw.choice(SINGLES))
        elif kind == "[" and "[" not in inner:
            pieces[low:high] = [f"[{inner}](q.md#a)"]
        elif not set("*_~[") & set(inner):
            pieces[low:high] = [kind + inner + kind]
    return " ".join(pieces)


def drawn(draw: random.Random) -> tuple[Case, Translator]:
    """Return a case and its translator."""
    items: dict[str, Item] = {}
    words = [one for one in (SPACED if draw.random() < 0.75 else UNSPACED) if one[0] not in "-/"]
    blocks = draw.choices((*BLOCKS, TABLE, CODE), k=draw.randint(1, 4))
    text = "\n\n".join(re.sub(r"\{\}", lambda _: _line(draw, items, words), one) for one in blocks) + "\n"
    counts = {one: text.count(one) for one in [*items, *SINGLES[2:], CODE] if one not in NUMBERS and one not in SYMBOLS}
    return Case(text, "markdown", counts), Translator(draw, items)


def _structure(text: str) -> tuple[list[str], Counter[str], list[str]]:
    """Return the kinds of blocks, how often there is each kind of mark, and texts with signs of emphasis."""
    inner = [one for block in _READER.parse(text) for one in block.children or ()]
    kinds = Counter(one.type for one in inner if not re.match("text|softbreak|em_|strong_|s_", one.type))
    loose = [one.content for one in inner if one.type == "text" and re.search(r"\*|~~|__", one.content)]
    return [block.type for block in _READER.parse(text)], kinds, loose


def broken(case: Case, translator: Translator) -> list[str]:
    """Return the rules that a translation of the case breaks. Emphasis of nothing goes."""
    document = read_document(case.text.encode(), "markdown")
    found = []
    if document.write([one.source for one in document.passages]).decode() != case.text:
        found.append("source")
    same = [one.joined([Translation(s.asked, 0.0, 0.0) for s in one.sentences]) for one in document.passages]
    if document.write(same).decode() != case.text:
        found.append("identity")
    answers = [[translator.translate(s.asked) for s in one.sentences] for one in document.passages]
    case.answers = [one.text for several in answers for one in several]
    texts = [one.joined(several) for one, several in zip(document.passages, answers, strict=True)]
    out = case.translation = document.write(texts).decode()
    found += [f"{one!r} {out.count(one)} of {n}" for one, n in case.counts.items() if out.count(one) != n]
    (blocks, marks, _), (new_blocks, new_marks, loose) = _structure(case.text), _structure(out)
    found += [f"blocks {new_blocks}"] * (blocks != new_blocks) + [f"marks {new_marks}"] * (marks != new_marks)
    found += [f"loose {loose}"] * bool(loose)
    bare = _AROUND.sub("", out.replace("&amp;", "&"))
    found += [f"lost {one!r}" for one, n in translator.needed.items() if bare.count(re.sub(r"['\s]", "", one)) < n]
    return found
