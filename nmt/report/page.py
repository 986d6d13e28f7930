"""The report: what runs were, as data, and the self-contained HTML file that shows it, drawn by the scripts of the
studio's report (nmt/studio/page), which get the data as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from nmt.evaluate.scores import Reliability
from nmt.report.runs import Run, as_number

_CELL = 24
_LETTER = 8
_MARGIN = 12


def attention_svg(weights: np.ndarray, src_words: Sequence[str], tgt_words: Sequence[str]) -> str:
    """Return a grid of attention weights [T, S], target words by source words; darker means more."""
    left = _MARGIN + _LETTER * max(map(len, tgt_words), default=0)
    top = _MARGIN + _LETTER * max(map(len, src_words), default=0)
    width, height = left + _CELL * len(src_words) + _MARGIN, top + _CELL * len(tgt_words) + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for s, word in enumerate(src_words):
        x = left + _CELL * s + _CELL // 2 + 4
        parts.append(f'<text x="{x}" y="{top - 6}" transform="rotate(-90 {x} {top - 6})">{_text(word)}</text>')
    for t, word in enumerate(tgt_words):
        y = top + _CELL * t
        parts.append(f'<text x="{left - 6}" y="{y + 16}" text-anchor="end">{_text(word)}</text>')
        for s in range(len(src_words)):
            weight = float(np.clip(weights[t, s], 0.0, 1.0))
            parts.append(
                f'<rect x="{left + _CELL * s}" y="{y}" width="{_CELL}" height="{_CELL}" fill="#08306b" '
                f'fill-opacity="{weight:.3f}" stroke="#ddd"><title>{weight:.3f}</title></rect>'
            )
    return "\n".join([*parts, "</svg>", ""])


def _text(word: str) -> str:
    return escape("".join(c for c in word if c.isprintable()))


_SIDE, _LEFT, _TOP, _BELOW = 320, 56, 28, 92
_BAR = 36


def reliability_svg(found: Reliability, title: str) -> str:
    """Return a diagram: of each range of confidence the share kept, a dot that is on the diagonal if the confidence is
    right; dots and the bars below are larger for more lines."""
    width, height = _LEFT + _SIDE + 24, _TOP + _SIDE + _BELOW + _BAR
    bottom, most = _TOP + _SIDE, max(one.lines for one in found.bins)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        'font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="13">{escape(title)}</text>',
        f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#999"/>',
        f'<path d="M{_LEFT} {bottom}L{_LEFT + _SIDE} {_TOP}" stroke="#999" stroke-dasharray="4 3"/>',
    ]
    for number in range(0, 101, 25):
        at = _SIDE * number // 100
        parts.append(f'<text x="{_LEFT + at}" y="{bottom + 16}" text-anchor="middle">{number}</text>')
        parts.append(f'<text x="{_LEFT - 6}" y="{bottom - at + 4}" text-anchor="end">{number}</text>')
    for one in found.bins:
        x, y, tall = _LEFT + _SIDE * one.confidence, bottom - _SIDE * one.kept, max(1.0, _BAR * one.lines / most)
        left, wide = _LEFT + _SIDE * one.low, _SIDE * (one.high - one.low) - 2
        parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{2 + 6 * (one.lines / most) ** 0.5:.1f}" fill="#08306b"/>',
            f'<rect x="{left:.1f}" y="{bottom + 46 + _BAR - tall:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
            f'fill="#9ecae1"><title>{one.lines}</title></rect>',
        ]
    says = f"expected calibration error {found.error:.1%}; bars: lines, {most} at most"
    parts += [
        f'<text x="{_LEFT + _SIDE // 2}" y="{bottom + 34}" text-anchor="middle">confidence, %</text>',
        f'<text transform="translate(14 {_TOP + _SIDE // 2}) rotate(-90)" text-anchor="middle">kept, %</text>',
        f'<text x="{_LEFT}" y="{height - 8}">{says}</text>',
    ]
    return "\n".join([*parts, "</svg>", ""])


_CHARTS = (
    ("validation bleu", "BLEU on the validation set: words and phrases as in the references, 0 to 100", True),
    ("validation chrf", "chrF on the validation set: letters as in the references, 0 to 100", False),
    (
        "validation ppl",
        "Perplexity on the validation set: the number of subwords between which the model wavers, lower is better",
        False,
    ),
    ("train nll", "Negative log-likelihood of a training token, in nats: the logarithm of its perplexity", False),
    ("train loss", "Training loss (smoothed where label smoothing is on)", False),
    ("train accuracy", "Accuracy: share of the training tokens that are predicted right", False),
    ("train learning_rate", "Learning rate", False),
    ("train gradient_norm", "Norm of the gradient before clipping", False),
    ("train tgt_tokens_per_second", "Target tokens a second", False),
)
"""The charts in order: name of the curve, title, whether it has intervals."""
_SHOWN_CHANGES = 30
_PAGE = Path(__file__).parent.parent / "studio" / "page"
_SCRIPTS = ("words.js", "chart.js", "report.js", "saved.js")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
Pictures = Mapping[str, Sequence[str]]
"""SVG pictures of attention by the name of the run."""
Table = dict[str, Any]
"""A table of the report: `title`, `heads`, `rows` of texts; `run` if it is of one; `closed` if it opens by a click."""


def report_data(runs: Sequence[Run], pictures: Pictures | None = None) -> dict[str, Any]:
    """Return all that a page says of one or more runs, for JSON; `pictures`, of attention, come last."""
    charts = [
        {
            "title": title,
            "curves": [run.curves.get(name, []) for run in runs],
            "bands": [[[update, width] for update, width in run.intervals.items()] for run in runs] if banded else [],
        }
        for name, title, banded in _CHARTS
        if any(run.curves.get(name) for run in runs)
    ]
    tables = [
        _summary(runs),
        *_signatures(runs),
        *(table for run in runs for table in _translations(run)),
        *_differing(runs),
        *(_validations(run) for run in runs),
        *(_doctor(run) for run in runs if run.findings is not None),
        _machines(runs) | {"closed": True},
        *(_settings(run) for run in runs if run.settings),
    ]
    return {
        "runs": [run.name for run in runs],
        "warnings": list(_warnings(runs)),
        "charts": charts,
        "tables": tables,
        "pictures": {name: list(found) for name, found in (pictures or {}).items() if found},
    }


def report_page(
    runs: Sequence[Run],
    pictures: Pictures | None = None,
    title: str = "Training report",
    studio: Mapping[str, Any] | None = None,
    words: Mapping[str, str] | None = None,
    language: str = "en",
) -> str:
    """Return the HTML page of one or more runs. `studio`: its `project`, `round` and `report`, of which the runs are
    the numbers for experts; `words`: of the page in `language`; English fills what is missing."""
    english = json.loads((_PAGE / "strings" / "en.json").read_text("utf-8"))
    data = {
        "title": title,
        "experts": report_data(runs, pictures),
        "studio": studio,
        "words": words or english,
        "english": english,
        "language": language,
    }
    # No text of the data can end the script that holds it.
    given = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    scripts = "".join((_PAGE / name).read_text("utf-8") for name in _SCRIPTS)
    script = re.sub(r"^import .*\n|^export (?=\w)", "", scripts, flags=re.MULTILINE)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{escape(title)}</title><style>{(_PAGE / 'studio.css').read_text('utf-8')}</style></head><body>"
        "<noscript><p>This report needs JavaScript to be shown.</p></noscript>"
        f'<script type="application/json" id="data">{given}</script>'
        f'<script type="module">\n{script}</script></body></html>\n'
    )


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, run: Run | None = None) -> Table:
    """Return a table; that of one run opens by a click."""
    return {
        "title": title,
        "heads": list(heads),
        "rows": [list(row) for row in rows],
        "closed": run is not None,
        "run": run.name if run else "",
    }


def _number(value: Any, form: str = ",.2f") -> str:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return format(value, form) if is_number else "–"


def _summary(runs: Sequence[Run]) -> Table:
    """Return a table with a row for each run: progress, scores and speed."""
    rows = []
    for run in runs:
        best, test, start = run.best, run.events.get("test", {}), run.events.get("start", {})
        bleu = _number(best.get("bleu"))
        if (width := run.intervals.get(int(as_number(best.get("update"))))) is not None and "bleu" in best:
            bleu += f" ± {width:.2f}"
        rows.append(
            {
                "run": run.name,
                "parameters": _number(start.get("parameters"), ",d"),
                "updates": _number(run.updates, ",d"),
                "minutes": _number(run.minutes, ",.1f"),
                "best at": _number(best.get("update"), ",d"),
                "BLEU": bleu,
                "chrF": _number(best.get("chrf")),
                "perplexity": _number(best.get("ppl")),
                "test BLEU": _number(test.get("bleu")),
                "tokens/s": _number(run.speed, ",.0f"),
            }
        )
    return _table("Runs", list(rows[0]), [list(row.values()) for row in rows])


def _signatures(runs: Sequence[Run]) -> list[Table]:
    """Return the signatures of the scores, each with the runs that have it."""
    owners: dict[str, list[str]] = {}
    for run in runs:
        for signature in _signatures_of(run).values():
            owners.setdefault(signature, []).append(run.name)
    rows = [(text, ", ".join(names)) for text, names in owners.items()]
    return [_table("Signatures", ("signature", "runs"), rows)] if rows else []


def _signatures_of(run: Run) -> dict[str, str]:
    return {key: str(value) for key, value in run.events.get("signatures", {}).items() if key in ("bleu", "chrf")}


def _warnings(runs: Sequence[Run]) -> Iterator[str]:
    """Yield reasons why the runs' scores cannot be compared, and the number of unreadable lines."""
    for name in ("bleu", "chrf"):
        found = {signatures[name] for run in runs if name in (signatures := _signatures_of(run))}
        if len(found) > 1:
            yield f"The runs' {name} scores have different signatures: they cannot be compared."
    for key in ("data.dev", "data.test"):
        if len({str(run.settings[key]) for run in runs if run.settings.get(key)}) > 1:
            yield f"The runs have different {key}: scores on it cannot be compared."
    yield from (f"{run.name}: {run.skipped} lines of metrics.jsonl cannot be read." for run in runs if run.skipped)


