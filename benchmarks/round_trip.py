"""Do documents of real projects survive translators of which each does what models do?

    python benchmarks/round_trip.py FOLDER...

Takes all files below the folders whose names end as nmt-translate knows them; targets of PO and XLIFF are emptied. A
translator that changes nothing must keep every byte. Others swap the case of letters, with the words in order,
backward or shuffled; the last puts no-break spaces between words, writes numbers with other separators and drops every
seventh word. Then tags must be as many and nested as before, placeholders and addresses there once, numbers equal in
value, no letters or signs lost but those of dropped words, and the file must be read again with these texts.
Prints what fails, and a table.
"""

from __future__ import annotations

import argparse
import html
import io
import random
import re
import shutil
import subprocess
import zipfile
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from nmt.documents.document import read_document
from nmt.documents.forms import format_of
from nmt.documents.passage import Sentence
from nmt.errors import NMTError
from nmt.inference.translation import Detail, Translation

_SPLIT = re.compile("w:(?:r|t|rPr|proofErr|lastRenderedPageBreak|softHyphen|noBreakHyphen)")
"""Elements of DOCX and PPTX of which there may be more or fewer: runs are split where words go."""
_PLACEHOLDER = re.compile(
    r"https?://[^\s<>\"]*[\w/]|[\w.+-]+@\w[\w-]*(?:\.[\w-]+)+|%\(\w+\)[a-zA-Z]|%\d\$[sd]|%[sd](?!\w)|\{\{ ?\w+ ?\}\}"
    r"|(?<!\{)\{\w*\}|\$\{\w+\}"
)
_FIGURE = re.compile(r"\d+(?:[.,\u202f]\d+)*")
_NUMBER = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+)(?![.,]?\w)")
_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
_XML = (".xml", "html", ".htm", ".opf", ".ncx")


def elsewhere(number: str) -> str:
    """A number with the separators of another country."""
    return number.translate(str.maketrans(",.", ".," if len(number) % 2 else "\u202f,"))


def dropped(words: list[str]) -> list[str]:
    """The words that the last translator drops."""
    return words[6::7]


def units(text: str) -> list[str]:
    """The words of a text, with templates such as `{{ name }}` whole."""
    return re.findall(r"(?:\{[{%#][^{}]*[}%#]\}|\S)+", text)


def translation(words: list[str], order: list[int], space: str = " ") -> Translation:
    """Words of a sentence as its translation, in an order, each aligned to itself."""
    attention = np.eye(len(words) + 1, dtype=np.float32)
    attention += 0.3 * np.eye(len(words) + 1, k=1, dtype=np.float32)  # a little to the next word, which may be dropped
    attention = attention[[*order, len(words)]]
    new = [_NUMBER.sub(lambda m: elsewhere(m[0]), words[n]) if space != " " else words[n].swapcase() for n in order]
    tokens = [*(f"\u2581{word}" for word in new), "</s>"]
    detail = Detail(tokens, [0.0] * len(tokens), [f"\u2581{word}" for word in words], attention, [], [])
    return Translation(space.join(new), 0.0, 0.0, detail)


def altered(words: list[str]) -> Translation:
    return translation(words, [n for n in range(len(words)) if n % 7 != 6], "\u00a0")


TRANSLATORS: dict[str, Callable[[str], Translation]] = {
    "forward": lambda text: translation(text.split(), [*range(len(text.split()))]),
    "backward": lambda text: translation(own := units(text), [*range(len(own))][::-1]),
    "shuffled": lambda text: translation(own := units(text), random.Random(len(own)).sample(range(len(own)), len(own))),
    "altered": lambda text: altered(text.split()),
}


def signs(text: str) -> Counter[str]:
    """The letters and signs of a text, without case, and without what languages write otherwise."""
    return Counter(
        c
        for c in text.replace("\u0131", "i").casefold()
        if not (c.isspace() or c.isdigit() or c in ".,'\u2019\\\u00ad")
    )


