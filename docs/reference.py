"""Write configs/reference.yaml: all settings with their meaning, from the schema."""

import textwrap
from typing import Any

from nmt.config.complaints import describe, lookup, resolve
from nmt.config.schema import config_schema
from nmt.config.yaml_text import format_yaml

_WIDTH = 100
_HEADER = """\
# yaml-language-server: $schema=schema.json
#
# All settings, with their meaning, allowed values and default.
# Copy the keys you want to change: a missing key has its default, and an unknown key is an
# error. On the command line, --set training.batch_size=2048 overrides one key.
# Paths are relative to the current folder.
#
# This file is written by docs/build.py, as schema.json for editors is.
"""


_FIRST = (
    *("preset", "model_dir", "data.train", "data.dev", "data.subwords.vocab_size", "model.decoder.hidden_size"),
    *("model.decoder.dropout", "training.learning_rate", "training.batch_size", "training.max_minutes"),
)
"""The settings that most people change."""


def reference_yaml() -> str:
    """Return a valid configuration in which a comment above each key explains it, after a list of those to begin
    with."""
    schema = config_schema()
    first = [line for name in _FIRST for line in _entry(name, schema)]
    begin = "#\n# Ten settings to begin with, and their defaults; all are explained below:\n"
    return _HEADER + begin + "\n".join([*first, *_section(schema, schema, 0, None)]) + "\n"


def _entry(name: str, schema: dict[str, Any]) -> list[str]:
    """Return the comment about one of the first settings: its default, and the first sentence about it."""
    node = lookup(schema, tuple(name.split(".")))
    default = _inline(node["default"]) if "default" in node else "required"
    sentence = str(node["description"]).partition(". ")[0].rstrip(".") + "."
    indent = "# " + " " * 34
    return textwrap.wrap(sentence, _WIDTH, initial_indent=f"# {name}: {default}".ljust(36), subsequent_indent=indent)


def _section(node: dict[str, Any], schema: dict[str, Any], depth: int, example: dict[str, Any] | None) -> list[str]:
    """Return the lines of a section: a comment for each key, then the key with the example's value or its default."""
    lines: list[str] = []
    for key, raw in node["properties"].items():
        child = resolve(raw, schema)
        required = key in node.get("required", [])
        value = (child.get("examples") or [None])[0] if required else child.get("default")
        if example and key in example:
            value = example[key]
        if depth < 2:
            lines.append("")
        lines += _comment(_text(child, schema, required), depth)
        if "properties" in child:
            given = value if isinstance(value, dict) else None
            lines += [f"{'  ' * depth}{key}:", *_section(child, schema, depth + 1, given)]
        else:
            lines.append(f"{'  ' * depth}{key}: {_inline(value)}")
    return lines


def _text(child: dict[str, Any], schema: dict[str, Any], required: bool) -> str:
    """Return the comment of a key: description, allowed values and default."""
    text = str(child["description"])
    if "properties" in child:
        return text
    what = describe(child, schema)
    what = what[0].upper() + what[1:]
    return f"{text} {what}; " + ("required." if required else f"default {_inline(child.get('default'))}.")


def _comment(text: str, depth: int) -> list[str]:
    indent = "  " * depth + "# "
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return format_yaml(value).removesuffix("...\n").strip()
