"""The page: a self-contained HTML file that any browser shows without a network."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from nmt.report.runs import Run, as_number

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
Pictures = Mapping[str, Sequence[str]]
"""SVG pictures of attention by the name of the run."""


def report_page(runs: Sequence[Run], pictures: Pictures | None = None, title: str = "Training report") -> str:
    """Return the HTML page of one or more runs.

    Args:
        pictures: Pictures of attention, shown below the translations.
    """
    sections = [
        _summary(runs),
        *_warnings(runs),
        '<section><h2>Curves</h2><p class="hint">Drag to zoom in, double-click to zoom out, wheel to zoom about the '
        'pointer. Against <select id="axis"><option value="0">updates</option><option value="1">minutes</option>'
        '</select> <label><input type="checkbox" id="log"> logarithmic</label></p><div id="charts"></div></section>',
        _validations(runs),
        *(_translations(run) for run in runs if run.samples),
        *(_attention(name, found) for name, found in (pictures or {}).items() if found),
        _differing(runs),
        *(_doctor(run) for run in runs),
        _machines(runs),
        *(_settings(run) for run in runs if run.settings),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_resource('report.css')}</style></head><body>"
        f"<h1>{escape(title)}</h1>{''.join(sections)}"
        f'<script type="application/json" id="data">{_data(runs)}</script>'
        f"<script>{_resource('report.js')}</script></body></html>\n"
    )


def _data(runs: Sequence[Run]) -> str:
    """Return the data of the charts as JSON. `<` is escaped so that no text in it can end the script."""
    charts = [
        {
            "title": title,
            "curves": [run.curves.get(name, []) for run in runs],
            "bands": [[[update, width] for update, width in run.intervals.items()] for run in runs] if banded else [],
        }
        for name, title, banded in _CHARTS
        if any(run.curves.get(name) for run in runs)
    ]
    names = [run.name for run in runs]
    return json.dumps({"runs": names, "charts": charts}, separators=(",", ":")).replace("<", "\\u003c")


def _resource(name: str) -> str:
    return files("nmt.report").joinpath(name).read_text("utf-8")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table of cells that are already HTML."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _number(value: Any, form: str = ",.2f") -> str:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return format(value, form) if is_number else "–"


def _label(runs: Sequence[Run], run: Run) -> str:
    """Return the name of a run with its colour."""
    return f'<span class="key c{runs.index(run) % 8}"></span>{escape(run.name)}'


def _summary(runs: Sequence[Run]) -> str:
    """Return a table with a row for each run: progress, scores and speed."""
    rows = []
    for run in runs:
        best, test, start = run.best, run.events.get("test", {}), run.events.get("start", {})
        bleu = _number(best.get("bleu"))
        if (width := run.intervals.get(int(as_number(best.get("update"))))) is not None and "bleu" in best:
            bleu += f" ± {width:.2f}"
        rows.append(
            {
                "run": _label(runs, run),
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
    table = _table(list(rows[0]), (list(row.values()) for row in rows))
    return f"<section><h2>Runs</h2>{table}{_signatures(runs)}</section>"


def _signatures(runs: Sequence[Run]) -> str:
    """Return the signatures of the scores, each with the runs that have it."""
    owners: dict[str, list[str]] = {}
    for run in runs:
        for signature in _signatures_of(run).values():
            owners.setdefault(signature, []).append(run.name)
    lines = (f"<li><code>{escape(text)}</code> {escape(', '.join(names))}</li>" for text, names in owners.items())
    return f'<ul class="hint">{"".join(lines)}</ul>' if owners else ""


def _signatures_of(run: Run) -> dict[str, str]:
    event = run.events.get("signatures", {})
    return {key: str(value) for key, value in event.items() if key in ("bleu", "chrf")}


def _warnings(runs: Sequence[Run]) -> list[str]:
    """Return reasons why the runs' scores cannot be compared, and the number of unreadable lines."""
    warnings = []
    for name in ("bleu", "chrf"):
        found = {signatures[name] for run in runs if name in (signatures := _signatures_of(run))}
        if len(found) > 1:
            warnings.append(f"The runs' {name} scores have different signatures: they cannot be compared.")
    for key in ("data.dev", "data.test"):
        if len({str(run.settings[key]) for run in runs if run.settings.get(key)}) > 1:
            warnings.append(f"The runs have different {key}: scores on it cannot be compared.")
    warnings += [f"{run.name}: {run.skipped} lines of metrics.jsonl cannot be read." for run in runs if run.skipped]
    return [f'<p class="warning">{escape(text)}</p>' for text in warnings]