def sentence_faults(one: Sentence, new: str, is_altered: bool) -> list[str]:
    """What is wrong with a sentence's translation."""
    found, head, tail = [], one.before + one.head, one.tail + one.after
    if not (new.startswith(head) and new.endswith(tail)):
        found.append("what is around the sentence has changed")
    body, raw = new[len(head) : len(new) - len(tail)], one.raw
    for mark in sorted({mark.raw for mark in one.marks}, key=len, reverse=True):
        if body.count(mark) != raw.count(mark) and any(map(str.isalnum, mark)):
            found.append(f"tag {mark!r} is there {body.count(mark)} times, not {raw.count(mark)}")
        body, raw = body.replace(mark, ""), raw.replace(mark, "")
    if "&" in map(chr, one.escape):
        body, raw = html.unescape(body), html.unescape(raw)
    if "$" not in raw:  # arguments that have changed their order have numbers
        body = re.sub(r"%\d\$", "%", body)
    words = one.asked.split()
    lost = " ".join(dropped(words)) if is_altered else ""
    ours, theirs = signs(raw), signs(body)
    if theirs - ours or (ours - theirs) - signs(lost):
        found.append(f"signs: lost {dict(ours - theirs - signs(lost))}, more {dict(theirs - ours)}")
    if (own := Counter(_PLACEHOLDER.findall(one.written))) != (other := Counter(_PLACEHOLDER.findall(body))):
        found.append(f"placeholders: lost {dict(own - other)}, more {dict(other - own)}")
    own, other = Counter(_FIGURE.findall(one.written)), Counter(_FIGURE.findall(body))
    gone, more = own - other, other - own
    for figure in [*gone.elements()] if is_altered else ():
        if more[(changed := elsewhere(figure) if _NUMBER.fullmatch(figure) else figure)]:
            gone, more = gone - Counter([figure]), more - Counter([changed])
    if more or gone - Counter(_FIGURE.findall(lost)):
        found.append(f"number: lost {dict(gone)}, more {dict(more)}")
    return [f"{one_fault}: {one.raw!r} is {new!r}" for one_fault in found]


