"""Describing boxes and edges in Graphviz's language, and drawing them as SVG by its program `dot`."""

from __future__ import annotations

import subprocess
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from html import escape

from nmt.errors import NMTError
from nmt.rnn.compiler.phases import Phase

Key = Hashable

# For each kind of box: fill and edge on a light page, fill and edge on a dark one.
_COLOURS = {
    "leaf": ("#f1f1f1", "#8a8a8a", "#2c2f33", "#8d949c"),
    "plain": ("#ffffff", "#555555", "#1d2126", "#a8b0b8"),
    Phase.BEFORE: ("#dcebfb", "#1f5fa8", "#14304d", "#6aa7e8"),
    Phase.LOOP: ("#fdebd8", "#c2571a", "#472a10", "#ec9a5c"),
    Phase.AFTER: ("#dff3e2", "#2a7f3f", "#14381f", "#6cc585"),
    "new": ("#fff6c9", "#9a7400", "#3d3305", "#e2be3d"),
    "gone": ("#ffffff", "#b02a2a", "#1d2126", "#e07a7a"),
    "kept": ("#efe2fa", "#7434ad", "#331a4a", "#bf8fea"),
}


@dataclass(frozen=True)
class Box:
    """One value: its name, its shape, the lines of its operation. kind: selects its colour; mark: text on its last
    line."""

    key: Key
    rank: int
    kind: str
    name: str
    shape: str = ""
    lines: Sequence[str] = ()
    mark: str = ""


@dataclass(frozen=True)
class Frame:
    """A frame around the boxes of ranks `first` to `last`, with a title; `depth` levels of frames are inside it."""

    first: int
    last: int
    title: str
    kind: str
    depth: int = 0


@dataclass
class Panel:
    """One drawing: boxes, edges between their keys, frames."""

    title: str
    boxes: list[Box]
    edges: list[tuple[Key, Key]]
    frames: list[Frame] = field(default_factory=list)


def document(title: str, panels: Sequence[Panel], legend: Sequence[tuple[str, str]]) -> str:
    """Return a DOT document of panels, one below the other. legend: kinds and the meanings of their colours."""
    lines = [
        "digraph {",
        f"graph [label={_heading(title, legend)} labelloc=t labeljust=l fontname=monospace fontsize=13 style=dashed]",
        "node [shape=box style=filled fontname=monospace fontsize=11 margin=0.1]",
        "edge [color=gray50 arrowsize=0.5]",
    ]
    previous = ""
    for n, panel in enumerate(panels):
        names = {box.key: f"p{n}b{i}" for i, box in enumerate(panel.boxes)}
        lines += [f"subgraph cluster_p{n} {{", f"label={_quoted(panel.title)} pencolor=transparent"]
        lines += _framed(panel, names, sorted(panel.frames, key=lambda f: -f.depth), panel.boxes, f"p{n}")
        edges = dict.fromkeys(e for e in panel.edges if e[0] in names and e[1] in names)
        lines += [f"{names[a]} -> {names[b]}" for a, b in edges]
        lines.append("}")
        if names:
            ranked = sorted(panel.boxes, key=lambda box: box.rank)
            if previous:
                lines.append(f"{previous} -> {names[ranked[0].key]} [style=invis]")
            previous = names[ranked[-1].key]
    return "\n".join([*lines, "}"]) + "\n"


def drawn(source: str) -> str:
    """Return a DOT document as SVG, drawn by Graphviz, with colours for dark pages too. Raises NMTError."""
    try:
        done = subprocess.run(["dot", "-Tsvg"], input=source, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise NMTError("show: must have Graphviz' dot for an .svg, got none; install it, or ask for a .dot") from None
    except subprocess.CalledProcessError as error:
        raise NMTError(f"show: dot must draw the picture, got {error.stderr.strip()[:200]!r}; ask for a .dot") from None
    head, start, body = done.stdout.partition("<g id=")
    return head + _style() + start + body


def _framed(
    panel: Panel, names: dict[Key, str], frames: Sequence[Frame], boxes: Sequence[Box], place: str
) -> list[str]:
    """Return the boxes as nodes, inside clusters for the frames around them, the outermost first."""
    lines, rest = [], list(boxes)
    while frames:
        outer, *frames = frames
        own = [box for box in rest if outer.first <= box.rank <= outer.last]
        inner = [f for f in frames if f.depth < outer.depth and outer.first <= f.first and f.last <= outer.last]
        frames = [f for f in frames if f not in inner]
        rest = [box for box in rest if box not in own]
        place += "f"
        ink = _COLOURS[outer.kind][1]
        lines += [f"subgraph cluster_{place} {{", f'label={_quoted(outer.title)} pencolor="{ink}" fontcolor="{ink}"']
        lines += [*_framed(panel, names, inner, own, place + "i"), "}"]
    return lines + [f"{names[box.key]} [label={_label(box)} {_colours(box.kind)}]" for box in rest]


def _label(box: Box) -> str:
    """Return a box's text as an HTML-like label."""
    head = f"<b>{escape(box.name)}</b>" + (f"  {escape(box.shape)}" if box.shape else "")
    mark = [f"<i>{escape(box.mark)}</i>"] if box.mark else []
    return "<" + "".join(f'{line}<br align="left"/>' for line in [head, *map(escape, box.lines), *mark]) + ">"


def _heading(title: str, legend: Sequence[tuple[str, str]]) -> str:
    """Return the title, and below it the legend, as an HTML-like label."""
    cells = "".join(
        f'<td bgcolor="{fill}" color="{edge}"><font point-size="10">{escape(words)}</font></td>'
        for (fill, edge, *_), words in ((_COLOURS[kind], words) for kind, words in legend)
    )
    keys = f'<tr><td align="left"><table border="0" cellborder="1" cellspacing="4"><tr>{cells}</tr></table></td></tr>'
    return f'<<table border="0"><tr><td align="left">{escape(title)}</td></tr>{keys if legend else ""}</table>>'


def _colours(kind: str) -> str:
    fill, edge, *_ = _COLOURS[kind]
    dashed = ' style="filled,dashed"' if kind == "gone" else ""
    return f'class={kind} fillcolor="{fill}" color="{edge}"{dashed}'


def _style() -> str:
    """Return the colours for a dark page, which replace those for a light one."""
    rules = [".graph>polygon{fill:#0f1215}text{fill:#e6e6e6}.edge path,.edge polygon{stroke:#99a1a9}"]
    rules += [f".{kind} polygon{{fill:{fill};stroke:{edge}}}" for kind, (_, _, fill, edge) in _COLOURS.items()]
    return f"<style>@media(prefers-color-scheme:dark){{{''.join(rules)}}}</style>\n"


def _quoted(text: str) -> str:
    """Return a quoted DOT string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
