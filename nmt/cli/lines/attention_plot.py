"""Plot the attention of a translation to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nmt.cli.lines.streams import write_errors
from nmt.report.attention_plot import attention_svg
from nmt.system.files import write_bytes

if TYPE_CHECKING:
    from nmt.inference.translator import Translation


def write_plot(path: Path, translation: Translation) -> None:
    """Write the attention of a translation as an SVG file, if the translation has details."""
    detail = translation.detail
    if detail is None:
        return
    svg = attention_svg(detail.attention, [*detail.src_tokens, "</s>"], detail.tokens)
    with write_errors(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, svg.encode())
