"""Do documents of real projects survive a translator that changes nothing, and one that changes every word?

    python benchmarks/round_trip.py FOLDER...

Takes all files below the folders whose names end as nmt-translate knows them. First each sentence is translated to
itself: every byte must stay, but for the targets of PO and XLIFF that were empty. Then the case of each letter is
swapped and each word aligned to itself: but for case and white space, tags, entities and texts must be where they were.
Prints files that fail, and a table.
"""

from __future__ import annotations

import argparse
import html
import io
import re
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

from nmt.documents.document import Document, format_of, read_document
from nmt.documents.passage import Sentence
from nmt.errors import NMTError
from nmt.inference.translation import Detail, Translation

_KEPT = r"(?!(?:w|a):(?:r|t|proofErr|lastRenderedPageBreak|softHyphen|noBreakHyphen)\b)[\w:]+"
"""Names of elements in DOCX and PPTX of which there must be as many as before: runs are split where words with other
formatting go."""


def same(sentence: Sentence) -> Translation:
    """A sentence as its own translation."""
    return Translation(sentence.asked, 0.0, 0.0)


def swapped(sentence: Sentence) -> Translation:
    """A sentence whose words have small letters for capitals and the other way round, each from its own word."""
    words = sentence.asked.split()
    attention = np.eye(len(words) + 1, dtype=np.float32)
    tokens = [f"\u2581{word.swapcase()}" for word in words] + ["</s>"]
    detail = Detail(tokens, [0.0] * len(tokens), [f"\u2581{word}" for word in words], attention, [], [])
    return Translation(" ".join(word.swapcase() for word in words), 0.0, 0.0, detail)


def through(document: Document, translate) -> bytes:  # type: ignore[no-untyped-def]
    return document.write([p.joined([translate(s) for s in p.sentences]) for p in document.passages])


def without_targets(content: bytes, form: str) -> bytes:
    """A file without what a translation may change in it."""
    if form == "po":
        lines = [b"", *(line for line in content.splitlines() if line.strip() not in (b"", b'msgid ""'))]
        lines = [line for line in lines if not line.startswith((b"#,", b"#~"))]
        return re.sub(rb"\nmsgstr[^\n]*(?:\n\"[^\n]*)*", b"", b"\n".join([*lines, b""]))
    if form == "xliff":
        found = re.sub(rb"\s*<(\w+:)?target\b[^>]*?(?:/>|>.*?</(\w+:)?target>)", b"", content, flags=re.DOTALL)
        return re.sub(rb' (?:state|trgLang|target-language)="[^"]*"', b"", found)
    return content


def bare(content: bytes, form: str) -> list[str]:
    """What must be the same whatever the case of words."""
    if form == "markdown":  # as a page: some characters of a changed sentence are escaped
        from markdown_it import MarkdownIt

        content = MarkdownIt("commonmark").enable("table").render(content.decode()).encode()
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return ["".join(html.unescape(content.decode()).split()).casefold()]
    found = []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(archive.namelist()):
            text = archive.read(name)
            if not name.endswith((".xml", "html", ".htm", ".opf", ".ncx")):
                found.append(f"{name} {hash(text)}")
                continue
            whole = text.decode()
            if not name.startswith(("word/", "ppt/")):
                found.append("".join(html.unescape(whole).split()).casefold())
                continue
            for paragraph in re.split(r"</[aw]:p>", whole):
                texts = "".join(re.findall(r"<[aw]:t(?: [^>]*)?>([^<]*)", paragraph))
                found.append("".join(html.unescape(texts).split()).casefold())
            whole = re.sub(r"<([aw]):rPr\b[^>]*/>|<([aw]):rPr\b[^>]*>.*?</[aw]:rPr>", "", whole, flags=re.DOTALL)
            found.append(str(sorted(Counter(re.findall(f"<{_KEPT}", whole)).items())))
    return found


def fault(path: Path, form: str) -> str | None:
    """What is wrong with a file's round trip; None where nothing is. Raises NMTError for one that cannot be read."""
    content = path.read_bytes()
    document = read_document(content, form, path.name)
    found = through(document, same)
    if without_targets(found, form) != without_targets(content, form):
        return "a translator that changes nothing has changed it"
    if form in ("po", "xliff"):
        rest = read_document(found, form, path.name).passages
        if form == "xliff" and any(passage.sentences for passage in rest):
            return "a target is still empty"
        return None
    for one, other in zip(bare(content, form), bare(through(document, swapped), form), strict=True):
        if one != other:
            at = next(
                (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
            )
            return f"what is around words: {one[at - 30 : at + 30]!r} is {other[at - 30 : at + 30]!r}"
    return None


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
            wrong = fault(path, form)
        except NMTError as error:
            count["refused"] += 1
            print(f"rejected: {path}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - a fault of the reader, which is what is looked for
            wrong = f"{type(error).__name__}: {error}"
        count["wrong" if wrong else "right"] += 1
        if wrong:
            print(f"wrong: {path}: {wrong}", flush=True)
    print("| format | right | wrong | rejected |\n" + "|---" * 4 + "|")
    for form, count in sorted(counts.items()):
        print(f"| {form} | {count['right']} | {count['wrong']} | {count['refused']} |")


if __name__ == "__main__":
    main()