class _Nesting(HTMLParser):
    """Counts tags, and end tags that close no innermost element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.crossing, self._open = 0, [""]
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.counts[tag] += 1
        self._open += [tag] * (tag not in _VOID)

    def handle_endtag(self, tag: str) -> None:
        self.counts[f"/{tag}"] += 1
        if self._open[-1] == tag:
            self._open.pop()
        elif tag in self._open:
            self.crossing += 1
            while self._open.pop() != tag:
                pass


def structure(content: bytes, form: str) -> list[object]:
    """What must be the same whatever the words; raises ParseError where XML is not well-formed."""
    if form in ("docx", "pptx", "odt", "ods", "odp", "epub"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = [(name, archive.read(name)) for name in archive.namelist()]
        return [(name, structure(text, "xml") if name.endswith(_XML) else text) for name, text in parts if text]
    if form in ("xml", "xliff"):
        names = Counter(re.sub(r"\{.*/(?:wordprocessingml|drawingml)/.*\}", "w:", name) for name in names_of(content))
        return [{name: n for name, n in names.items() if not _SPLIT.fullmatch(name)}, letterless(content.decode())]
    text = content.decode()
    if form == "markdown":
        from markdown_it import MarkdownIt

        text = MarkdownIt("commonmark").enable("table").render(text.replace("\u00a0", " "))
    if form in ("markdown", "html"):
        page = _Nesting(text)
        emphasis = ("em", "/em", "strong", "/strong") if form == "markdown" else ()  # goes where its words are dropped
        stars = len(re.findall(r"(?<!\S)[*_]+(?!\S)|\*\*", re.sub("<[^>]*>", "", text))) * (form == "markdown")
        counts = {name: count for name, count in page.counts.items() if name not in emphasis}
        return [counts, page.crossing, letterless(text), stars]
    if form == "po":
        if shutil.which("msgfmt"):
            command = ["msgfmt", "--check-format", "--use-fuzzy", "-o", "/dev/null", "-"]
            result = subprocess.run(command, input=content, capture_output=True, check=False)
            return [result.returncode, len(re.findall("error", result.stderr.decode()))]
        return [text.count("\nmsgid "), text.count("\nmsgstr")]
    return [line for line in text.splitlines() if "-->" in line]


def names_of(content: bytes) -> list[str]:
    """The names of the elements of XML, but for those of how a run looks."""
    found, waiting = [], [ElementTree.fromstring(content)]
    while waiting:
        one = waiting.pop()
        if not str(one.tag).endswith("}rPr"):
            found.append(str(one.tag))
            waiting += one
    return found


def letterless(text: str) -> Counter[str]:
    """The contents without letters of elements that contain text alone."""
    found = re.findall(r"<([\w:-]+)(?: [^<>]*)?>([^<]*)</\1>", text)
    blocks = [part for name, part in found if name in ("p", "td", "th", "li", "dd", "dt", "text:p", "source", "script")]
    return Counter(part for part in blocks if part.strip() and not any(map(str.isalpha, html.unescape(part))))


def emptied(content: bytes, form: str) -> bytes:
    """A file without translations."""
    if form == "po":
        lines = [one.replace(b", fuzzy", b"") for one in content.splitlines() if not one.startswith((b"#~", b"#|"))]
        header, gap, rest = b"\n".join([*lines, b""]).partition(b"\n\n")
        empty = rb'\nmsgstr(\[\d\])?[^\n]*(?:\n"[^\n]*)*'
        return header + gap + re.sub(empty, lambda m: b"\nmsgstr" + (m[1] or b"") + b' ""', b"\n" + rest)
    if form == "xliff":
        return re.sub(rb"\s*<(\w+:)?target\b[^>]*?(?:/>|>.*?</(\w+:)?target>)", b"", content, flags=re.DOTALL)
    return content


def squeezed(texts: list[str]) -> Counter[str]:
    """The signs of texts without white space, escapes, emphasis, numbers of marks, and dashes of speakers."""
    return Counter(re.sub("[\x02\x04]\\d+\x03|[\\s\\\\*_-]", "", html.unescape("".join(texts))))


_ANSWERS: dict[tuple[object, ...], tuple[str, list[str]]] = {}


def answer(name: str, one: Sentence, found: list[str]) -> str:
    """A translated sentence, whose faults are added to those found."""
    key = (name, type(one), one.before, one.raw, one.after, one.marks, one.glued, str(one.escape))
    if key not in _ANSWERS:
        new = one.translated(TRANSLATORS[name](one.asked))
        _ANSWERS[key] = new, sentence_faults(one, new, name == "altered")
    found += [f"{name}: {what}" for what in _ANSWERS[key][1]]
    return _ANSWERS[key][0]


def faults(path: Path, form: str) -> list[str]:
    """What is wrong with a file's round trips. Raises NMTError for one that cannot be read."""
    content = path.read_bytes()
    read_document(content, form, path.name)
    content = emptied(content, form)
    document = read_document(content, form, path.name)
    found = []
    kept = document.write([p.joined([Translation(s.asked, 0.0, 0.0) for s in p.sentences]) for p in document.passages])
    if form not in ("po", "xliff") and kept != content:
        found.append("same: a byte has changed")
    before = structure(kept, form)
    for name in TRANSLATORS:
        texts = []
        for passage in document.passages:
            parts = [part if isinstance(part, str) else answer(name, part, found) for part in passage.parts]
            texts.append("".join(parts))
        written = document.write(texts)
        try:
            after = structure(written, form)
        except ElementTree.ParseError as error:
            found.append(f"{name}: not well-formed: {error}")
            continue
        if after != before:
            pair = next((a, b) for a, b in zip(before, after, strict=False) if a != b)
            found.append(f"{name}: structure: {str(pair)[:600]}")
        again = read_document(written, form, path.name)
        if form in ("po", "xliff"):
            if any(passage.sentences for passage in again.passages) and form == "xliff":
                found.append(f"{name}: a target is still empty")
        elif (new := squeezed(texts)) != (read := squeezed([p.source for p in again.passages])):
            found.append(f"{name}: the file has other texts: lost {dict(new - read)}, more {dict(read - new)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--form", help="of these files alone")
    counts: dict[str, Counter[str]] = {}
    given = parser.parse_args()
    for path in sorted(one for folder in given.folders for one in folder.rglob("*") if one.is_file()):
        try:
            form = format_of(path.name)
        except NMTError:
            continue
        if form == "text" or (given.form and form != given.form):
            continue
        count = counts.setdefault(form, Counter())
        try:
            wrong = faults(path, form)
        except NMTError as error:
            count["refused"] += 1
            print(f"refused: {path}: {error}", flush=True)
            continue
        except Exception as error:  # noqa: BLE001 - a fault of the reader, which is what is looked for
            wrong = [f"{type(error).__name__}: {error}"]
        count["wrong" if wrong else "right"] += 1
        count["numbers"] += sum("number:" in what for what in wrong)
        for what in wrong:
            print(f"wrong: {path}: {what}", flush=True)
    print("| format | files | right | wrong | refused | sentences with a wrong number |\n" + "|---" * 6 + "|")
    for form, count in sorted(counts.items()):
        total = count["right"] + count["wrong"] + count["refused"]
        print(f"| {form} | {total} | {count['right']} | {count['wrong']} | {count['refused']} | {count['numbers']} |")


if __name__ == "__main__":
    main()
