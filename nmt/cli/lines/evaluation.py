"""The output of nmt-evaluate for one system or two: tables, or JSON."""

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
from nmt.evaluate import Score, format_table, score_translations, split_references
from nmt.evaluate.compare import PairedScore, compare, differences
from nmt.evaluate.reliability import Reliability, reliability
from nmt.evaluate.scores import sentence_utility
from nmt.system.files import write_bytes
from nmt.system.lines import read_text


@dataclass
class Evaluation:
    """References, sources if given, and the options of an evaluation.

    references: The references of each line by text, None where a line has fewer. names: Their files. sources: Source
    lines, or empty.
    options: Options of the command.
    """

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
            if len(text) != len(texts[0]):
                raise DataError(
                    f"{refs[0]}, {file}: must have the same number of lines, got {len(texts[0])} and {len(text)}; "
                    "line n of each must translate the same line"
                )
        references: list[list[str | None]] = [[*text] for text in texts]
        if separator:
            references = split_references(references, separator)
        return cls(references, refs, [] if src is None else _read(src, 0, langs, **how), options)

    def read(self, files: Sequence[str]) -> list[list[str]]:
        """Return the translations in files. Raises DataError if one has another number of lines than the sources or the
        references."""
        found = [_read(file) for file in files]
        counts = {self.names[0]: len(self.references[0])} | ({"--src": len(self.sources)} if self.sources else {})
        for file, lines in zip(files, found, strict=True):
            for other, count in counts.items():
                if len(lines) != count:
                    raise DataError(
                        f"{other}, {file}: must have the same number of lines, got {count} and {len(lines)}; line n of "
                        "one must translate line n of the other"
                    )
        return found

    def judge(self, confidences: Sequence[float], hypotheses: Sequence[str], least: float) -> None:
        """Compare the confidence of a model in its translations with their best chrF, and write --plot-confidence."""
        from nmt.report.reliability_plot import reliability_svg

        utility = sentence_utility("chrf")
        rows = zip(hypotheses, zip(*self.references, strict=True), strict=True)
        scores = [max((utility(one, line) for line in lines if line is not None), default=0.0) for one, lines in rows]
        self.reliability = reliability(confidences, scores, least)
        if (path := self.options["plot_confidence"]) is not None:
            with write_errors(path):
                write_bytes(Path(path), reliability_svg(self.reliability, self.names[0]).encode())

    def report(self, systems: list[list[str]]) -> str:
        """Return the text for standard output, after writing --tsv."""
        if len(systems) == 2:
            return self._compared(*systems)
        options = self.options
        scores = score_translations(
            systems[0],
            self.references,
            **self._metric_options(),
            metrics=options["metrics"],
            confidence=options["confidence"],
        )
        if options["tsv"] is not None:
            self._write_columns(systems[0])
        if options["as_json"]:
            metrics = {name: score.to_dict() for name, score in scores.items()}
            record: dict[str, Any] = {"lines": len(systems[0]), "metrics": metrics}
            if self.reliability is not None:
                record["confidence"] = self.reliability.to_dict()
            return json.dumps(record, indent=2, ensure_ascii=False)
        tables = [format_table(list(scores.values()))]
        return "\n\n".join(tables if self.reliability is None else [*tables, self.reliability.table()])

    def _compared(self, a: list[str], b: list[str]) -> str:
        """Return a comparison of two systems."""
        scores = compare(a, b, self.references, metrics=self.options["metrics"], **self._metric_options())
        rows = differences(a, b, self.references, self.options["differences"])
        if self.options["as_json"]:
            record = {
                "lines": len(a),
                "metrics": {name: score.to_dict() for name, score in scores.items()},
                "differences": [
                    {"line": number + 1, "chrf_a": one, "chrf_b": other, **self._line(number, a, b)}
                    for number, one, other in rows
                ],
            }
            return json.dumps(record, indent=2, ensure_ascii=False)
        tables = [_paired_table(list(scores.values()))]
        for number, one, other in rows:
            lines = [f"line {number + 1}: chrF {one:.1f} -> {other:.1f}"]
            lines += [f"  {name:<10} {text}" for name, text in self._line(number, a, b).items()]
            tables.append("\n".join(lines))
        return "\n\n".join(tables)

    def _line(self, number: int, a: list[str], b: list[str]) -> dict[str, str]:
        """Return all data about one line."""
        source = {"source": self.sources[number]} if self.sources else {}
        return {**source, "reference": self.references[0][number] or "", "A": a[number], "B": b[number]}

    def _metric_options(self) -> dict[str, Any]:
        return {"lowercase": self.options["lowercase"], "tokenize": self.options["tokenize"]}

    def _write_columns(self, hypotheses: list[str]) -> None:
        """Write --tsv: a header, then source, translation and references, with tabs replaced by spaces."""
        texts = [self.sources] if self.sources else []
        texts += [hypotheses, *([line or "" for line in text] for text in self.references)]
        refs = ["ref"] + [f"ref{number}" for number in range(2, len(self.references) + 1)]
        with output_lines(self.options["tsv"]) as writer:
            writer.write("\t".join([*(["src"] if self.sources else []), "mt", *refs]))
            for row in zip_longest(*texts, fillvalue=""):
                writer.write("\t".join(cell.replace("\t", " ") for cell in row))


def _paired_table(scores: Sequence[PairedScore]) -> str:
    """Return a table of both systems' scores with intervals, and the p-values of their differences."""
    lines = [
        f"{'metric':<9}{'A':>7} {'95 % ±':>7}{'B':>8} {'95 % ±':>7}{'B - A':>8}{'p boot':>9}{'p rand':>9}  signature"
    ]
    for one in scores:
        a, b = one.a, one.b
        lines.append(
            f"{a.name:<9}{a.score:>7.2f} {_width(a):>7}{b.score:>8.2f} {_width(b):>7}{b.score - a.score:>+8.2f}"
            f"{one.p_bootstrap:>9.4f}{one.p_randomisation:>9.4f}  {a.signature}"
        )
    return "\n".join(lines)


def _width(score: Score) -> str:
    return "" if score.interval is None else f"{score.interval:.2f}"


def _read(file: str, side: int | None = None, langs: tuple[str, ...] = (), **how: Any) -> list[str]:
    """Return the lines of a text, or one side of a table; None if it must be a text. Raises DataError."""
    if format_of(file) == "lines":
        return read_text(file)
    if side is None:
        raise DataError(
            f"{file}: must be a text with one sentence per line, got a table; write its column into a file of its own"
        )
    return list(side_lines(file, side, langs, **how))
