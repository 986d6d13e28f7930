"""Tables as people have them, made by hand. Each has the pairs of PAIRS unless its name says what is wrong with it.
`git show f3d43a9d:tests/data/make_tables.py` makes more of them by pandas, openpyxl and LibreOffice; it is no test."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Sequence
from html import escape

_WORDS = (
    "the old woman sees a red bird near the river and calls her children before night comes to our village while rain "
    "falls on many small houses where dogs sleep under trees two men carry wood from forest they speak about hunting "
    "deer last winter nobody knows how far mountains are but every traveller must drink water eat bread or beans with "
    "salt he gave me his best knife because i helped him build new boat she sang an ancient song for us all day long "
    "when spring begins people plant corn in good earth wait until leaves turn green again then summer brings heat "
    "fire smoke fish honey stars moon moves over hills quietly like cat through grass"
).split()
SOURCES = [
    " ".join("".join(chr(0x13A0 + (7 * n + 11 * w + 5 * c) % 85) for c in range(3)) for w in range(5))
    for n in range(120)
]
TARGETS = [" ".join(_WORDS[(11 * n + 3 * w) % len(_WORDS)] for w in range(6)) for n in range(120)]
TARGETS[3], TARGETS[5] = 'he said "yes, yes"; then', "first, second, third"
PAIRS = list(zip(SOURCES, TARGETS, strict=True))
Rows = Sequence[Sequence[str]]


def text_of(rows: Rows, separator: str = "\t", quotes: str = "none") -> str:
    """Return rows as text; quotes: none, minimal or all."""

    def cell(text: str) -> str:
        quoted = quotes == "all" or quotes == "minimal" and any(sign in text for sign in f'{separator}"\n')
        return '"' + text.replace('"', '""') + '"' if quoted else text

    return "".join(separator.join(map(cell, row)) + "\n" for row in rows)


def workbook(sheets: dict[str, Rows], more: str = "") -> bytes:
    """Return a workbook of cells with text; a text that begins with = is a formula without a result."""

    def cell(name: str, text: str) -> str:
        if text.startswith("="):
            return f'<c r="{name}"><f>{escape(text[1:])}</f></c>'
        return f'<c r="{name}" t="inlineStr"><is><t>{escape(text)}</t></is></c>'

    out = io.BytesIO()
    names = list(sheets)
    kinds = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(names, 1))
        packed = "http://schemas.openxmlformats.org/package/2006/relationships"
        first = f'<Relationship Id="r" Type="{kinds}/officeDocument" Target="xl/workbook.xml"/>'
        file.writestr("_rels/.rels", f'<Relationships xmlns="{packed}">{first}</Relationships>')
        file.writestr("xl/workbook.xml", f'<workbook {space} xmlns:r="{kinds}"><sheets>{listed}</sheets></workbook>')
        sheet = f'<Relationship Id="r{{0}}" Type="{kinds}/worksheet" Target="worksheets/s{{0}}.xml"/>'
        listed = "".join(sheet.format(n) for n, _ in enumerate(names, 1))
        file.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{packed}">{listed}</Relationships>')
        for n, name in enumerate(names, 1):
            rows = ""
            for r, row in enumerate(sheets[name], 1):
                cells = "".join(cell(f"{chr(65 + c)}{r}", text) for c, text in enumerate(row) if text)
                rows += f'<row r="{r}">{cells}</row>'
            content = f"<worksheet {space}><sheetData>{rows}</sheetData>{more}</worksheet>"
            file.writestr(f"xl/worksheets/s{n}.xml", content)
    return out.getvalue()


def tmx(languages: Sequence[str], columns: Sequence[Sequence[str]]) -> str:
    units = ""
    for row in zip(*columns, strict=True):
        both = zip(languages, map(escape, row), strict=True)
        sides = "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in both)
        units += f"<tu>{sides}</tu>\n"
    head = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
    return f'{head}<tmx version="1.4"><header/><body>{units}</body></tmx>'


def _form(lang: str, text: str) -> str:
    return f'<form lang="{lang}"><text>{escape(text)}</text></form>'


def lift(pairs: Sequence[tuple[str, str]], examples: int = 0, lang: str = "chr") -> str:
    entries = []
    for number, (source, target) in enumerate(pairs):
        example = f"<example>{_form(lang, source * 2)}<translation>{_form('en', target)}</translation></example>"
        gloss = f'<gloss lang="en"><text>{escape(target)}</text></gloss>'
        sense = f"<sense>{gloss}{example if number < examples else ''}</sense>"
        entries.append(f"<entry><lexical-unit>{_form(lang, source)}</lexical-unit>{sense}</entry>\n")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<lift version="0.13">{"".join(entries)}</lift>'


def flextext(pairs: Sequence[tuple[str, str]], lang: str = "chr") -> str:
    def item(kind: str, lang: str, text: str) -> str:
        return f'<item type="{kind}" lang="{lang}">{escape(text)}</item>'

    phrases = ""
    for n, (source, target) in enumerate(pairs, 1):
        words = "".join(f"<word>{item('txt', lang, word)}{item('gls', 'en', 'x')}</word>" for word in source.split())
        told = item("gls", "en", target)
        phrases += f"<phrase>{item('segnum', 'en', str(n))}<words>{words}</words>{told}</phrase>\n"
    for name in ("phrases", "paragraph", "paragraphs", "interlinear-text", "document"):
        phrases = f"<{name}>{phrases}</{name}>"
    return phrases


def sfm(pairs: Sequence[tuple[str, str]]) -> str:
    entries = (f"\\lx {a}\n\\ps n\n\\ge {b}\n\\dt 01/Jan/2020\n\n" for a, b in pairs)
    return "\\_sh v3.0  400  MDF 4.0\n\n" + "".join(entries)


def usfm(lines: Sequence[str], code: str, *, joined: bool = False) -> str:
    out = [f"\\id GEN {code}", "\\h Genesis", "\\mt1 Genesis"]
    for n, line in enumerate(lines):
        if n % 30 == 0:
            out += [f"\\c {n // 30 + 1}", "\\s A heading", "\\p"]
        first, *rest = line.split()
        number = str(n % 30 + 1)
        if joined and n % 30 == 3:
            number = "4-5"
        verse = f"\\v {number} \\nd {first}\\nd*\\f + \\ft a note\\f* {' '.join(rest)}"
        out.append(line if joined and n % 30 == 4 else verse)
    return "\n".join(out) + "\n"


_HEAD = ("Cherokee", "English")
_FORM = ("When", "Please type it in Cherokee", "What does it say in English?")
_COLUMNS = ("No.", "Cherokee", "English translation", "", "Source")
_CHECKED = [(*pair, "" if n % 9 else "check this") for n, pair in enumerate(PAIRS)]
_NUMBERED = [(*pair, f"check {n}" * (n % 9 > 0)) for n, pair in enumerate(PAIRS)]
_QUOTED = [*PAIRS[:40], (SOURCES[40], "two\nlines"), *PAIRS[41:]]
_IDS = [(str(n), *pair) for n, pair in enumerate(PAIRS, 1)]
_THIRD = [(*pair, pair[1][::-1]) for pair in PAIRS]
_FRENCH = ["Où est-ce que tu vas après l'été, cher élève ?" + f" n° {n}" for n in range(120)]
_REVERSED = [(b, b[::-1], f"n {a}") for b, a in zip(_FRENCH, TARGETS, strict=True)]
_SFM = sfm(PAIRS)
_TEXT = "\\_sh v3.0 400 Text\n\\id story\n" + "".join(
    f"\\ref {n}\n\\tx {' '.join(a.split()[:2])}\n\\mb x y\n\\tx {' '.join(a.split()[2:])}\n\\ft {b}\n\n"
    for n, (a, b) in enumerate(PAIRS)
)
_EXAMPLES = "".join(f"\\lx {a}\n\\ge {b}\n\\xv {a} {a}\n\\xe {b}\n\n" for a, b in PAIRS)
_AGAIN = [row for n, pair in enumerate(PAIRS) for row in ([_HEAD] * (n % 40 == 0) + [pair])]
_COMMAS = [[cell.replace(",", "") for cell in pair] for pair in PAIRS]
BY_HAND: dict[str, bytes | str] = {
    "comma.csv": text_of([_HEAD, *PAIRS], ",", "minimal"),
    "semicolon-excel-utf8.csv": "\ufeff" + text_of([_HEAD, *PAIRS], ";", "minimal").replace("\n", "\r\n"),
    "tabs.csv": text_of([_HEAD, *PAIRS], "\t", "minimal"),
    "bars.csv": text_of(PAIRS, "|", "minimal"),
    "line-breaks.csv": text_of([_HEAD, *_QUOTED], ",", "minimal"),
    "sep-line.csv": "sep=;\n" + text_of([_HEAD, *PAIRS], ";", "minimal"),
    "cp1252.csv": text_of(list(zip(_FRENCH, TARGETS, strict=True)), ";", "minimal").encode("cp1252"),
    "cp1252-heading.csv": "Français;English\nune;one\ndeux;two\n".encode("cp1252"),
    "utf16.csv": text_of([_HEAD, *PAIRS], ",", "minimal").encode("utf-16"),
    "wrong-quotes.csv": text_of(PAIRS, ",", "minimal") + '"a" b,c\n',
    "ids.csv": text_of([("id", *_HEAD), *_IDS], ",", "minimal"),
    "three-texts.csv": text_of(_THIRD, ",", "minimal"),
    "numbers.csv": text_of([(a, str(n)) for n, (a, _) in enumerate(PAIRS)], ",", "minimal"),
    "nothing.csv": "",
    "one-column.csv": "".join(f"{a}\n" for a in SOURCES),
    "padded.csv": "".join(f"{a} | {b}\n" for a, b in PAIRS),
    "spaces.csv": text_of(PAIRS, ",", "all").replace('","', '", "'),
    "headings-again.csv": text_of(_AGAIN, ",", "minimal"),
    "two-headings.csv": text_of([("Source", "Target"), _HEAD, *PAIRS], ",", "minimal"),
    "locales.csv": text_of([("chr_US", "en-US"), *PAIRS], ",", "minimal"),
    "form.csv": text_of([_FORM, *[("12:00", *pair) for pair in PAIRS]], ",", "minimal"),
    "cut.csv": text_of([_HEAD, *_COMMAS, ("A", "yes,no")], ","),
    "cut-often.csv": text_of([_HEAD, *_COMMAS, *[(f"A {n}", "yes,no") for n in range(40)]], ","),
    "nan.csv": text_of([_HEAD, *PAIRS, *[(a, "nan") for a in SOURCES[:3]]], ",", "minimal"),
    "dates.csv": text_of([(a, f"2024-01-{1 + n % 28}") for n, a in enumerate(SOURCES)], ","),
    "short-row.csv": text_of(PAIRS, ",", "minimal") + "alone\n",
    "plain.tsv": text_of(PAIRS),
    "equals.tsv": "".join(f"{a} = {b}\n" for a, b in PAIRS),
    "codes.tsv": text_of([("chr", "en"), *PAIRS]),
    "excel-quotes.tsv": text_of([_HEAD, *_QUOTED], quotes="minimal"),
    "all-quoted.tsv": text_of([_HEAD, *PAIRS], quotes="all"),
    "quotes-of-the-text.tsv": text_of([*PAIRS, (SOURCES[0], '"Yes!"'), (SOURCES[1], 'a 5" pipe')]),
    "commas.tsv": text_of([_HEAD, *PAIRS], ",", "minimal"),
    "anki.tsv": "#separator:tab\n#html:true\n" + text_of(PAIRS),
    "tags.tsv": text_of([*PAIRS, *[(f"<b>{a}</b>", b) for a, b in PAIRS[:9]]]),
    "bom.tsv": "\ufeff" + text_of([_HEAD, *PAIRS]),
    "unicode-text.tsv": text_of([_HEAD, *PAIRS], quotes="minimal").replace("\n", "\r\n").encode("utf-16"),
    "utf16-no-mark.tsv": text_of([("a", "b"), *list(zip(_FRENCH, TARGETS, strict=True))]).encode("utf-16-le"),
    "old-mac.tsv": text_of(PAIRS).replace("\n", "\r"),
    "title-above.tsv": text_of([("My stories", ""), ("", ""), _HEAD, *PAIRS]),
    "tatoeba.tsv": text_of([(str(n), "chr", a, "eng", b) for n, (a, b) in enumerate(PAIRS)]),
    "scores.tsv": text_of([(*pair, f"0.{n}") for n, pair in enumerate(PAIRS)]),
    "roles.tsv": text_of([("src", "tgt"), *PAIRS]),
    "swapped-headings.tsv": text_of([_HEAD[::-1], *PAIRS]),
    "unknown-heading.tsv": text_of([("Tsalagi gawonihisdi", "Meaning"), *PAIRS]),
    "tzotzil.tsv": text_of([("Tzotzil", "Español"), *[(b, f"{a} x") for b, a in zip(_FRENCH, TARGETS, strict=True)]]),
    "senses.tsv": text_of([(a.split()[0] + str(n), f"{b.split()[0]}; hound") for n, (a, b) in enumerate(PAIRS)]),
    "empty-column.tsv": text_of([_COLUMNS, *[("1", *pair, "", pair[1] + "s") for pair in PAIRS]]),
    "notes.tsv": text_of([(*_HEAD, "Notes"), *_CHECKED]),
    "own-name-and-notes.tsv": text_of([("Lengua propia", "English", "Notes"), *_NUMBERED]),
    "notes-beside-unknown.tsv": text_of([("Tzotzil-Chamula", "Free rendering", "Notes"), *_REVERSED]),
    "toolbox.txt": _SFM,
    "words.chr-en.tsv": text_of([(a.split()[0], b.split()[0]) for a, b in PAIRS]),
    "words-codes.tsv": text_of([("en", "ru"), *[(f"ab{n}", f"аб{n}") for n in range(120)]]),
    "words-two-codes.tsv": text_of([("es", "gl"), *[(f"cas{n}", f"cos{n}") for n in range(120)]]),
    "inflection.tsv": text_of([(f"walk{b}", f"walked{b}", "V;PST") for b in map(str, range(120))]),
    "two-sheets.xlsx": workbook({"Stories": [_HEAD, *PAIRS], "Words": PAIRS}),
    "empty-sheet.xlsx": workbook({"Stories": [_HEAD, *PAIRS], "Sheet2": [("to do",)]}),
    "no-cells.xlsx": workbook({"Sheet1": []}),
    "formulas.xlsx": workbook({"S": [_HEAD, *PAIRS, *[(a, "=A1") for a in SOURCES[:30]]]}),
    "merged.xlsx": workbook(
        {"S": [_HEAD, *PAIRS, ("", "more")]}, '<mergeCells count="1"><mergeCell ref="A121:A122"/></mergeCells>'
    ),
    "hidden.xlsx": b"",
    "far-cell.xlsx": b"",
    "entities.xlsx": b"",
    "password.xlsx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600),
    "bomb.xlsx": b"",
    "cut.xlsx": workbook({"S": PAIRS})[:2000],
    "two.tmx": tmx(("chr", "en"), (SOURCES, TARGETS)),
    "omegat.tmx": tmx(("CHR", "EN"), (SOURCES, TARGETS)).replace("xml:lang", "lang"),
    "three.tmx": tmx(("chr", "en", "fr"), (SOURCES, TARGETS, _FRENCH)),
    "regions.tmx": tmx(("en-US", "chr"), (TARGETS, SOURCES)),
    "utf16.tmx": tmx(("chr", "en"), (SOURCES, TARGETS)).encode("utf-16"),
    "entities.tmx": '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;">]><tmx><body><tu>&b;</tu></body></tmx>',
    "words.lift": lift(PAIRS),
    "words-and-examples.lift": lift(PAIRS, 60),
    "texts.flextext": flextext(PAIRS),
    "toolbox.sfm": _SFM,
    "interlinear.sfm": _TEXT,
    "examples.db": _EXAMPLES,
    "cp1252.sfm": "".join(f"\\lx {a}\n\\ge {b}\n\n" for a, b in zip(_FRENCH, TARGETS, strict=True)).encode("cp1252"),
    "no-markers.sfm": text_of(PAIRS),
    "database.db": b"SQLite format 3\x00" + bytes(200),
    "chr.usfm": usfm(SOURCES, "chr", joined=True),
    "en.usfm": usfm(TARGETS[:115], "en"),
}


def _changed(content: bytes, change: Callable[[str], str]) -> bytes:
    """Return a workbook whose sheet is another text."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            text = old.read(name).decode()
            new.writestr(name, change(text) if "/s1" in name else text)
    return out.getvalue()


_BOOK = workbook({"S": PAIRS})
BY_HAND["hidden.xlsx"] = _changed(_BOOK, lambda text: text.replace('<row r="7"', '<row r="7" hidden="1"'))
BY_HAND["far-cell.xlsx"] = _changed(_BOOK, lambda text: text.replace('"A120"', '"XFD1048576"'))
BY_HAND["entities.xlsx"] = _changed(_BOOK, lambda text: f'<!DOCTYPE a [<!ENTITY b "c">]>{text}')
BY_HAND["bomb.xlsx"] = _changed(_BOOK, lambda text: text + " " * 2**28)
