"""Random texts with random markup by random translators, and what must hold of each translation.

    python -m tests.documents.random_texts SEED SECONDS

Tags and placeholders come out once and nested as before, numbers denote the source's, text without letters stays, no
word of the translator is lost, white space stays. Prints the first cases that break a rule, and how many there were.
"""

import html
import random
import re
import sys
import time
from dataclasses import dataclass, field

import numpy as np

from nmt.documents import read_passage
from nmt.inference.translation import Detail, Translation

SPACED = "the train leaves über straße été naïve Поезд отходит 기차가 떠난다 القطار يغادر don't well-known".split()
UNSPACED = "電車 は 出る 火车 离开 รถไฟ ออก ファイル".split()
ARGUMENTS = (
    "%1$s %d %.2f %-5s %'d %@ %(name)s %<n>d %{count} {0} {name} {u.x!r} {n:>10} {0:#,##0.00} {d:%Y-%m} ${x} #{y} "
    "{{_z_}} {{_z|upper_}} {%_if_a_%} <%=_b_%> %n %1 %L2 %% $HOME %PATH% __count__ :smile:"
    " {m,_date,_short} {_NUMBER($k)_} %1!s! %AppData%"
).split()
ADDRESSES = "https://a.org/b?c=1 www.foo.de/x me@x.org https://e.org/w_(x)".split()
SYMBOLS = "😀 👍🏽 👨\u200d👩\u200d👧 🇩🇪 ✓ → ♥ 1️⃣ ™️ ‼️ ❤️".split()
NUMBERS = {
    "1,234.56": ("1.234,56", "1 234,56", "1\u202f234,56", "1234.56", "1'234.56"),
    "7,654": ("7654", "7.654", "7\u00a0654", "7 654"),
    "18": ("١٨", "18", "18,0"),
    "2.5": ("2,5", "2½", "2.50", "2 1/2", "2.500.000.000"),
    "3:30": ("15:30", "15.30", "15 30", "3.30"),
    "12.11.2026": ("2026-11-12", "12/11/2026", "11/12/2026"),
    "40-50": ("40–50", "40 50"),
    "¾": ("0,75", "3/4", "0.75"),
    "3:2": ("3-2", "3–2", "3/2", "3 2"),
    "1990-95": ("1990–1995", "1990-1995", "1990 95"),
    "600,000": ("600.000", "6,00,000", "600\u202f000", "60", "600 000"),
    "-77": ("minus 77", "\u221277", "-77"),
}
"""Numbers, and forms that denote the same (`60` is one of ten thousands). Their values and parts differ."""
_SHOWN = 20
WRONG = ("93571", "93,571.3", "4.7139")


@dataclass
class Item:
    """A piece of a text. kind: word, number, argument, address, symbol or sign."""

    kind: str
    text: str


@dataclass
class Case:
    """A text, how often parts of it must come out, exactly and at least, and what came out."""

    text: str
    markup: str
    counts: dict[str, int] = field(default_factory=dict)
    least: dict[str, int] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)
    translation: str = ""


