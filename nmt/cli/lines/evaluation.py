"""The output of nmt-evaluate: a table, or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from nmt.cli.lines.streams import output_lines, write_errors
from nmt.data.corpora.sources import format_of, side_lines
from nmt.errors import DataError
from nmt.evaluate.scores import (
    Reliability,
    format_table,
    reliability,
    score_translations,
    sentence_utility,
    split_references,
)
from nmt.system.files import write_bytes
from nmt.system.lines import read_text


@dataclass
class Evaluation:
    """References, sources if given, and the options of an evaluation. references: The references of each line by text,
    None where a line has fewer. names: Their files. sources: Lines, or empty. options: Those of the command."""

    references: list[list[str | None]]
    names: Sequence[str]
    sources: list[str]
    options: dict[str, Any]
    reliability: Reliability | None = None

    @classmethod
    def reading(
        cls,
        refs: Sequence[str],
        separator: str | None,
        src: str | None,
        options: dict[str, Any],
        langs: tuple[str, str],
        **how: Any,
    ) -> Evaluation:
        """Read the files; `langs` are the codes that headings of tables may have; `how`: see `side_lines`. Raises
        DataError if one cannot be read, or references differ in length."""
        texts = [_read(file, 1, langs, **how) for file in refs]
        for file, text in zip(refs, texts, strict=True):
            check_counts(refs[0], len(texts[0]), file, len(text), "line n of each must translate the same line")
        references: list[list[str | None]] = [[*text] for text in texts]
        if separator:
            references = split_references(references, separator)
        return cls(references, refs, [] if src is None else _read(src, 0, langs, **how), options)

    def read(self, file: str) -> list[str]:
        """Return the translations in a file. Raises DataError if sources or references have another number of lines."""
        lines = _read(file)
        counts = {self.names[0]: len(self.references[0])} | ({"--src": len(self.sources)} if self.sources else {})
        for other, count in counts.items():
            check_counts(other, count, file, len(lines))
        return lines

    def judge(self, confidences: Sequence[float], hypotheses: Sequence[str], least: float) -> None:
        """Compare the confidence of a model in its translations with their best chrF, and write --plot-confidence."""
        from nmt.report.page import reliability_svg

        utility = sentence_utility("chrf")
        rows = zip(hypotheses, zip(*self.references, strict=True), strict=True)
        scores = [max((utility(one, line) for line in lines if line is not None), default=0.0) for one, lines in rows]
        self.reliability = reliability(confidences, scores, least)
        if (path := self.options["plot_confidence"]) is not None:
            with write_errors(path):
                write_bytes(Path(path), reliability_svg(self.reliability, self.names[0]).encode())

    def report(self, hypotheses: list[str]) -> str:
        """Return the text for standard output, after writing --tsv."""
        options = self.options
        scores = score_translations(
            hypotheses,
            self.references,
            lowercase=options["lowercase"],
            tokenize=options["tokenize"],
            metrics=options["metrics"],
            confidence=options["confidence"],
        )
        if options["tsv"] is not None:
            self._write_columns(hypotheses)
        if options["as_json"]:
            metrics = {name: score.to_dict() for name, score in scores.items()}
            record: dict[str, Any] = {"lines": len(hypotheses), "metrics": metrics}
            if self.reliability is not None:
                record["confidence"] = self.reliability.to_dict()
            return json.dumps(record, indent=2, ensure_ascii=False)
        tables = [format_table(list(scores.values()))]
        return "\n\n".join(tables if self.reliability is None else [*tables, self.reliability.table()])

    def _write_columns(self, hypotheses: list[str]) -> None:
        """Write --tsv: a header, then source, translation and references, with tabs replaced by spaces."""
        texts = [self.sources] if self.sources else []
        texts += [hypotheses, *([line or "" for line in text] for text in self.references)]
        refs = ["ref"] + [f"ref{number}" for number in range(2, len(self.references) + 1)]
        with output_lines(self.options["tsv"]) as writer:
            writer.write("\t".join([*(["src"] if self.sources else []), "mt", *refs]))
            for row in zip_longest(*texts, fillvalue=""):
                writer.write("\t".join(cell.replace("\t", " ") for cell in row))


def check_counts(
    one: str, count: int, other: str, found: int, reason: str = "line n of one must translate line n of the other"
) -> None:
    """Raise DataError if two files differ in their numbers of lines."""
    if count != found:
        raise DataError(f"{one}, {other}: must have the same number of lines, got {count} and {found}; {reason}")


def _read(file: str, side: int | None = None, langs: tuple[str, ...] = (), **how: Any) -> list[str]:
    """Return the lines of a text, or one side of a table; None if it must be a text. Raises DataError."""
    if format_of(file) == "lines":
        return read_text(file)
    if side is None:
        raise DataError(
            f"{file}: must be a text with one sentence per line, got a table; write its column into a file of its own"
        )
    return list(side_lines(file, side, langs, **how))
