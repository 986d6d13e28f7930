"""Boxes and edges as an SVG document, good to read on a light and on a dark page.

Letters are of one width, so that every text is known to fit its box without a font at hand.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from html import escape

from nmt.rnn.show.layout import lay_out

Key = Hashable

_LETTER, _LINE = 6.7, 17.0  # of 11 pixels
_PAD, _ROW_GAP, _MARGIN = 8.0, 28.0, 18.0
_BAND_HEAD, _FRAME = 25.0, 9.0
_LABEL = 6.2  # a letter of a label, of 10 pixels

# By class: fill, edge and text of boxes, on a light and on a dark page.
_COLOURS = {
    "leaf": (("#f1f1f1", "#8a8a8a"), ("#2c2f33", "#8d949c")),
    "plain": (("#ffffff", "#555555"), ("#1d2126", "#a8b0b8")),
    "before": (("#dcebfb", "#1f5fa8"), ("#14304d", "#6aa7e8")),
    "loop": (("#fdebd8", "#c2571a"), ("#472a10", "#ec9a5c")),
    "after": (("#dff3e2", "#2a7f3f"), ("#14381f", "#6cc585")),
    "new": (("#fff6c9", "#9a7400"), ("#3d3305", "#e2be3d")),
    "gone": (("#ffffff", "#b02a2a"), ("#1d2126", "#e07a7a")),
    "kept": (("#efe2fa", "#7434ad"), ("#331a4a", "#bf8fea")),
}


def _style() -> str:
    """The colours of both kinds of page."""
    sides = []
    for dark in (0, 1):
        ink, soft, page = (("#1b1b1b", "#777777", "#ffffff"), ("#e6e6e6", "#99a1a9", "#0f1215"))[dark]
        rules = [f".page{{fill:{page}}}text{{fill:{ink}}}.soft{{fill:{soft}}}"]
        rules.append(f".edge{{stroke:{soft};fill:none}}.head{{fill:{soft}}}.frame{{stroke:{soft}}}")
        rules.append("".join(f".{k}{{fill:{c[dark][0]};stroke:{c[dark][1]}}}" for k, c in _COLOURS.items()))
        rules.append("".join(f".line-{k}{{stroke:{c[dark][1]}}}" for k, c in _COLOURS.items()))
        rules.append("".join(f".ink-{k}{{fill:{c[dark][1]}}}" for k, c in _COLOURS.items()))
        sides.append("".join(rules))
    return f"<style>{sides[0]}@media(prefers-color-scheme:dark){{{sides[1]}}}</style>"


@dataclass(frozen=True)
class Box:
    """One value: its name, its shape beside it, lines of its operation; `kind` is its colour. `mark`: words on its
    last line, in the colour of its edge."""

    key: Key
    rank: int
    kind: str
    name: str
    shape: str = ""
    lines: Sequence[str] = ()
    mark: str = ""

    @property
    def width(self) -> float:
        """Pixels."""
        head = len(self.name) + (1 + len(self.shape) if self.shape else 0)
        longest = max([head, *map(len, self.lines), 3])
        return max(longest * _LETTER + 2 * _PAD, len(self.mark) * _LABEL + 3 * _PAD)

    @property
    def height(self) -> float:
        """Pixels."""
        return (1 + len(self.lines) + bool(self.mark)) * _LINE + _PAD


@dataclass(frozen=True)
class Frame:
    """A line around all boxes from rank `first` to `last`, but those in `outside`, with a title; `depth` frames lie
    inside it."""

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
    """The SVG document. legend: kinds and what their colours mean."""
    drawn = [_Drawn(panel) for panel in panels]
    y, right, bottom = head_of(legend), 0.0, 0.0
    parts: list[str] = []
    for one in drawn:
        parts.append(f'<g transform="translate({_MARGIN:.1f} {y:.1f})">' + "".join(one.parts) + "</g>")
        right, bottom = max(right, _MARGIN + one.width), max(bottom, y + one.height)
        y += one.height + _MARGIN
    return sheet(title, parts, legend, right, bottom)


def head_of(legend: Sequence[tuple[str, str]]) -> float:
    """Pixels above what is drawn: the title and the legend."""
    return 34.0 + (24.0 if legend else 0.0)


def sheet(title: str, parts: Sequence[str], legend: Sequence[tuple[str, str]], right: float, bottom: float) -> str:
    """The SVG document of parts that reach so far to the right and down, with title and legend above them."""
    keys, at = [], _MARGIN
    for kind, words in legend:
        keys.append(f'<rect x="{at:.1f}" y="38" width="12" height="12" rx="2" class="{kind}"/>')
        keys.append(text_at(at + 17, 48, words, "label"))
        at += 17 + len(words) * _LABEL + 16
    width = max(right, at, _MARGIN + len(title) * 8.0) + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {bottom + _MARGIN:.0f}" '
        f'width="{width:.0f}" height="{bottom + _MARGIN:.0f}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="11">'
    )
    fixed = (
        "<style>.name{font-weight:bold}.label{font-size:10px}.title{font-size:13px;font-weight:bold}"
        ".gone{stroke-dasharray:4 3}.frame{fill:none;stroke-dasharray:2 3}</style>"
    )
    page = f'<rect width="{width:.0f}" height="{bottom + _MARGIN:.0f}" class="page"/>'
    body = [head, f"<title>{escape(title)}</title>", fixed, _style(), page, text_at(_MARGIN, 24, title, "title")]
    return "\n".join([*body, *keys, *parts, "</svg>"]) + "\n"


class _Drawn:
    """A panel in pixels: its parts, width and height."""

    def __init__(self, panel: Panel) -> None:
        boxes = {box.key: box for box in panel.boxes}
        edges = [edge for edge in dict.fromkeys(panel.edges) if edge[0] in boxes and edge[1] in boxes]
        depth = max((frame.depth for frame in panel.frames), default=-1) + 1
        indent = depth * _FRAME + 2
        layout = lay_out({k: b.rank for k, b in boxes.items()}, {k: b.width for k, b in boxes.items()}, edges)
        self.x = {key: x + indent for key, x in layout.x.items()}
        self.boxes, self.panel = boxes, panel
        self._find_rows()
        titles = max((len(f.title) * _LABEL + 2 * _FRAME * (depth - f.depth) + 20 for f in panel.frames), default=0.0)
        self.width = max(layout.width + 2 * indent, titles, len(panel.title) * 7.0)
        shift = (self.width - layout.width) / 2 - indent
        self.x = {key: x + shift for key, x in self.x.items()}
        bends = {e: [(rank, x + indent + shift) for rank, x in points] for e, points in layout.bends.items()}
        self.corners: dict[int, tuple[float, float]] = {}
        self.parts = [text_at(0, 12, panel.title, "title")] if panel.title else []
        self.parts += [self._frame(frame) for frame in panel.frames]
        self.parts += self._edges(edges, bends)
        self.parts += [self._title(frame) for frame in panel.frames]
        self.parts += [self._box(box) for box in panel.boxes]

    def _find_rows(self) -> None:
        """The top of every rank; frames need room for their titles and ends."""
        ranks = sorted({box.rank for box in self.panel.boxes})
        self.top: dict[int, float] = {}
        self.high: dict[int, float] = {}
        y = 22.0 if self.panel.title else 0.0
        for rank in ranks:
            y += sum(_BAND_HEAD for frame in self.panel.frames if frame.first == rank)
            self.top[rank] = y
            self.high[rank] = max(box.height for box in self.panel.boxes if box.rank == rank)
            y += self.high[rank] + _ROW_GAP
            y += sum(_FRAME - 2 for frame in self.panel.frames if frame.last == rank)
        self.height = y - _ROW_GAP + (_FRAME if self.panel.frames else 0.0) + 4

    def _frame(self, frame: Frame) -> str:
        same = [f for f in self.panel.frames if f.first == frame.first and f.depth < frame.depth]
        inner = [f for f in self.panel.frames if f.last == frame.last and f.depth < frame.depth]
        top = self.top[frame.first] - _BAND_HEAD * (1 + len(same)) + 2
        bottom = self.top[frame.last] + self.high[frame.last] + _FRAME * (1 + len(inner)) - 2
        depth = max(f.depth for f in self.panel.frames)
        left = 1 + (depth - frame.depth) * _FRAME
        right = self.width - left
        rect = (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}" rx="5" '
            f'class="frame line-{frame.kind}"/>'
        )
        self.corners[id(frame)] = left + 6, top + 11
        return rect

    def _title(self, frame: Frame) -> str:
        """A frame's title, on a ground of its own: edges run behind it."""
        x, y = self.corners[id(frame)]
        width = len(frame.title) * _LABEL + 6
        ground = f'<rect x="{x - 3:.1f}" y="{y - 9:.1f}" width="{width:.1f}" height="12" class="page"/>'
        return ground + text_at(x, y, frame.title, f"label ink-{frame.kind}")

    def _box(self, box: Box) -> str:
        left, top = self.x[box.key] - box.width / 2, self._top(box)
        lines = [
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="4" '
            f'class="{box.kind}"/>',
            text_at(left + _PAD, top + _LINE + 1, box.name, "name"),
        ]
        if box.shape:
            at = left + box.width - _PAD
            lines.append(text_at(at, top + _LINE + 1, box.shape, "soft", anchor="end"))
        lines += [text_at(left + _PAD, top + (n + 2) * _LINE, line) for n, line in enumerate(box.lines)]
        if box.mark:
            kind = box.mark if box.mark in _COLOURS else box.kind
            lines.append(text_at(left + _PAD, top + box.height - _PAD, box.mark, f"label ink-{kind}"))
        return "".join(lines)

    def _top(self, box: Box) -> float:
        return self.top[box.rank] + (self.high[box.rank] - box.height) / 2

    def _edges(
        self, edges: Sequence[tuple[Key, Key]], bends: dict[tuple[Key, Key], list[tuple[int, float]]]
    ) -> list[str]:
        """Curves from the lower side of one box to the upper side of another; several at one side stand apart."""
        starts, ends = self._ports(edges, bends, 0), self._ports(edges, bends, 1)
        return [self._edge(edge, starts[edge], ends[edge], bends[edge]) for edge in edges]

    def _ports(
        self, edges: Sequence[tuple[Key, Key]], bends: dict[tuple[Key, Key], list[tuple[int, float]]], side: int
    ) -> dict[tuple[Key, Key], float]:
        """Where each edge meets its first (`side` 0) or second box: spread over the box by where it comes from."""
        at: dict[Key, list[tuple[float, tuple[Key, Key]]]] = {}
        for edge in edges:
            points = bends[edge]
            towards = points[0 if side == 0 else -1][1] if points else self.x[edge[1 - side]]
            at.setdefault(edge[side], []).append((towards, edge))
        found = {}
        for key, meeting in at.items():
            room = min(self.boxes[key].width * 0.6, 26.0 * (len(meeting) - 1))
            for n, (_, edge) in enumerate(sorted(meeting, key=lambda one: one[0])):
                share = n / (len(meeting) - 1) - 0.5 if len(meeting) > 1 else 0.0
                found[edge] = self.x[key] + share * room
        return found

    def _edge(self, edge: tuple[Key, Key], start: float, end: float, points: list[tuple[int, float]]) -> str:
        a, b = self.boxes[edge[0]], self.boxes[edge[1]]
        x, y = start, self._top(a) + a.height
        path = [f"M{x:.1f} {y:.1f}"]
        stops = [(px, self.top[rank], self.top[rank] + self.high[rank]) for rank, px in points if rank in self.top]
        goal = self._top(b) - 5
        for px, upper, lower in [*stops, (end, goal, goal)]:
            middle = (y + upper) / 2
            path.append(f"C{x:.1f} {middle:.1f} {px:.1f} {middle:.1f} {px:.1f} {upper:.1f}")
            if lower != upper:
                path.append(f"V{lower:.1f}")
            x, y = px, lower
        head = f'<path d="M{end - 3:.1f} {goal:.1f}h6l-3 5z" class="head"/>'
        return f'<path d="{"".join(path)}" class="edge"/>{head}'


def text_at(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text; `kind` is a class of the style."""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{where}{style} xml:space="preserve">{escape(text)}</text>'
