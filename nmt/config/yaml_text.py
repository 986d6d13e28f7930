"""Conversion of YAML to plain values and back, by the rules of YAML 1.2.

PyYAML follows 1.1, where `1e-3` is text, `no` (a language code) is false and `010` is eight. A duplicate key is an
error here: the first one would be lost silently.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

_RULES: list[tuple[str, str, str]] = [
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9][0-9_]*$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        "-+.0123456789",
    ),
    ("tag:yaml.org,2002:merge", r"^<<$", "<"),
]


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the rules in PyYAML's form: a table from first characters to tags with their patterns."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, pattern, first in _RULES:
        for char in first:
            table.setdefault("" if char == "\0" else char, []).append((tag, re.compile(pattern)))
    return table


def _loader_on(base: Any) -> Any:
    """Return a safe loader of PyYAML with our rules."""

    class Loader(base):  # type: ignore[misc]  # one of two classes
        yaml_implicit_resolvers = _resolvers()

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[Hashable] = set()
            for key_node, _ in node.value:
                if isinstance(key_node, yaml.ScalarNode) and key_node.value != "<<":
                    if key_node.value in seen:
                        what = f"the key {key_node.value!r} is given twice"
                        raise yaml.constructor.ConstructorError(None, None, what, key_node.start_mark)
                    seen.add(key_node.value)
            mapping: dict[Hashable, Any] = super().construct_mapping(node, deep)
            return mapping

    Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value.replace("_", "")))
    Loader.add_constructor(
        "tag:yaml.org,2002:float",
        lambda loader, node: float(node.value.replace("_", "").replace(".inf", "inf").replace(".nan", "nan")),
    )
    return Loader


class _Dumper(yaml.SafeDumper):
    # The same rules, so that text which our loader would read as a number is quoted.
    yaml_implicit_resolvers = _resolvers()


_Loader = _loader_on(yaml.SafeLoader)
_FastLoader = _loader_on(getattr(yaml, "CSafeLoader", yaml.SafeLoader))
"""By libyaml, where it is there: eight times as fast."""
_MOST_DEPTH = 100
"""Nesting up to which libyaml is used: its recursion would overflow the stack, where Python's ends in an error."""
# PyYAML's own parser takes a minute for a vocabulary where libyaml's takes a second.
_AS_WRITTEN: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def parse_yaml(text: str) -> Any:
    """Return the plain value of a YAML text. Raises ValueError with one line, `line N: what is wrong`."""
    try:
        if _suits_libyaml(text):
            return yaml.load(text, Loader=_FastLoader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, ValueError):
        pass  # the other parser says what is wrong
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506  (a SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(_one_line(error)) from None


def _suits_libyaml(text: str) -> bool:
    """Return whether libyaml reads a text as PyYAML's own parser does, and without overflowing the stack. The two
    differ in tabs and byte-order marks. Raises YAMLError."""
    depth = 0
    for event in yaml.parse(text, Loader=_AS_WRITTEN) if "\t" not in text and "\ufeff" not in text else ():
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MOST_DEPTH or isinstance(event, yaml.StreamEndEvent):
            return depth == 0
    return False


def parse_written_pairs(text: str) -> list[tuple[str, str]]:
    """Return keys and values of a YAML mapping as written: `no` and `1.5` are text. Raises ValueError for another."""
    found: list[str] = []
    try:
        # Events suffice, since nothing is nested here; libyaml's composer is recursive and could overflow the stack.
        for event in yaml.parse(text, Loader=_AS_WRITTEN):
            if isinstance(event, yaml.ScalarEvent):
                found.append(event.value)
            elif isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent) or (
                isinstance(event, yaml.MappingStartEvent) and found
            ):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ValueError(f"line {line}: a value that is not plain text")
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(_one_line(error)) from None
    if len(found) % 2:
        raise ValueError("no names with values")
    return list(zip(found[::2], found[1::2], strict=True))


def _one_line(error: Exception) -> str:
    """Return a YAML error as `line N: what is wrong`."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return (f"line {mark.line + 1}: " if mark else "") + " ".join(str(problem).split())


def format_yaml(value: Any) -> str:
    """Return a plain value as YAML text, with keys in order; `parse_yaml` returns an equal value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=100)
