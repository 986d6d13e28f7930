"""Random texts with random markup by random translators, and what must hold of each translation.

    python -m tests.documents.random_texts SEED SECONDS

Tags and placeholders come out once and nested as before, numbers denote the source's, text without letters stays, no
word of the translator is lost, white space and the syntax of messages stay. Prints the first cases that break a rule,
and how many there were."""

import html
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from pyicumessageformat import Parser

from nmt.documents.tagged_text import read_passage
from nmt.inference.translation import Detail, Translation

SPACED = (
    "the train leaves über straße été naïve Поезд отходит 기차가 떠난다 القطار يغادر don't well-known"
    " \u200fהמחיר שלום\u200e (left) “right” price: - /"
).split()
UNSPACED = "電車 は 出る 火车 离开 รถไฟ ออก ファイル を、 保存。 「中」".split()
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


TAGS = re.compile(r"<[^<>]*>")
ELEMENTS = ("<b>", "<i>", "<u>", '<a href="q?a=1&amp;b=2">', "<span class='c'>")
SINGLES = ("<br/>", '<img src="p.png"/>', "<!-- c -->", "<code>x y</code>", "<sup>[7]</sup>")
WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)})
SIGNS = str.maketrans(".,!?", "。，！？")


class Translator:
    """Translates words one by one, as drawn: it copies, loses, repeats, garbles and moves them, and phrases."""

    def __init__(self, draw: random.Random, items: dict[str, Item]) -> None:
        self._draw, self._items = draw, items
        self._made = 0
        self._is_blind = False  # it tells no alignment
        self._is_wrong = False  # its alignment is wrong here and there
        self._has_spaces = draw.random() < 0.8
        self._least = draw.choice((0,) * 8 + (2, 3))  # the words that it drops: each of so many
        self.needed: Counter[str] = Counter()
        self.banned: list[str] = []

    def word(self) -> str:
        """Return a word that occurs once."""
        self._made += 1
        digits = [int(d, 26) for d in np.base_repr(self._made, 26)]
        if not self._has_spaces:
            return "始" + "".join(chr(0x4E8C + d) for d in digits) + "終"
        return "q" + "".join(chr(ord("a") + d) for d in digits) + self._draw.choice(("j",) * 20 + ("'j", "-j", "&j"))

    def _need(self, text: str) -> str:
        self.needed[text] += 1
        return text

    def translate(self, asked: str) -> Translation:
        """Return a translation with its alignment."""
        draw = self._draw
        self._is_blind = draw.random() < 0.1
        self._is_wrong = draw.random() < 0.1
        words = self._divided(asked)
        found: list[tuple[str, int]] = []
        spaced = [m for one in self._items if " " in one for m in re.finditer(re.escape(one), asked)]
        inside = {at for m in spaced for at in range(*m.span())}
        at = 0
        for n, word in enumerate(words):
            at = asked.index(word, at)
            is_part = at in inside or at + len(word) - 1 in inside
            at += len(word)
            if self._least and n % self._least == self._least - 1:
                continue
            part = draw.choice((word, word.swapcase(), "xx")) if self._has_spaces else "xx"
            texts = [part] if is_part else self._translated(word)
            found += [(text, n) for text in texts]
        if draw.random() < 0.3:
            draw.shuffle(found)
        if not found:
            found = [(self.word(), draw.randrange(len(words)))]
            self.needed[found[0][0]] += not self._is_wrong
        if draw.random() < 0.05 and not self.banned:  # a phrase twice
            low, high = sorted((draw.randrange(len(found)), draw.randrange(len(found))))
            found[high:high] = found[low:high]
        text, tokens, rows = "", [], []
        for word, source in found:
            joint = self._joint(text[-1:], word[:1]) if text else ""
            text += joint + word
            for n, piece in enumerate(self._pieces(word)):
                tokens.append(("▁" if joint == " " or not tokens else joint if n == 0 else "") * (n == 0) + piece)
                rows.append(draw.randrange(len(words)) if self._is_wrong and draw.random() < 0.3 else source)
        read, end = [], 0
        for n, word in enumerate(words):
            start = asked.index(word, end)
            read += [
                ("▁" * (k == 0 and (not n or start > end)) + piece, n) for k, piece in enumerate(self._pieces(word))
            ]
            end = start + len(word)
        attention = np.full((len(tokens) + 1, len(read) + 1), 0.01)
        for t, source in enumerate(rows):
            own = [n for n, (_, word) in enumerate(read) if word == source]
            attention[t, own] = 0.9 / len(own)
        attention[-1, -1] = 1.0
        detail = Detail([*tokens, "</s>"], [0.0] * (len(tokens) + 1), [piece for piece, _ in read], attention, [], [])
        return Translation(text, 0.0, 0.0, None if self._is_blind else detail)

    def _divided(self, asked: str) -> list[str]:
        """Return the words of a text; in scripts without spaces a placeholder is one."""
        glued = [one for one in self._items if " " not in one and self._items[one].kind != "number"]
        found = []
        for word in re.split(" +", asked.strip(" ")):
            one = next((one for one in sorted(glued, key=len, reverse=True) if one in word), None)
            parts = word.partition(one) if one and any(c >= "\u0e00" for c in word.replace(one, "")) else (word,)
            found += [part for part in parts if part]
        return found

    def _joint(self, before: str, after: str) -> str:
        if not self._has_spaces and ("終" in before + after or "始" in before + after):
            return ""
        if before.isdigit() and after.isdigit():
            return " "  # else a single number
        return self._draw.choice((" ",) * 9 + ("\u00a0", "\u202f"))

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
            if not any(map(str.isalpha, word)):
                return [word]
            new = [self.word() for _ in range(draw.choice((1, 1, 1, 1, 2, 0)))]
            if not (self._is_wrong or (self._is_blind and not self._has_spaces)):
                self.needed.update(new)
            end = word[len(word.rstrip(".,!?")) :]
            return [one + (end if self._has_spaces else end.translate(SIGNS)) for one in new]
        if item.kind == "number":
            return self._number(word, core)
        fate = draw.choice(("copy", "copy", "copy", "lose", "repeat", "garble", "case", "wide"))
        if fate == "copy" or item.kind == "symbol" and fate in ("case", "wide"):
            return [word]
        if fate == "lose":
            return []
        if fate == "repeat":
            return [word, word]
        if fate == "wide":
            return [word.translate(WIDE)]
        return ["".join(filter(str.isalpha, core)) + "xx" if fate == "garble" else word.swapcase()]

    def _number(self, word: str, core: str) -> list[str]:
        draw = self._draw
        fate = draw.choice(("copy", "copy", "form", "form", "wrong", "word", "lose"))
        if fate == "lose":
            return []
        if fate == "word" and not self._is_wrong:
            return [self._need(self.word())]
        if fate == "wrong" and not (self._is_blind or self._is_wrong):
            new = draw.choice(WRONG)
            if new not in self.banned:
                self.banned.append(new)
                self._need(core)
                return [word.replace(core, new)]
        new = draw.choice(NUMBERS[core]) if fate == "form" else core
        if not (self._is_wrong and " " in new):
            self._need(new)
        return [word.replace(core, new)]


