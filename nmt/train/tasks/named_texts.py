"""A corpus as a command line names it: what its names, its headings and its text tell of languages and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import has_magic
from itertools import islice
from typing import Any

from nmt.config.data_section import UNNAMED
from nmt.data.corpora.judged_texts import ending_of
from nmt.data.corpora.language_names import is_code, language_by_text, language_of, languages_named
from nmt.data.corpora.looking import LOOKED_AT, Column, look
from nmt.data.corpora.sources import Source, format_of, pair_chunks
from nmt.data.tables.readers import GRIDS, RECORDS
from nmt.data.tokens.factors import features_column
from nmt.errors import DataError
from nmt.system.lines import without_packing
from nmt.system.notices import Show

_CHUNK = 4096
_LANG = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")
_NO_CODES = ("txt", "usfm", "sfm")
_PAIR = re.compile(r"(?:^|([-_. ]))([a-z]{2,3})[-_]([a-z]{2,3})$")


@dataclass(frozen=True)
class Texts:
    """A corpus as the command line names it: one table or prefix, or the files of source and target; the language codes
    that were given, None for those that were not; of a table the columns, whether it has headings, and the sheet, None
    for what is to be found (see `recognised`); and the column with features of the words."""

    files: tuple[str, ...]
    given: tuple[str | None, str | None] = (None, None)
    columns: tuple[Column, Column] = (None, None)
    header: bool | None = None
    sheet: str | None = None
    features: int | None = None

    @property
    def langs(self) -> tuple[str, str]:
        """Return the language codes that are known, else UNNAMED, which stand for none."""
        src, tgt = (code or unnamed for code, unnamed in zip(self.known, UNNAMED, strict=True))
        return src, tgt

    @property
    def _endings(self) -> tuple[str, str] | None:
        """Return the codes by which the two files end: t.de and t.en; or the languages of de.txt and t-en.txt."""
        ends = [without_packing(file).suffix[1:] for file in self.files]
        if not all(_LANG.fullmatch(end) and end not in _NO_CODES for end in ends):
            found = [ending_of(file) for file in self.files]
            ends = [one[0] if one is not None and language_of(one[0]) is not None else "" for one in found]
        return (ends[0], ends[1]) if len(ends) == 2 and ends[0] != ends[1] and all(ends) else None

    @property
    def _pair(self) -> tuple[str, str] | None:
        """Return the codes in the name of a table: words.chr-en.tsv. In .jsonl a code is the key of a text."""
        found = _PAIR.search(without_packing(self.files[0]).stem)
        if len(self.files) != 1 or found is None or format_of(self.files[0]) not in (*GRIDS, *RECORDS):
            return None
        is_known = found[1] == "." or all(language_of(code) is not None for code in found.groups()[1:])
        return (found[2], found[3]) if is_known else None

    def in_order_of(self, langs: tuple[str, str], tell: Callable[[str], None]) -> Texts:
        """Return the same for these languages: files named the other way round are exchanged, which `tell` says."""
        if self._endings != langs[::-1]:
            return replace(self, given=langs)
        files = self.files[::-1]
        tell(
            f"warning: --dev must be {' and '.join(langs)}, in this order; taken so by their names: "
            f"{' and '.join(files)}"
        )
        return replace(self, files=files, given=langs)

    def recognised(self, tell: Show) -> Texts:
        """Return the same with what its files say: columns, headings, languages, and the column of features, as tables
        of inflection have it. `tell` gets the findings. Raises DataError if the columns must be named."""
        self.source.check(self.langs)
        if has_magic(self.files[0]) or len(self.files) == 1 and format_of(self.files[0]) not in (*GRIDS, *RECORDS):
            return self
        codes = self.known
        if len(self.files) == 2:
            (part,) = self.source.parts(self.langs)
            texts = zip(*(map(str, row) for row in islice(part.rows(lenient=True), LOOKED_AT)), strict=True)
            sides = zip(codes, texts, strict=False)
            return self._in([code or language_by_text(lines) for code, lines in sides] or codes, "text", tell)
        found = look(self.files[0], codes, self.columns, self.header, self.sheet)
        if format_of(self.files[0]) == "tsv" and self.columns == (None, None):
            rows = islice(GRIDS["tsv"](self.files[0]), found.heading, _CHUNK)
            if (features := features_column([cells for _, cells in rows])) is not None:
                return replace(self, features=features)._in(codes, "text", tell)
        if found.chosen is None:
            raise DataError(found.question(self.files[0]))
        if len(set(found.chosen)) == 1:
            again = f"got {found.chosen[0]} twice; name the other one"
            raise DataError(f"{self.files[0]}: must have source and target in two columns, {again}")
        named = self._in(found.langs, "headings or the text", tell)
        src, tgt = found.chosen
        if len(found.columns) > 2 or (src, tgt) == (2, 1):
            names = {one.column: one.name for one in found.columns}
            why = f", {found.why}" if found.why else ""
            other = "" if any(self.columns) else "; --columns chooses others"
            tell(f"source and target are columns {names[src]} and {names[tgt]}{why}{other}")
        return replace(named, columns=(src, tgt), header=True if found.heading else self.header)

    @property
    def known(self) -> tuple[str | None, str | None]:
        """Return the language codes that were given or are in the names of the files; None for others."""
        named = self._endings or self._pair or (None, None)
        return self.given[0] or named[0], self.given[1] or named[1]

    def _in(self, langs: Sequence[str | None], by: str, tell: Show) -> Texts:
        """Return the same in these languages, after reporting those that neither options nor names say."""
        sides = list(zip(("source", "target"), "st", self.known, langs, strict=True))
        for _, option, known, _ in sides:
            if known is not None and not is_code(known) and len(found := languages_named(known)) == 1:
                tell(f"warning: {known} is kept as the code of a language; programs know it as -{option} {min(found)}")
        if guessed := [f"{side} {code}" for side, _, known, code in sides if known is None and code is not None]:
            tell(f"languages by the {by}: {', '.join(guessed)}; -s and -t name others")
        if unknown := [f"-{option} CODE for the {side}" for side, option, _, code in sides if code is None]:
            tell(
                f"languages that neither names nor texts tell: give {' and '.join(unknown)}, which cannot be changed "
                "after training; programs will call a side without one src or tgt"
            )
        return replace(self, given=(langs[0], langs[1]))

    def setting(self) -> str | list[dict[str, Any]]:
        """Return the value of data.train, or of data.dev, for this corpus."""
        if len(self.files) == 1:
            if format_of(self.files[0]) == "lines":
                return self.files[0]
            source = self.source
            facts = (*source.columns, source.features, source.header, source.sheet)
            names = ("src_column", "tgt_column", "features_column", "header", "sheet")
            values = {name: fact for name, fact in zip(names, facts, strict=True) if fact is not None}
            if source.columns == (1, 2) and not self.features:
                del values["src_column"], values["tgt_column"]
            return [{"path": self.files[0], **values}]
        prefixes = {str(without_packing(file).with_suffix("")) for file in self.files}
        if len(prefixes) == 1 and self.langs == self._endings:
            return prefixes.pop()
        return [{"path": self.files[0], "tgt_path": self.files[1]}]

    @property
    def source(self) -> Source:
        """Return the corpus as the readers take it."""
        if len(self.files) == 2:
            return Source(self.files[0], tgt_path=self.files[1])
        columns = self.columns if self.features is None else (1, 5 - self.features)
        return Source(self.files[0], columns, features=self.features, header=self.header, sheet=self.sheet)

    def pairs(self, langs: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the pairs whose sides are both more than spaces. Raises DataError if the files cannot be read."""
        for part in self.source.parts(langs):
            for chunk in pair_chunks(part, _CHUNK):
                for source, target in chunk:
                    if source.strip() and target.strip():
                        yield source, target
