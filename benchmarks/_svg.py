"""A plot as SVG: two series over sizes on a logarithmic axis, each with an axis of its own."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 560, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 62, 40, 52
_FIRST, _SECOND, _GREY = "#1f5fa8", "#c2571a", "#999"


@dataclass(frozen=True)
class Plot:
    """Points over `sizes`: `left` on a logarithmic axis, `right` in percent from 0 to 100."""

    title: str
    size_label: str
    left_label: str
    right_label: str
    sizes: Sequence[int]
    left: Sequence[float]
    right: Sequence[float]


def render(plot: Plot) -> str:
    """The SVG document."""
    x = _log_scale(min(plot.sizes), max(plot.sizes), _LEFT, _WIDTH - _RIGHT)
    low, high = _decade(min(plot.left), math.floor), _decade(max(plot.left), math.ceil)
    left = _log_scale(low, max(high, 10 * low), _HEIGHT - _BOTTOM, _TOP)

    def right(percent: float) -> float:
        return _HEIGHT - _BOTTOM - percent / 100 * (_HEIGHT - _BOTTOM - _TOP)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(_WIDTH / 2, 20, plot.title, anchor="middle", weight="bold"),
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 12, plot.size_label, anchor="middle"),
        _text(16, _HEIGHT / 2, plot.left_label, anchor="middle", colour=_FIRST, turned=True),
        _text(_WIDTH - 14, _HEIGHT / 2, plot.right_label, anchor="middle", colour=_SECOND, turned=True),
    ]
    for size in plot.sizes:
        parts.append(_text(x(size), _HEIGHT - _BOTTOM + 18, f"{size:,}" if size < 1000 else _short(size), "middle"))
    exponents = range(round(math.log10(low)), round(math.log10(max(high, 10 * low))) + 1)
    for value in (10.0**n for n in exponents):
        parts.append(_line(_LEFT, left(value), _WIDTH - _RIGHT, left(value)))
        parts.append(_text(_LEFT - 6, left(value) + 4, f"{value:g}", anchor="end", colour=_FIRST))
    for percent in (0, 25, 50, 75, 100):
        parts.append(_text(_WIDTH - _RIGHT + 6, right(percent) + 4, f"{percent} %", colour=_SECOND))
    parts += _series(plot.sizes, plot.left, x, left, _FIRST)
    parts += _series(plot.sizes, plot.right, x, right, _SECOND)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _log_scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    return lambda value: start + (end - start) * math.log(value / low) / math.log(high / low)


def _decade(value: float, rounding: Callable[[float], int]) -> float:
    return 10.0 ** rounding(math.log10(value))


def _short(size: int) -> str:
    return f"{size // 1024}k" if size % 1024 == 0 else f"{size:,}"


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "black", weight: str = "normal",
          turned: bool = False) -> str:  # fmt: skip
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    style = f'text-anchor="{anchor}" fill="{colour}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}{turn}>{escape(text)}</text>'


def _line(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{_GREY}" stroke-width="0.5"/>'


def _series(
    sizes: Sequence[int], values: Sequence[float], x: Callable[[float], float], y: Callable[[float], float], colour: str
) -> list[str]:
    points = [(x(size), y(value)) for size, value in zip(sizes, values, strict=True)]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    line = f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    return [line, *(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points)]