def _validations(run: Run) -> Table:
    """Return all validations of a run, newest first."""
    curves = {
        key: {int(u): v for u, _, v in run.curves.get(f"validation {key}", ())} for key in ("bleu", "chrf", "ppl")
    }
    rows = []
    for update in sorted({update for curve in curves.values() for update in curve}, reverse=True):
        width = run.intervals.get(update)
        bleu = _number(curves["bleu"].get(update)) + ("" if width is None else f" ± {width:.2f}")
        star = " *" if update == run.best.get("update") else ""
        rows.append(
            (f"{update:,}{star}", bleu, _number(curves["chrf"].get(update)), _number(curves["ppl"].get(update)))
        )
    return _table("Validations", ("update", "BLEU (95 %)", "chrF", "perplexity"), rows, run=run)


def _translations(run: Run) -> Iterator[Table]:
    """Yield the model's translations of its sample sentences, from first to last."""
    for sample in run.samples:
        changes = sample["changes"]
        shown = changes if len(changes) <= _SHOWN_CHANGES else [*changes[:10], *changes[-(_SHOWN_CHANGES - 10) :]]
        rows = [*((f"{update:,}", str(text)) for update, text in shown), ("reference", str(sample["reference"]))]
        yield _table("Translations", ("update", str(sample["source"])), rows, run=run)