def drawn(draw: random.Random) -> tuple[Case, Translator]:
    """Return a case and its translator."""
    markup = draw.choice(("text", "html", "html", "xml", "message"))
    arguments = ("{0}", "{name}", "%d", "%1$s") if markup == "message" else ARGUMENTS
    pools = {"argument": arguments, "address": ADDRESSES, "symbol": SYMBOLS, "number": list(NUMBERS)}
    items: dict[str, Item] = {}
    words: list[str] = []
    spaced = draw.random() < 0.7
    for _ in range(draw.randint(1, 9)):
        kind = draw.choice(("word",) * 5 + ("argument", "argument", "number", "symbol", "address"))
        if kind == "word":
            words.append(draw.choice(SPACED if spaced else UNSPACED))
            continue
        text = draw.choice(pools[kind])
        is_twice = text in words and set(text) & set(":-") or text.count(".") > 1  # its parts may be either's
        if kind == "number" and (is_twice or text in ("¾", "600,000") and words and words[-1] in NUMBERS):
            text = "18"  # else a single number
        text = text.replace("_", " ") if kind == "argument" and not text.startswith("__") else text
        items[text] = Item(kind, text)
        if kind == "argument" and not spaced and " " not in text and draw.random() < 0.5:
            text = draw.choice(UNSPACED) + text + draw.choice(UNSPACED)
        words.append(text)
    case = Case("", markup)
    for text, item in items.items():
        count = sum(word.count(text) for word in words)
        if item.kind in ("argument", "address"):
            case.counts[text] = count
        elif item.kind == "symbol":
            case.least[text] = count
    # Texts within others, as written and as escaped, would be counted twice.
    case.counts = {a: n for a, n in case.counts.items() if not any(a != b and a in b for b in items)}
    has_tags = markup in ("html", "xml")
    pieces = [html.escape(one, quote=False) if has_tags else one for one in words]
    if has_tags:
        for element in draw.sample(ELEMENTS, draw.randint(0, 4)):
            low, high = sorted(draw.sample(range(len(pieces) + 1), 2))
            end = f"</{re.match('<([a-z]+)', element)[1]}>"
            pieces[low:high] = [element + " ".join(pieces[low:high]) + end] if low < high else []
        for single in draw.sample(SINGLES, draw.choice((0, 0, 1, 2))):
            at = draw.randrange(len(pieces))
            pieces[at] = pieces[at] + single if draw.random() < 0.5 else single + " " + pieces[at]
    elif draw.random() < 0.2:
        pieces[0] = draw.choice(("- ", "• ", "1. ")) + pieces[0]
    breaks = ("\t", "\n\n", "\n- ") if not has_tags else ()
    if markup == "message":
        cuts = sorted(draw.randint(0, len(pieces)) for _ in range(3))
        runs = [" ".join(pieces[a:b]) for a, b in zip((0, *cuts), (*cuts, len(pieces)), strict=True)]
        pieces = [f"{runs[0]} {{n, plural, =0 {{{runs[1]}}} one {{# {runs[2]}}} other {{{runs[3]} #}}}}"]
    lines = "".join(
        ("" if n == 0 else draw.choice((" ",) * 8 + ("\u00a0", *breaks))) + one for n, one in enumerate(pieces)
    )
    lines = re.sub("(?<=[0-9])\u00a0(?=(?:<[^<>]*>)*[0-9])", " ", lines)  # else a single number
    case.text = draw.choice(("", "  ", "\n")) + lines + draw.choice(("", ".", "!", " ", "\n"))
    return case, Translator(draw, items)


