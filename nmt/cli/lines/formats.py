"""Format the output of nmt-translate for a line: text, columns, JSON or a plot."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.cli.lines.streams import write_errors
from nmt.system.files import write_bytes

if TYPE_CHECKING:
    from nmt.inference.translation import Detail, Translation

FORMATS = ("text", "tsv", "json")


def output_of(form: str, number: int, source: str, found: list[Translation]) -> Iterator[str]:
    """Yield the output lines for input line `number`, given its translations `found`, best first."""
    if form == "text":
        yield found[0].text
    elif form == "tsv":
        for rank, translation in enumerate(found, start=1):
            yield f"{number}\t{rank}\t{translation.score:.6f}\t{translation.text}"
    else:
        record = {"line": number, "source": source, "translations": [_record(t) for t in found]}
        yield json.dumps(record, ensure_ascii=False)


def alignment_line(found: list[Translation]) -> str:
    """Return the best translation's alignment in Pharaoh format."""
    from nmt.data.alignment.attention_alignment import pharaoh

    return pharaoh(found[0].detail.alignment if found[0].detail is not None else [])


def soft_alignment_line(found: list[Translation]) -> str:
    """Return the best translation's word attention: for each target word the weights of all source words and of the
    source's end, separated by commas; spaces separate target words."""
    from nmt.data.alignment.attention_alignment import soft_alignment, words_of

    detail = found[0].detail
    if detail is None:
        return ""
    tokens = detail.tokens[:-1] if detail.tokens[-1:] == ["</s>"] else detail.tokens
    weights = soft_alignment(detail.attention, words_of(detail.src_tokens), words_of(tokens))
    return " ".join(",".join(f"{weight:.6g}" for weight in row) for row in weights)


def write_plot(path: Path, detail: Detail) -> None:
    """Write the attention of a translation as an SVG file."""
    from nmt.report.page import attention_svg

    svg = attention_svg(detail.attention, [*detail.src_tokens, "</s>"], detail.tokens)
    with write_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, svg.encode())


def _record(translation: Translation) -> dict[str, Any]:
    """Return a translation as a JSON object, including its details if it has any."""
    record: dict[str, Any] = {
        "text": translation.text,
        "score": finite(translation.score),
        "log_prob": finite(translation.log_prob),
        "confidence": round(translation.confidence, 6),
    }
    detail = translation.detail  # None for a blank line
    record["tokens"] = detail.tokens if detail else []
    record["token_log_probs"] = [finite(x) for x in detail.log_probs] if detail else []
    record["alignment"] = [list(pair) for pair in detail.alignment] if detail else []
    record["unseen"] = [*translation.unseen]
    record["warnings"] = [*translation.warnings, *(detail.warnings if detail else [])]
    return record


def finite(number: float) -> float | None:
    """Return a number with six decimals for JSON, None for infinity and NaN."""
    return round(number, 6) if math.isfinite(number) else None