def _differing(runs: Sequence[Run]) -> list[Table]:
    """Return the settings that differ between runs."""
    if len(runs) < 2:
        return []
    rows = []
    for key in sorted({key for run in runs for key in run.settings if key != "model_dir"}):
        values = [json.dumps(run.settings[key], ensure_ascii=False) if key in run.settings else "–" for run in runs]
        if len(set(values)) > 1:
            rows.append((key, *values))
    return [_table("Settings that differ", ("setting", *(run.name for run in runs)), rows)]


def _doctor(run: Run) -> Table:
    """Return the findings of the corpus check before training."""
    rows = []
    for one in (run.findings or {})["findings"]:
        if isinstance(one, dict):
            name, where, count, total, what = (one.get(key, "") for key in ("name", "where", "count", "total", "what"))
            examples = [example for example in one.get("examples", ()) if isinstance(example, dict)]
            numbers = ", ".join(str(example.get("line")) for example in examples)
            rows.append([str(fact) for fact in (name, where, f"{count} of {total}", what, numbers)])
    return _table("Found in the corpus", ("finding", "where", "how many", "what", "lines"), rows, run=run)


def _machines(runs: Sequence[Run]) -> Table:
    """Return the machine of each run."""
    rows = []
    for run in runs:
        start = run.events.get("start", {})
        machine = start.get("machine") or {}
        cells = [machine.get(key, "–") for key in ("processor", "cores")]
        cells += [start.get(key, "–") for key in ("threads", "device", "batch_size")]
        cells += [machine.get(key, "–") for key in ("system", "python", "numpy", "nmt")]
        rows.append((run.name, *map(str, cells)))
    heads = ("run", "processor", "cores", "threads", "device", "batch size", "system", "Python", "NumPy", "nmt")
    return _table("Machines", heads, rows)


def _settings(run: Run) -> Table:
    """Return all settings of a run."""
    rows = [(key, json.dumps(value, ensure_ascii=False)) for key, value in run.settings.items()]
    return _table("Settings", ("setting", "value"), rows, run=run)
