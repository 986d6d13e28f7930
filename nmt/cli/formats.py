"""What nmt-translate writes for a line: text, columns or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nmt.translator import Translation

FORMATS = ("text", "tsv", "json")


def output_of(form: str, number: int, source: str, found: list[Translation]) -> Iterator[str]:
    """The output lines for input line `number`, whose translations are `found`, the best first."""
    if form == "text":
        yield found[0].text
    elif form == "tsv":
        for rank, translation in enumerate(found, start=1):
            yield f"{number}\t{rank}\t{translation.score:.6f}\t{translation.text}"
    else:
        record = {"line": number, "source": source, "translations": [_record(t) for t in found]}
        yield json.dumps(record, ensure_ascii=False)


def alignment_line(found: list[Translation]) -> str:
    """The best translation's alignment in Pharaoh format."""
    from nmt.data.alignment import pharaoh

    return pharaoh(found[0].detail.alignment if found[0].detail is not None else [])


def _record(translation: Translation) -> dict[str, Any]:
    record: dict[str, Any] = {
        "text": translation.text,
        "score": round(translation.score, 6),
        "log_prob": round(translation.log_prob, 6),
    }
    if translation.detail is not None:
        detail = translation.detail
        record["tokens"] = detail.tokens
        record["token_log_probs"] = [round(x, 6) for x in detail.log_probs]
        record["alignment"] = [list(pair) for pair in detail.alignment]
        record["warnings"] = detail.warnings
    return record
