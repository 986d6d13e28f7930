"""Records of translate.py as tables for a page, and what they say of one another."""

from typing import Any

Record = dict[str, Any]

_COLUMNS = "system|beam|threads|batch|sentences/s|words/s|p50|p95|p99|peak MB|disk MB|BLEU".split("|")


def _number(value: float | None, form: str = ".1f") -> str:
    return "-" if value is None else f"{value:{form}}"


def fastest(records: list[Record]) -> list[Record]:
    """Of one system's records that differ by their batch alone, that of single sentences and the fastest other one."""
    best: dict[tuple[Any, ...], Record] = {}
    for r in records:
        key = r["text"], r["threads"], r["beam"], r["batch"] > 1, r["system"]
        if key not in best or (r["sentences_per_second"] or 0) > (best[key]["sentences_per_second"] or 0):
            best[key] = r
    return list(best.values())


def markdown(records: list[Record]) -> list[str]:
    """A table for each text, in the order of the records."""
    lines: list[str] = []
    rows = fastest(records)
    for text in dict.fromkeys(r["text"] for r in rows):
        count = max(r["lines"] for r in rows if r["text"] == text)
        lines += [f"Text `{text}`, {count:,} lines:", "", f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
        lines += [_row(r) for r in rows if r["text"] == text] + [""]
    return lines[:-1]


def _row(r: Record) -> str:
    latency = r["latency_ms"] or {}
    cells = [r["system"], str(r["beam"]), str(r["threads"]), str(r["batch"])]
    cells += [_number(r[name]) for name in ("sentences_per_second", "source_words_per_second")]
    cells += [_number(latency.get(name)) for name in ("p50", "p95", "p99")]
    cells += [_number(r["peak_mb"], ".0f")]
    return f"| {' | '.join([*cells, _number(r['disk_mb']), _number(r['bleu'], '.2f')])} |"


def ratios(records: list[Record]) -> list[str]:
    """How many times as fast as another each of ours is, at the same text and setting: sentences a second."""
    lines = []
    rows = fastest(records)
    kinds = dict.fromkeys((r["text"], r["threads"], r["beam"], r["batch"] > 1) for r in rows)
    for kind in kinds:
        same = [r for r in rows if (r["text"], r["threads"], r["beam"], r["batch"] > 1) == kind]
        speeds = {r["system"]: r["sentences_per_second"] for r in same if r["sentences_per_second"]}
        text, threads, beam, many = kind
        for name, speed in speeds.items():
            others = [n for n in speeds if n != name and (not n.startswith("nmt") or n == "nmt float32")]
            if name.startswith("nmt") and others:
                found = ", ".join(f"{speed / speeds[other]:.2f}x {other}" for other in others)
                size = "best batch" if many else "one at a time"
                lines.append(f"- {text}, {threads} threads, beam {beam}, {size}: {name} is {found}")
    return lines
