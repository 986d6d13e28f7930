"""A plot as SVG: two series over sizes on a logarithmic axis, each with an axis of its own."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

_FIRST, _SECOND = "#1f5fa8", "#c2571a"


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


def drawn(plot: Plot) -> bytes:
    """Return the SVG document: text stays text, and the same points give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "nmt", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(5.8, 3.5), layout="constrained")
    left = figure.subplots()
    left.set(title=plot.title, xlabel=plot.size_label, xscale="log", yscale="log")
    left.set_xticks(plot.sizes, [f"{n // 1024}k" if n % 1024 == 0 else f"{n:,}" for n in plot.sizes], minor=False)
    left.set_xticks([], minor=True)
    low, high = math.floor(math.log10(min(plot.left))), math.ceil(math.log10(max(plot.left)))
    left.set_ylim(10.0**low, 10.0 ** max(high, low + 1))
    left.set_yticks([], minor=True)
    left.yaxis.set_major_formatter("{x:g}")
    left.grid(axis="y", linewidth=0.5)
    right = left.twinx()
    right.set(ylim=(0, 100))
    right.yaxis.set_major_formatter("{x:g} %")
    for axes, label, values, colour in (
        (left, plot.left_label, plot.left, _FIRST),
        (right, plot.right_label, plot.right, _SECOND),
    ):
        axes.plot(plot.sizes, values, "o-", color=colour, markersize=4)
        axes.set_ylabel(label, color=colour)
        axes.tick_params(axis="y", colors=colour)
        axes.spines[["top"]].set_visible(False)
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
