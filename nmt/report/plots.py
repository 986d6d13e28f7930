"""Pictures as SVG: the attention of a translation, and a model's confidence against what was kept."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from nmt.evaluate.reliability import Reliability

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
    from html import escape

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
