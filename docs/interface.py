"""Writes docs/interface.txt, the public interface: what may not change unsaid.

It lists the names that `nmt`, `nmt.rnn` and `nmt.decode` export, with their signatures; arguments and options of the
commands; settings and their defaults; version numbers of the file formats. tests/test_tour.py compares it with the
code, and docs/versioning.md says what a change of it means. Run by `make docs`.
"""

import ast
import enum
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from nmt.cli.entry import COMMANDS
from nmt.cli.front import load_command
from nmt.config import config_schema
from nmt.system.files import write_bytes

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "interface.txt"
PACKAGES = ("nmt", "nmt.rnn", "nmt.decode")
HEADER = "# The public interface; written by `make docs`, explained in docs/versioning.md.\n"


# ---------------------------------------------------------------- Python


def signature(value: Any) -> str:
    """How something is called, in the words of its source. A module is its name; values that have no words of their
    own, whose printed form would be another in each process, are `...`."""
    if hasattr(value, "model_fields"):
        return "(**settings)"  # the section of settings below; how pydantic prints them differs between versions
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    text = re.sub(r"<module '([\w.]+)' from '[^']*'>", r"\1", str(found))
    return re.sub(r"<[^<>]* at 0x[0-9a-f]+>", "...", text)


def members(name: str, owner: type) -> Iterator[str]:
    """A line for each public member that a class of ours defines or inherits from one of ours."""
    ours = [one for one in owner.__mro__ if one.__module__.split(".")[0] == "nmt"]
    public = {key for one in ours for key in vars(one) if not key.startswith("_")}
    for member in sorted(public - {"model_config"}):  # pydantic's
        value = inspect.getattr_static(owner, member)
        if isinstance(value, staticmethod | classmethod):
            yield f"{name}.{member}{signature(getattr(owner, member))} [{type(value).__name__}]"
        elif inspect.isfunction(value):
            yield f"{name}.{member}{signature(value)}"
        elif isinstance(value, enum.Enum):
            yield f"{name}.{member} = {value.value!r}"
        else:
            yield f"{name}.{member}"


def python_lines(package: str) -> Iterator[str]:
    """A line for each exported name of a package and for each public member of its classes."""
    module = importlib.import_module(package)
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if inspect.isclass(value):
            yield f"{package}.{name}{signature(value)} [class]"
            yield from members(f"{package}.{name}", value)
        elif callable(value):
            yield f"{package}.{name}{signature(value)}"
        else:
            yield f"{package}.{name}"


# ---------------------------------------------------------------- commands, settings, files


def parameter_line(parameter: click.Parameter) -> str:
    """An argument or option: its names, what it takes, and whether it repeats or must be there."""
    kind = parameter.type
    takes = "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name
    words = [" ".join([*parameter.opts, *parameter.secondary_opts])]
    if parameter.param_type_name == "argument":
        words = [str(parameter.human_readable_name).strip("[]")]
    flag = isinstance(parameter, click.Option) and parameter.is_flag
    words.append("flag" if flag else str(takes))
    if isinstance(kind, click.IntRange | click.FloatRange):
        words.append(f"from {kind.min} to {kind.max}")
    if parameter.multiple or parameter.nargs != 1:
        words.append("repeated")
    if parameter.required:
        words.append("required")
    return ", ".join(words)


def command_lines() -> Iterator[str]:
    """A line for each argument and option of each command."""
    for name in sorted(COMMANDS):
        yield f"nmt-{name}"
        yield from sorted(f"nmt-{name}: {parameter_line(parameter)}" for parameter in load_command(name).params)


def setting_lines(node: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """A line for each setting of a JSON schema: its dotted path and its default."""
    for key, child in sorted(node.get("properties", {}).items()):
        parts = [child, *child.get("anyOf", []), *child.get("allOf", [])]
        sections = [schema["$defs"][part["$ref"].rsplit("/", 1)[-1]] for part in parts if "$ref" in part]
        inner = [line for section in sections for line in setting_lines(section, schema, f"{prefix}{key}.")]
        if inner:
            yield from inner
        else:
            yield f"{prefix}{key} = {json.dumps(child['default'])}" if "default" in child else f"{prefix}{key}"


def format_lines() -> Iterator[str]:
    """A line for each constant of nmt whose name ends with FORMAT_VERSION."""
    for path in sorted((ROOT / "nmt").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            for target in node.targets if isinstance(node, ast.Assign) else ():
                if isinstance(target, ast.Name) and target.id.endswith("FORMAT_VERSION"):
                    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                    yield f"{module}.{target.id} = {ast.unparse(node.value)}"


def interface_page() -> str:
    """The whole page."""
    schema = config_schema()
    parts = {f"names of {package}": list(python_lines(package)) for package in PACKAGES}
    parts |= {
        "commands": list(command_lines()),
        "settings": list(setting_lines(schema, schema)),
        "file formats": list(format_lines()),
    }
    return HEADER + "".join(f"\n## {title}\n\n" + "\n".join(lines) + "\n" for title, lines in parts.items())


def main() -> None:
    """Write the page."""
    write_bytes(PAGE, interface_page().encode())


if __name__ == "__main__":
    main()
