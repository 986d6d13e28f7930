"""A model's confidence against what was kept, as an SVG picture."""

from __future__ import annotations

from nmt.evaluate.reliability import Reliability

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
