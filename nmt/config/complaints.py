"""Formats pydantic's errors as one line that says what to write instead."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from nmt.config.removed import instead, ours
from nmt.config.section import MOST
from nmt.errors import most_like

Path = tuple[str | int, ...]
_MOST_UNKNOWN = 5
"""Unknown keys that one error names."""


def complain(error: ValidationError, schema: dict[str, Any]) -> tuple[Path, str]:
    """Return the error to report first, as (path of the key, one line that starts with that path). Unknown keys come
    first: they are often misspelt keys that are then also reported as missing. All are named."""
    found = error.errors(include_url=False)
    unknown = [one for one in found if one["type"] == "extra_forbidden"][:_MOST_UNKNOWN]
    first = min(found, key=lambda one: one["type"] not in ("invalid_key", "extra_forbidden"))
    path: Path = first["loc"]
    told = unknown if first in unknown else [first]
    clauses = [complaint(one["loc"], one, schema) for one in told]
    line = "".join(clause + (" And " if clause.endswith("?") else ". And ") for clause in clauses[:-1]) + clauses[-1]
    if others := len(found) - len(told):
        line += f" (and {others} more mistake{'s' if others > 1 else ''})"
    return path, line


def complaint(path: Path, mistake: Any, schema: dict[str, Any]) -> str:
    """Return one of pydantic's errors as one line that starts with the path of its key."""
    if mistake["type"] == "extra_forbidden":
        return _unknown_key(path, schema)
    if mistake["type"] == "invalid_key":
        return (
            f"{dotted(path[:-1]) or 'the file'} must have keys that are text, got {shorten(mistake['input'])}; remove "
            "it (in {a: 1,5} the comma begins another key: write 1.5)"
        )
    if mistake["type"] == "value_error" and str(mistake["ctx"]["error"]):
        return dotted(path) + ("." if path else "") + str(mistake["ctx"]["error"])
    node = lookup(schema, path)
    if mistake["type"] == "missing":
        return f"{dotted(path)} must be given: {node.get('description', describe(node, schema))}"
    got = mistake["input"]
    if path[-1:] == ("rnn_type",) and not isinstance(got, str):
        importable = isinstance(got, type) and got.__module__ != "__main__"
        advice = f"{got.__module__}.{got.__qualname__}" if importable else "a class of your own to a file, my_cells.py"
        return (
            f"{dotted(path)} must be the name of a cell, or a dotted path such as my_cells.MyCell, got {shorten(got)}; "
            f"write {advice}"
        )
    if isinstance(got, str) and (gone := instead(f"{dotted(path)}: {got}")):
        return f"{dotted(path)}: {got} {gone}"
    promise = describe(node, schema, all_bounds=isinstance(got, int | float) and abs(got) > MOST)
    line = f"{dotted(path) or 'the file'} must be {promise}, got {shorten(got)}"
    choices = [text for text in _choices(node, schema) if isinstance(text, str)]
    close = most_like(got.lower(), choices, cutoff=0.4) if isinstance(got, str) else ""
    if "cuda" in choices and isinstance(got, str) and re.match(r"gpu|nvidia|cuda", got.lower()):
        close = "cuda"
    if got == "None" and "null" in describe(node, schema):
        close = "null"
    if close:
        return f"{line}; did you mean {close}?"
    return line + _advice(path, got, node)


def _advice(path: Path, got: Any, node: dict[str, Any]) -> str:
    """Return advice on what to write instead, with a leading semicolon; empty if there is none."""
    if dotted(path).partition("[")[0] in ("data.train", "data.dev", "data.test") and "." not in dotted(path[2:]):
        key = path[1]
        return (
            f"; write {key}: data/{key}, the prefix of two files such as data/{key}.de and data/{key}.en, or a list of "
            f"corpora, {key}: [{{path: data/{key}}}, {{path: more.tsv}}]"
        )
    if isinstance(got, str) and node.get("type") == "array":
        return f"; write {path[-1]}: [{got}]"
    if isinstance(got, int | float) and node.get("type") == "string":
        return f'; put it into quotes: "{shorten(got)}"'
    return ""


