"""Describe the rooms of nmt and of nmt/rnn, and who imports whom, as DOT documents made from the imports that grimp,
the library of import-linter, finds.

A box is a folder, or a file outside the folders. Imports go downwards. An arrow is omitted if a longer path
through other boxes exists: a box may import everything that its arrows lead to. `make pictures` draws them;
ARCHITECTURE.md shows them.
"""

from collections.abc import Mapping
from pathlib import Path

import grimp

from docs.show.dot import Box, Panel, document

ROOT = Path(__file__).resolve().parent.parent

Graph = dict[str, set[str]]
"""Names of modules, and of those that each imports."""

OWN = {("nmt.rnn.ops", "nmt.rnn.graph")}
"""What is not drawn: ops names the type of the values whose gradients it says, which graph builds with ops."""
# The files of nmt outside its folders are one room; all others use them.
GROUND = ("system", "errors", "special_tokens", "search_settings", "overriding", "evaluate")
# `python -m nmt`, a door to cli.
DOOR = "__main__"

SAYS = {
    "cli": "the commands",
    "precompile": "machine code for the wheel",
    "learning": "single pairs, learnt at once",
    "train": "training loop and checkpoints",
    "serve": "the server",
    "studio": "from a table to a translator, on a page",
    "documents": "text around sentences",
    "inference": "text in, text out",
    "importing": "models of other toolkits",
    "exporting": "models for use without nmt",
    "report": "runs as one page",
    "torch": "the core as modules of PyTorch",
    "doctor": "checks of a corpus",
    "storage": "models on disk",
    "model": "cells wired together",
    "decode": "search",
    "data": "text to batches",
    "config": "YAML to settings",
    "rnn": "the core: arrays in, arrays out",
    "system, errors, ...": "files, lines, evaluate, ...",
    "check_cell": "nmt.rnn.check",
    "layers": "LSTM, GRU, RNN layers",
    "stepping": "one step at a time",
    "program": "steps without Python",
    "scan": "any cell over time",
    "devices": "chooses one",
    "kernels": "processor and GPU; Numba",
    "device": "what one can do",
    "interpreter": "what a cell means",
    "rows": "rows, and their threads",
    "compiler": "graph in, graph out",
    "own_code": "errors in an author's code",
    "arrays": "parameters, memory",
    "cells": "one a class",
    "cell": "what a cell is",
    "functions": "what a cell writes",
    "graph": "symbolic values",
    "named_axes": "shapes of matrix states",
    "ops": "operations",
    "tuning": "numbers for speed",
    "cores": "how many threads",
    "arguments": "checks of numbers",
}


# ---------------------------------------------------------------- who imports whom


def import_graph(package: str) -> Graph:
    """Return which modules of a package each of its modules imports, also in functions and for type checking only. The
    package itself is not included: importing a module imports it first, and no module below uses its lazy names."""
    graph = grimp.build_graph(package, cache_dir=None)
    return {
        module: set(graph.find_modules_directly_imported_by(module)) - {package}
        for module in sorted(graph.modules - {package})
    }


# ---------------------------------------------------------------- rooms


def room_of(module: str, package: str) -> str | None:
    """The room of a module below a package; None for what is not drawn."""
    name = module.removeprefix(f"{package}.").split(".")[0]
    if not module.startswith(f"{package}.") or (package == "nmt" and name == DOOR):
        return None
    return "system, errors, ..." if package == "nmt" and name in GROUND else name


def room_graph(graph: Graph, package: str) -> dict[str, set[str]]:
    """Which rooms each room of a package imports."""
    rooms: dict[str, set[str]] = {}
    for module, others in graph.items():
        if (room := room_of(module, package)) is not None:
            found = {room_of(other, package) for other in others if (module, other) not in OWN}
            rooms.setdefault(room, set()).update(r for r in found if r is not None and r != room)
    return rooms


def ranks(rooms: Mapping[str, set[str]]) -> dict[str, int]:
    """The line of each room, from above: one below the lowest of those that import it. Raises ValueError: a circle."""
    above = {room: [r for r, others in rooms.items() if room in others] for room in rooms}
    found: dict[str, int] = {}
    while len(found) < len(rooms):
        ready = [room for room in rooms if room not in found and all(r in found for r in above[room])]
        if not ready:
            raise ValueError(f"rooms: must import one another in one direction, got {sorted(set(rooms) - set(found))}")
        found |= {room: max((found[r] + 1 for r in above[room]), default=0) for room in ready}
    return found


def told(rooms: Mapping[str, set[str]], line: Mapping[str, int]) -> list[tuple[str, str]]:
    """The imports between rooms that no longer way says as well."""
    reached: dict[str, set[str]] = {}
    for room in sorted(rooms, key=lambda r: -line[r]):
        reached[room] = set(rooms[room]).union(*(reached[r] for r in rooms[room]))
    return [
        (room, other)
        for room in rooms
        for other in sorted(rooms[room])
        if not any(other in reached[r] for r in rooms[room] if r != other)
    ]


def picture(package: str, title: str) -> str:
    """The rooms of a package."""
    rooms = room_graph(import_graph("nmt"), package)
    line = ranks(rooms)
    boxes = []
    for room in rooms:
        is_folder = (ROOT.joinpath(*package.split(".")) / room).is_dir()
        kind = "before" if is_folder else "leaf"
        boxes.append(Box(room, line[room], kind, room, "", [SAYS[room]]))
    legend = [("before", "a folder"), ("leaf", "a file, or files")]
    return document(title, [Panel("", boxes, told(rooms, line))], legend)


def pictures() -> dict[str, str]:
    """Return all DOT documents, by the names of the files that they become."""
    return {
        "rooms.svg": picture("nmt", "The packages of nmt and their imports"),
        "rooms-rnn.svg": picture("nmt.rnn", "The packages of nmt/rnn and their imports"),
    }
