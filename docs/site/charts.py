"""Charts of the tables in documents, drawn from the tables themselves, so that the two cannot differ.

A line `<!-- chart: COLUMN; COLUMN | title -->` below a table asks for horizontal bars of these columns; the columns of
words before the first of them name the rows. Cells without a number have no bar.
"""

from __future__ import annotations

import io
import re

ASKED = re.compile(r"^<!-- chart: (.+?) \| (.+?) -->$", re.M)


def tables_with_charts(text: str) -> list[tuple[re.Match[str], list[list[str]]]]:
    """Each line that asks for a chart, with the table above it. Raises ValueError where there is none."""
    found = []
    for asked in ASKED.finditer(text):
        lines = text[: asked.start()].rstrip().splitlines()
        first = len(lines)
        while first and lines[first - 1].startswith("|"):
            first -= 1
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines[first:]]
        if len(rows) < 3:
            raise ValueError(f"{asked[0]}: must stand below a table, got none above it; move it")
        found.append((asked, [rows[0], *rows[2:]]))
    return found


def number(cell: str) -> float | None:
    """The first number of a cell; None where it begins with none."""
    found = re.match(r"[-+]?\d[\d,]*(?:\.\d+)?", cell.replace("*", "").strip())
    return float(found[0].replace(",", "")) if found else None


def is_figure(cell: str) -> bool:
    """Whether a cell holds a figure, or nothing: it names no row."""
    return number(cell) is not None or cell in ("", "-")


def drawn(asked: re.Match[str], table: list[list[str]]) -> bytes:
    """The chart as SVG. Raises ValueError where a column is none of the table's."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update({"svg.hashsalt": "nmt", "svg.fonttype": "none", "font.size": 9})
    header, *rows = table
    columns = [name.strip() for name in asked[1].split(";")]
    if missing := [name for name in columns if name not in header]:
        raise ValueError(f"{asked[0]}: must name columns of the table, got {missing[0]}; it has {', '.join(header)}")
    places = [header.index(name) for name in columns]
    naming = [place for place in range(min(places)) if not all(is_figure(row[place]) for row in rows)]
    names = [" · ".join(plain(row[place]) for place in naming) for row in rows]
    figure = Figure(figsize=(7.5, 0.9 + 0.22 * len(rows) * max(1, len(columns))), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(columns)
    for number_of, (place, name) in enumerate(zip(places, columns, strict=True)):
        values = [number(row[place]) for row in rows]
        at = [row + number_of * height for row in range(len(rows))]
        bars = axes.barh(at, [value or 0.0 for value in values], height, label=name)
        axes.bar_label(bars, ["" if value is None else f"{value:g}" for value in values], padding=2)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(rows))], names)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title(asked[2], loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if len(columns) > 1:
        axes.legend(frameon=False)
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def plain(cell: str) -> str:
    """A cell without the marks of Markdown."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", cell).replace("`", "").replace("*", "")