def _validations(runs: Sequence[Run]) -> str:
    """Return all validations of each run, newest first."""
    blocks = []
    for run in runs:
        curves = {
            key: {int(u): v for u, _, v in run.curves.get(f"validation {key}", ())} for key in ("bleu", "chrf", "ppl")
        }
        updates = sorted({update for curve in curves.values() for update in curve}, reverse=True)
        rows = []
        for update in updates:
            width = run.intervals.get(update)
            bleu = _number(curves["bleu"].get(update)) + ("" if width is None else f" ± {width:.2f}")
            star = " *" if update == run.best.get("update") else ""
            rows.append(
                (f"{update:,}{star}", bleu, _number(curves["chrf"].get(update)), _number(curves["ppl"].get(update)))
            )
        if rows:
            table = _table(("update", "BLEU (95 %)", "chrF", "perplexity"), rows)
            blocks.append(f"<details><summary>{_label(runs, run)}: {len(rows):,}</summary>{table}</details>")
    return f"<section><h2>Validations</h2>{''.join(blocks) or '<p>None yet.</p>'}</section>"


def _translations(run: Run) -> str:
    """Return the model's translations of its sample sentences, from first to last."""
    blocks = []
    for sample in run.samples:
        changes = sample["changes"]
        shown = changes if len(changes) <= _SHOWN_CHANGES else [*changes[:10], *changes[-(_SHOWN_CHANGES - 10) :]]
        rows = [(f"{update:,}", escape(str(text))) for update, text in shown]
        rows += [("<b>reference</b>", escape(str(sample["reference"])))]
        blocks.append(f"<h3>{escape(str(sample['source']))}</h3>{_table(('update', 'translation'), rows)}")
    return f"<section><h2>Translations as they changed: {escape(run.name)}</h2>{''.join(blocks)}</section>"


def _attention(name: str, pictures: Sequence[str]) -> str:
    figures = "".join(f"<figure>{picture}</figure>" for picture in pictures)
    return f'<section><h2>Attention: {escape(name)}</h2><div class="wide">{figures}</div></section>'


def _differing(runs: Sequence[Run]) -> str:
    """Return the settings that differ between runs."""
    if len(runs) < 2:
        return ""
    keys = sorted({key for run in runs for key in run.settings if key != "model_dir"})
    rows = []
    for key in keys:
        values = [json.dumps(run.settings[key], ensure_ascii=False) if key in run.settings else "–" for run in runs]
        if len(set(values)) > 1:
            rows.append((f"<code>{key}</code>", *map(escape, values)))
    table = _table(("setting", *(run.name for run in runs)), rows) if rows else "<p>None but model_dir.</p>"
    return f"<section><h2>Settings that differ</h2>{table}</section>"


def _doctor(run: Run) -> str:
    """Return the findings of the corpus check before training."""
    if run.findings is None:
        return ""
    parts = []
    for one in run.findings["findings"]:
        if isinstance(one, dict):
            name, where, count, total, what = (one.get(key, "") for key in ("name", "where", "count", "total", "what"))
            examples = [example for example in one.get("examples", ()) if isinstance(example, dict)]
            numbers = ", ".join(str(example.get("line")) for example in examples)
            parts.append([escape(str(fact)) for fact in (name, where, f"{count} of {total}", what, numbers)])
    table = _table(("finding", "where", "how many", "what", "lines"), parts) if parts else "<p>Nothing.</p>"
    return f"<section><h2>Found in the corpus: {escape(run.name)}</h2>{table}</section>"


def _machines(runs: Sequence[Run]) -> str:
    """Return the machine of each run."""
    rows = []
    for run in runs:
        start = run.events.get("start", {})
        machine = start.get("machine") or {}
        cells = [machine.get(key, "–") for key in ("processor", "cores")]
        cells += [start.get(key, "–") for key in ("threads", "device", "batch_size")]
        cells += [machine.get(key, "–") for key in ("system", "python", "numpy", "nmt")]
        rows.append((_label(runs, run), *(escape(str(cell)) for cell in cells)))
    heads = ("run", "processor", "cores", "threads", "device", "batch size", "system", "Python", "NumPy", "nmt")
    return f"<section><h2>Machines</h2>{_table(heads, rows)}</section>"


def _settings(run: Run) -> str:
    """Return all settings of a run, collapsed."""
    rows = [
        (f"<code>{key}</code>", escape(json.dumps(value, ensure_ascii=False))) for key, value in run.settings.items()
    ]
    table = _table(("setting", "value"), rows)
    return f"<section><details><summary>All settings of {escape(run.name)}</summary>{table}</details></section>"