class Translator:
    """Translates words one by one, as drawn: it copies, loses, repeats, garbles and moves them."""

    def __init__(self, draw: random.Random, items: dict[str, Item]) -> None:
        self._draw, self._items = draw, items
        self._made = 0
        self._is_blind = False
        self.needed: list[str] = []
        self.banned: list[str] = []

    def word(self) -> str:
        """Return a word that occurs once."""
        self._made += 1
        digits = np.base_repr(self._made, 26)
        return "q" + "".join(chr(ord("a") + int(d, 26)) for d in digits) + "j"

    def translate(self, asked: str) -> Translation:
        """Return a translation with its alignment."""
        draw = self._draw
        self._is_blind = draw.random() < 0.1  # it tells no alignment
        words = re.split(" +", asked.strip(" "))
        found: list[tuple[str, int]] = []
        inside = {
            at
            for one in self._items
            for m in re.finditer(re.escape(one), asked)
            if " " in one
            for at in range(*m.span())
        }
        at = 0
        for n, word in enumerate(words):
            at = asked.index(word, at)
            is_part = at in inside or at + len(word) - 1 in inside
            at += len(word)
            texts = [draw.choice((word, word.swapcase(), "xx"))] if is_part else self._translated(word)
            found += [(text, n) for text in texts]
        if draw.random() < 0.3:
            draw.shuffle(found)
        if not found:
            found = [(self.word(), draw.randrange(len(words)))]
            self.needed.append(found[0][0])
        joints = [draw.choice((" ",) * 9 + ("\u00a0", "\u202f")) for _ in found]
        tokens, rows, text = [], [], ""
        for (word, source), drawn_joint in zip(found, joints, strict=True):
            joint = " " if text[-1:].isdigit() and word[:1].isdigit() else drawn_joint  # else a single number
            text += (joint if text else "") + word
            for n, piece in enumerate(self._pieces(word)):
                tokens.append(("▁" if joint == " " or not tokens else joint if n == 0 else "") * (n == 0) + piece)
                rows.append(source)
        read = [
            (("▁" if k == 0 else "") + piece, n) for n, w in enumerate(words) for k, piece in enumerate(self._pieces(w))
        ]
        attention = np.full((len(tokens) + 1, len(read) + 1), 0.01)
        for t, source in enumerate(rows):
            own = [n for n, (_, word) in enumerate(read) if word == source]
            attention[t, own] = 0.9 / len(own)
        attention[-1, -1] = 1.0
        detail = Detail([*tokens, "</s>"], [0.0] * (len(tokens) + 1), [piece for piece, _ in read], attention, [], [])
        return Translation(text, 0.0, 0.0, None if self._is_blind else detail)

    def _pieces(self, word: str) -> list[str]:
        cuts = (
            sorted(self._draw.sample(range(1, len(word)), min(len(word) - 1, self._draw.randint(0, 2)))) if word else []
        )
        return [word[a:b] for a, b in zip([0, *cuts], [*cuts, len(word)], strict=True)]

    def _translated(self, word: str) -> list[str]:
        """Return what becomes of a word that the model reads."""
        draw = self._draw
        core = word.strip(".,!?()")
        item = self._items.get(core)
        if item is None:
            if any(one in word for one in self._items if self._items[one].kind != "word"):
                return [word] if draw.random() < 0.7 else [self.word()]  # a part of a placeholder, or one within a word
            new = [self.word() for _ in range(draw.choice((1, 1, 1, 1, 2, 0)))]
            self.needed += new
            return [one + word[len(word.rstrip(".,!?")) :] for one in new]
        if item.kind == "number":
            return self._number(word, core)
        fate = draw.choice(("copy", "copy", "copy", "lose", "repeat", "garble", "case"))
        if fate == "copy" or item.kind == "symbol" and fate == "case":
            return [word]
        if fate == "lose":
            return []
        if fate == "repeat":
            return [word, word]
        return ["".join(filter(str.isalpha, core)) + "xx" if fate == "garble" else word.swapcase()]

    def _number(self, word: str, core: str) -> list[str]:
        draw = self._draw
        fate = draw.choice(("copy", "copy", "form", "form", "wrong", "word", "lose"))
        if fate == "lose":
            return []
        if fate == "word":
            new = self.word()
            self.needed.append(new)
            return [new]
        if fate == "wrong" and self._is_blind:
            fate = "copy"
        if fate == "wrong":
            new = draw.choice(WRONG)
            if new not in self.banned:
                self.banned.append(new)
                self.needed.append(core)
                return [word.replace(core, new)]
            fate = "copy"
        new = core if fate == "copy" else draw.choice(NUMBERS[core])
        self.needed.append(new)
        return [word.replace(core, new)]