def plain(text: str, markup: str) -> str:
    """Return a text without its tags."""
    if markup in ("text", "message"):
        return text
    return html.unescape(TAGS.sub("", text.replace("<code>x y</code>", "").replace("<sup>[7]</sup>", "")))


def spaced(text: str) -> str:
    """Return a text with plain spaces."""
    return re.sub("[\u00a0\u2007\u202f]", " ", text)


def syntax(text: str) -> list[str]:
    """Return the pieces of messages in any order, but for spaces and texts; raises SyntaxError."""
    found: list[dict[str, str]] = []
    Parser({"require_other": False}).parse(text, found)
    return sorted(f"{one['type']} {one['text']}" for one in found if one["type"] not in ("text", "space"))


def broken(case: Case, translator: Translator) -> list[str]:
    """Return the rules that a translation of the case breaks."""
    passage = read_passage(case.text, "text" if case.markup == "message" else case.markup)
    found = []
    if passage.source != case.text:
        found.append("source")
    if passage.joined([Translation(one.asked, 0.0, 0.0) for one in passage.sentences]) != case.text:
        found.append("identity")
    answers = [translator.translate(one.asked) for one in passage.sentences]
    out = passage.joined(answers)
    case.answers, case.translation = [one.text for one in answers], out
    if case.markup == "message":
        try:
            same = syntax(out) == syntax(case.text)
        except SyntaxError as error:
            found.append(f"syntax: {error}")
        else:
            found += [] if same else ["syntax"]
    elif case.markup != "text":
        tags = [TAGS.findall(text) for text in (case.text, out)]
        if sorted(tags[0]) != sorted(tags[1]):
            found.append("tags")
        opened: list[str] = []
        for tag in tags[1]:
            if tag.startswith("</"):
                if not opened or opened.pop() != tag[2:-1]:
                    found.append("nesting")
                    break
            elif not tag.endswith(("/>", "-->")):
                opened.append(re.match("<([a-z]+)", tag)[1])
    text = spaced(plain(out, case.markup))
    if "%1$s" not in text:  # arguments that have changed their order have numbers
        text = re.sub(r"%\d\$", "%", text)
    unnumbered = re.sub(r"%\d\$", "%", text)  # arguments in another order are numbered
    found += [
        f"{one!r} {text.count(one)} of {n}"
        for one, n in case.counts.items()
        if n not in (text.count(one), unnumbered.count(one))
    ]
    found += [f"{one!r} {text.count(one)} of {n}" for one, n in case.least.items() if text.count(one) < n]
    text = text.replace("’", "'") if case.markup == "message" else text
    kept = "|".join(re.escape(one) for one in (*case.counts, *case.least))
    bare = re.sub(rf"\s|{kept}" if kept else r"\s", "", text)  # words of scripts without spaces may be divided
    found += [
        f"lost {one!r}"
        for one, n in translator.needed.items()
        if (bare if one[0] == "始" else text).count(spaced(one)) < n
    ]
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
    """Return a case, and the rules that its translation breaks; each fifth is Markdown."""
    from tests.documents import random_markdown  # which imports this module

    module = random_markdown if number % 5 == 4 else sys.modules[__name__]
    case, translator = module.drawn(random.Random(f"{seed} {number}"))
    return case, module.broken(case, translator)


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
