"""A plan as text: tables of values, and the loops that compute them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from docs.show.naming import Naming, gradient_name, leaf_name, output_name, shape, through
from docs.show.reading import Work, works
from nmt.rnn import tuning
from nmt.rnn.arrays.array_names import ArrayKind, Numbered, parse
from nmt.rnn.compiler.phases import Phase
from nmt.rnn.compiler.plan import PlacedSink, Plan
from nmt.rnn.compiler.program import Place, PlaceKind
from nmt.rnn.graph import Value
from nmt.rnn.ops import OpKind

_LEAVES = {"input": "input", "state": "state before the step", "captured": "constant over time", "param": "parameter"}
RUNS = {
    Phase.BEFORE: "before the loop, for all steps at once",
    Phase.LOOP: "in the loop, for each step t",
    Phase.AFTER: "after the loop, for all steps at once",
}
_INDENT = "  "


def plan_text(plan: Plan, columns: int, *, once: bool = False) -> str:
    """Return the whole report on a plan, no line longer than `columns`.

    once: its work is done once per sequence, not for every step.
    """
    title = "once per sequence, " if once else ""
    names = Naming(plan.trace, plan.gradients)
    forward, backward = works(plan.forward), works(plan.backward) if plan.backward else []
    parts = [
        _section(f"{title}reads and returns", columns, _ends(plan, names, columns)),
        _section(f"{title}forward: every value", columns, _values(plan, names, forward, columns)),
        _section(f"{title}forward: the work in order", columns, _order(names, forward, columns, once)),
    ]
    if plan.backward is not None:
        parts += [
            _section(f"{title}kept for the backward pass", columns, _kept(plan, names, columns, once)),
            _section(f"{title}backward: every value", columns, _values(plan, names, backward, columns)),
            _section(f"{title}backward: the work in order", columns, _order(names, backward, columns, once)),
            _section(
                f"{title}gradients of parameters: sums over all rows and steps", columns, _sums(plan, names, columns)
            ),
        ]
    return "\n".join(parts)


def _section(title: str, columns: int, lines: Iterable[str]) -> str:
    return "\n".join([*wrap(title.upper(), columns), "", *(f"{_INDENT}{line}".rstrip() for line in lines), ""])


# ---------------------------------------------------------------- sections


def _ends(plan: Plan, names: Naming, columns: int) -> list[str]:
    """Return the section on what a step reads and returns."""
    masks = {m.array: f"dropout mask, rate {m.rate:g}" for m in plan.trace.masks}
    rows = [("name", "what", "shape")]
    for name, v in plan.trace.leaves.items():
        rows.append((leaf_name(v), masks.get(name, _LEAVES[v.op]), shape(v)))
    if plan.backward is not None:
        for v in plan.trace.graph.values:
            if v.op == "cotangent":
                carried = parse(v.attrs["name"]).kind is ArrayKind.STATE_GRADIENT
                what = "gradient that the next step hands back" if carried else "gradient from outside"
                rows.append((leaf_name(v), what, shape(v)))
    lines = table(rows, columns - len(_INDENT))
    results = {name: v for name, v in plan.trace.outputs.items()} | {f"{n}'": v for n, v in plan.trace.new.items()}
    lines += ["", "returns"]
    returned = [("name", "is", "shape")]
    for name, v in results.items():
        shown = output_name(name)
        what = "new state" if name.endswith("'") else "output"
        returned.append((shown, what if names.name(v) == shown else f"{what} = {names.name(v)}", shape(v)))
    return lines + table(returned[1:], columns - len(_INDENT))


def _values(plan: Plan, names: Naming, done: list[Work], columns: int) -> list[str]:
    """Return one line per value: name, operation, shape, phase, memory."""
    if not done:
        return ["nothing is left to compute"]
    found: dict[int, tuple[Value, list[Phase], list[str]]] = {}
    for work in done:
        for v in work.values:
            _, phases, places = found.setdefault(v.id, (v, [], []))
            phases += [work.phase] if work.phase not in phases else []
            places += [_place(p) for p in work.written.get(v.id, []) if _place(p) not in places]
    rows = [("name", "operation", "shape", "phase", "memory")]
    for v, phases, places in (found[i] for i in sorted(found)):
        if through(v) is not v and names.name(v) == names.operation(v).removeprefix("copy of ") and not places:
            continue  # a copy that takes no work
        rows.append((names.name(v), names.operation(v), shape(v), ", ".join(phases), "; ".join(places) or "register"))
    return table(rows, columns - len(_INDENT))


def _order(names: Naming, done: list[Work], columns: int, once: bool) -> list[str]:
    """Return the section on the steps of all three phases, and the values each computes."""
    lines: list[str] = []
    for phase in Phase:
        here = [work for work in done if work.phase == phase]
        if once and not here:
            continue
        lines.append("once" if once else f"{RUNS[phase]}{'' if here else ': nothing'}")
        for n, work in enumerate(here, 1):
            lines.append(f"{_INDENT}{n} {work.title}")
            lines += _steps(names, work, columns - len(_INDENT))
    return lines


def _steps(names: Naming, work: Work, columns: int) -> list[str]:
    lead = _INDENT * 3
    if work.product is not None:
        v = work.product.out
        return wrapped(f"{names.name(v)} = {names.operation(v)}", columns, lead)
    lines = []
    for nest in work.loops:
        over = [f"{size} {axis}" for axis, size in nest.dims]
        over = over or ([f"{nest.width} features"] if nest.width is not None else [])
        over = [*(["source positions"] if nest.source_axis else []), *over]
        computed = ", ".join(names.name(v) for v in nest.values if through(v) is v)
        copied = ", ".join(dict.fromkeys(names.name(e.value) for e in nest.entries))
        where = f"over {' x '.join(over)}: " if over else "one number: "
        lines += wrapped(where + (computed or f"copies {copied}"), columns, lead)
    return lines


def _kept(plan: Plan, names: Naming, columns: int, once: bool) -> list[str]:
    """Return the section on what the forward pass stores for the backward pass, and what is in memory anyway."""
    memory = plan.memory
    if memory is None:
        return []
    values = plan.trace.graph.values
    lead = "" if once else "T"
    rows = [("name", "array", "why")]
    for i in sorted(memory.kept):
        rows.append((names.name(values[i]), shape(values[i], lead), "kept: stored for the backward pass alone"))
    in_slots = {of[name].id for name in plan.slots for of in (plan.trace.states, plan.trace.new)}
    read = {a.id for a in _operands(plan, works(plan.backward) if plan.backward else [])}
    for i in sorted((memory.found & read) - memory.kept):
        v = values[i]
        if v.op in ("cotangent", "param") or v.id in in_slots:
            continue
        own = "given: " + _LEAVES[v.op] if v.op in _LEAVES else "written: the forward pass stores it for itself"
        rows.append((names.name(v), shape(v, "" if v.op == "captured" else lead), own))
    again = (
        sorted({names.name(v) for w in works(plan.backward) for v in w.values if _is_forward(plan, v)})
        if plan.backward
        else []
    )
    lines = table(rows, columns - len(_INDENT)) if len(rows) > 1 else ["nothing"]
    rates = {"row and step": False, "source position, row and step": True}
    for per, wide in rates.items():
        numbers = sum(values[i].width or 1 for i in memory.kept if ("S" in values[i].axes) == wide)
        if numbers or not wide:
            lines += ["", *wrapped(f"kept numbers for each {per}: {numbers}", columns - len(_INDENT))]
    every = tuning.CHECKPOINT_STEPS
    for place in plan.forward.checkpoints:
        what = f"of {parse(place.name).base}, before every {every} steps"
        lines += wrapped(f"kept numbers for each row {what}: {place.width}", columns - len(_INDENT))
    return lines + (wrapped("computed again: " + ", ".join(again), columns - len(_INDENT)) if again else [])


def _is_forward(plan: Plan, v: Value) -> bool:
    """Return whether a value belongs to the forward step: made before the first incoming gradient."""
    first = min(c.id for c in plan.trace.graph.values if c.op == "cotangent")
    return v.id < first and v.kind is not OpKind.LEAF


def _operands(plan: Plan, done: list[Work]) -> list[Value]:
    """Return the values that the backward pass and the sums of gradients read."""
    values = [a for work in done for v in work.values for a in v.args]
    values += [v for s in plan.sinks for v in (s.sink.left, s.sink.right) if v is not None]
    return [base for v in values for base in (v, through(v), through(v).span[0])]


def _sums(plan: Plan, names: Naming, columns: int) -> list[str]:
    rows = [("gradient", "is the sum of", "shape"), *(sum_of(placed, names) for placed in plan.sinks)]
    return table(rows, columns - len(_INDENT)) if plan.sinks else ["none"]


def sum_of(placed: PlacedSink, names: Naming) -> tuple[str, str, str]:
    """Return the gradient of a parameter or of some of its rows, the expression summed, and its shape."""
    sink, gradient = placed.sink, gradient_name(placed.sink.name)
    if sink.left is None:
        return gradient, names.name(sink.right), f"[{sink.right.width}]"
    if sink.rows != names.trace.leaves[ArrayKind.PARAMETER.of(sink.name)].attrs["rows"]:
        gradient += f"[{sink.start}:{sink.start + (sink.rows or 0)}]"
    size = f"[{sink.left.width}, {sink.right.width}]"
    return gradient, f"{names.name(sink.left)}.T @ {names.name(sink.right)}", size


def _place(place: Place) -> str:
    """Return the place where a value is stored, in words."""
    name = place.name
    match place.kind:
        case PlaceKind.AFTER:
            return f"new state {parse(name).base}"
        case PlaceKind.SEQUENCE:
            return f"kept, {name}" if Numbered.KEPT.names(name) else f"all steps, {output_name(name)}"
        case PlaceKind.BLOCK:
            return f"block of steps, {name}"
        case PlaceKind.CARRY_OUT:
            carried, base = parse(name)
            return f"new state {base}" if carried is ArrayKind.STATE else "handed to the step before"
        case PlaceKind.AGAIN_NEXT:
            return f"state {parse(name).base}, again"
        case PlaceKind.CONSTANT:
            return "added up over time"
        case PlaceKind.ROWS:
            return "scratch of a step"
        case PlaceKind.ROW:
            return "scratch of a row"
        case _:
            return "register"


# ---------------------------------------------------------------- tables


def table(rows: Sequence[Sequence[str]], columns: int) -> list[str]:
    """Return rows of cells in columns; where they do not fit, the widest columns are wrapped, without losing text."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    gap = 2
    while sum(widths) + gap * (len(widths) - 1) > columns:
        widest = widths.index(max(widths))
        widths[widest] -= 1
    lines = []
    for row in rows:
        cells = [wrap(text, width) for text, width in zip(row, widths, strict=True)]
        for n in range(max(map(len, cells))):
            parts = [(cell[n] if n < len(cell) else "").ljust(width) for cell, width in zip(cells, widths, strict=True)]
            lines.append((" " * gap).join(parts).rstrip())
    return lines


def wrapped(text: str, columns: int, lead: str = "") -> list[str]:
    """Return a sentence wrapped to `columns`, each line after `lead`, later ones indented further."""
    first, *more = wrap(text, columns - len(lead) - len(_INDENT))
    return [lead + first, *(lead + _INDENT + line for line in more)]


def wrap(text: str, width: int) -> list[str]:
    """Return lines of at most `width`, broken after a space if there is one, else in a long name after a dot or before
    a bracket, else anywhere."""
    lines, line = [], ""
    for word in re.findall(r"\S+\s*", text):
        if line and len(line) + len(word.rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        while len(word.rstrip()) > width:
            cut = max((m.end() for m in re.finditer(r"[.(,_]|(?!^)(?=\[)", word[:width])), default=width)
            lines.append(word[:cut])
            word = word[cut:]
        line += word
    return [*lines, line.rstrip()] if line or not lines else lines