def _unknown_key(path: Path, schema: dict[str, Any]) -> str:
    """Return the error about an unknown key, with suggestions of what was meant."""
    if gone := instead(dotted(path)):
        return f"{dotted(path)} {gone}"
    line = f"{dotted(path)} is not a setting"
    key = str(path[-1])
    known = list(lookup(schema, path[:-1]).get("properties", {}))
    meant = ours(key, str(path[0]) if len(path) > 1 else "") or " or ".join(places_of(key, schema))
    if not meant and (name := most_like(key.lower(), known)):
        meant = dotted((*path[:-1], name))
    if meant:
        return f"{line}; did you mean {meant}?"
    return f"{line}; known here: {', '.join(known)}" if known else line


def places_of(key: str, schema: dict[str, Any]) -> list[str]:
    """Return every setting of this name, by its path: `training.batch_size` and `decoding.batch_size`."""
    return [dotted(place) for place in _places(key.lower().replace("-", "_"), schema, schema, ())]


def _places(key: str, node: dict[str, Any], schema: dict[str, Any], path: Path) -> list[Path]:
    """Return every path in the schema that ends in `key`."""
    places: list[Path] = []
    for name, child in node.get("properties", {}).items():
        if name == key:
            places.append((*path, name))
        places += _places(key, resolve(child, schema), schema, (*path, name))
    return places


def resolve(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a node of the schema with its reference, if any, resolved; the node's own keys take precedence."""
    if "$ref" in node:
        target = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        return {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def lookup(schema: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the schema's node for a key path; empty if there is none."""
    node = schema
    for part in path:
        node = _with_parts(node, schema)
        if isinstance(part, int):
            items = node.get("prefixItems", [])
            node = items[part] if part < len(items) else node.get("items", {})
        else:
            node = node.get("properties", {}).get(part, {})
        node = resolve(node, schema)
    return node


def _with_parts(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return the node itself or, if it has alternatives, the one that has items or properties."""
    inner = [_with_parts(resolve(option, schema), schema) for option in node.get("anyOf", [])]
    return next((option for option in inner if "items" in option or "properties" in option), node)


def _choices(node: dict[str, Any], schema: dict[str, Any]) -> list[Any]:
    """Return all values that a node of the schema enumerates."""
    choices: list[Any] = list(node.get("enum", []))
    for option in node.get("anyOf", []):
        choices += _choices(resolve(option, schema), schema)
    return choices


def describe(node: dict[str, Any], schema: dict[str, Any], *, all_bounds: bool = False) -> str:
    """Return the allowed values in words: `a whole number of at least 1, or null`. all_bounds: Include the bounds that
    only a typing mistake exceeds (`section.MOST`)."""
    if "anyOf" in node:
        options = (describe(resolve(option, schema), schema, all_bounds=all_bounds) for option in node["anyOf"])
        return ", or ".join(options)
    if "enum" in node:
        return ("one of " if len(node["enum"]) > 1 else "") + ", ".join(map(str, node["enum"]))
    kind = node.get("type")
    if kind == "array":
        items = node.get("prefixItems")
        count = f"{len(items)} values" if items else "values"
        each = resolve(items[0] if items else node.get("items", {}), schema)
        return f"a list of {count}, each {describe(each, schema)}"
    bounds = [
        f"{text} {_number(node[key])}"
        for key, text in _BOUNDS.items()
        if key in node and (all_bounds or abs(node[key]) < MOST)
    ]
    if node.get("minLength"):
        bounds.append("that is not empty")
    return " ".join([_KINDS.get(str(kind), "something else"), " and ".join(bounds)]).strip()


_SECTION = "a section of keys and values"
_KINDS = dict(
    integer="a whole number", number="a number", boolean="true or false", string="text", null="null", object=_SECTION
)
_BOUNDS = dict(minimum="of at least", exclusiveMinimum="above", maximum="of at most", exclusiveMaximum="below")


def _number(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) or bound >= 1000 else f"{bound:g}"


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as text: `training.adam_betas[1]` for ("training", "adam_betas", 1)."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shorten(value: Any) -> str:
    """Return a value as it is written in YAML, on one line of at most 60 characters."""
    if isinstance(value, dict):
        return _SECTION
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
