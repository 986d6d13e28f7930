"""Attention between words as an SVG picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

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