def drawn(draw: random.Random) -> tuple[Case, Translator]:
    """Return a case and its translator."""
    markup = draw.choice(("text", "html", "html", "xml"))
    pools = {"argument": ARGUMENTS, "address": ADDRESSES, "symbol": SYMBOLS, "number": list(NUMBERS)}
    items: dict[str, Item] = {}
    words: list[str] = []
    spaced = draw.random() < 0.8
    used: set[str] = set()
    for _ in range(draw.randint(1, 9)):
        kind = draw.choice(("word",) * 5 + ("argument", "argument", "number", "symbol", "address"))
        if kind == "word":
            words.append(draw.choice(SPACED if spaced else UNSPACED))
            continue
        text = draw.choice([one for one in pools[kind] if kind != "number" or one not in used] or ["%d"])
        kind = kind if text in pools[kind] else "argument"
        text = text.replace("_", " ") if kind == "argument" and not text.startswith("__") else text
        used.add(text)
        items[text] = Item(kind, text)
        words.append(text)
    case = Case("", markup)
    for text, item in items.items():
        if item.kind in ("argument", "address"):
            case.counts[text] = words.count(text)
        elif item.kind == "symbol":
            case.least[text] = words.count(text)
    # Texts within others, as written and as escaped, would be counted twice.
    case.counts = {a: n for a, n in case.counts.items() if not any(a != b and a in b for b in items)}
    tags: list[str] = [html.escape(one, quote=False) if markup != "text" else one for one in words]
    if markup != "text":
        for name in draw.sample(("b", "i", "u"), draw.randint(0, 3)):
            low, high = sorted(draw.sample(range(len(tags) + 1), 2))
            tags[low:high] = [f"<{name}>" + " ".join(tags[low:high]) + f"</{name}>"]
    lines = "".join(
        ("" if n == 0 else draw.choice((" ",) * 8 + ("\u00a0",) + (("\t", "\n\n") if markup == "text" else ()))) + one
        for n, one in enumerate(tags)
    )
    lines = re.sub("(?<=[0-9])\u00a0(?=(?:<[biu]>)*[0-9])", " ", lines)  # else a single number
    case.text = draw.choice(("", "  ", "\n")) + lines + draw.choice(("", ".", "!", " ", "\n"))
    return case, Translator(draw, items)


def plain(text: str, markup: str) -> str:
    """Return a text without its tags."""
    if markup == "text":
        return text
    return html.unescape(re.sub("</?[biu]>", "", text))


def spaced(text: str) -> str:
    """Return a text with plain spaces."""
    return re.sub("[\u00a0\u2007\u202f]", " ", text)


def broken(case: Case, translator: Translator) -> list[str]:
    """Return the rules that a translation of the case breaks."""
    passage = read_passage(case.text, case.markup)
    found = []
    if passage.source != case.text:
        found.append("source")
    if passage.joined([Translation(one.asked, 0.0, 0.0) for one in passage.sentences]) != case.text:
        found.append("identity")
    answers = [translator.translate(one.asked) for one in passage.sentences]
    out = passage.joined(answers)
    case.answers, case.translation = [one.text for one in answers], out
    if case.markup != "text":
        tags = [re.findall("</?[biu]>", text) for text in (case.text, out)]
        if sorted(tags[0]) != sorted(tags[1]):
            found.append("tags")
        opened: list[str] = []
        for tag in tags[1]:
            if tag.startswith("</"):
                if not opened or opened.pop() != tag[2:-1]:
                    found.append("nesting")
                    break
            else:
                opened.append(tag[1:-1])
    text = spaced(plain(out, case.markup))
    if "%1$s" not in text:  # arguments that have changed their order have numbers
        text = re.sub(r"%\d\$", "%", text)
    found += [f"{one!r} {text.count(one)} of {n}" for one, n in case.counts.items() if text.count(one) != n]
    found += [f"{one!r} {text.count(one)} of {n}" for one, n in case.least.items() if text.count(one) < n]
    found += [f"lost {one!r}" for one in translator.needed if spaced(one) not in text]
    found += [
        f"kept {one!r}" for one in translator.banned if re.search(rf"(?<![\d.,]){re.escape(one)}(?![\d.,]*\d)", text)
    ]
    rest = [part for part in passage.parts if isinstance(part, str)]
    at = 0
    for part in rest:
        at = out.find(part, at)
        if at < 0:
            found.append(f"changed {part!r}")
            break
        at += len(part)
    if [re.match(r"\s*", one)[0] for one in re.split(r"[\t\n]", case.text)] != [
        re.match(r"\s*", one)[0] for one in re.split(r"[\t\n]", out)
    ] and case.markup == "text":
        found.append("white space")
    return found


def tried(seed: int, number: int) -> tuple[Case, list[str]]:
    """Return a case, and the rules that its translation breaks."""
    case, translator = drawn(random.Random(f"{seed} {number}"))
    return case, broken(case, translator)


def main() -> None:
    """Try cases until the time is over."""
    seed, seconds = int(sys.argv[1]), float(sys.argv[2])
    start, number, wrong = time.monotonic(), 0, 0
    while time.monotonic() - start < seconds:
        case, found = tried(seed, number)
        wrong += bool(found)
        if found and wrong <= _SHOWN:
            print(f"case {number}: {found}\n  {case.text!r}\n  {case.answers}\n  {case.translation!r}")
        number += 1
    print(f"{number:,} texts, {wrong:,} break a rule")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
