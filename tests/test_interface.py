"""docs/interface.txt is the public interface of today: no change of it goes unsaid."""

import difflib

import click
import pytest

from docs import interface


def test_the_interface_is_the_one_that_was_written_down():
    written, found = interface.PAGE.read_text("utf-8"), interface.interface_page()
    changes = [
        line
        for line in difflib.unified_diff(written.splitlines(), found.splitlines(), n=0, lineterm="")
        if line[0] != "@"
    ]
    assert not changes, "\n".join(
        ["the public interface has changed: run make docs, and say in CHANGELOG.md what users notice", *changes[2:]]
    )


def function(x: int, *, y: float = 0.5) -> str:
    return str(x + y)


class Parent:
    def inherited(self):
        return 1


class Child(Parent):
    z = 3

    @property
    def seen(self):
        return 2

    @classmethod
    def made(cls, a=object()):  # noqa: B008 - a default whose printed form differs in each process
        return cls()

    def _hidden(self):
        return 3


def test_a_signature_tells_names_kinds_and_defaults():
    assert interface.signature(function) == "(x: int, *, y: float = 0.5) -> str"
    assert interface.signature(Child.made) == "(a=...)"
    assert interface.signature(lambda xp=difflib: xp) == "(xp=difflib)"  # wherever the module lies


def test_members_are_public_ones_of_our_classes(monkeypatch):
    monkeypatch.setattr(Child, "__module__", "nmt.somewhere")
    assert list(interface.members("Child", Child)) == ["Child.made(a=...) [classmethod]", "Child.seen", "Child.z"]
    monkeypatch.setattr(Parent, "__module__", "nmt.elsewhere")
    assert "Child.inherited(self)" in list(interface.members("Child", Child))


@pytest.mark.parametrize(
    "parameter, line",
    [
        (click.Option(["--kind", "-k"], type=click.Choice(["a", "b"])), "--kind -k, a|b"),
        (click.Option(["--on/--off"]), "--on --off, flag"),
        (click.Option(["--n"], type=click.IntRange(1, 9), multiple=True), "--n, integer range, from 1 to 9, repeated"),
        (click.Argument(["path"], required=True), "PATH, text, required"),
    ],
)
def test_a_parameter_tells_what_it_takes(parameter, line):
    assert interface.parameter_line(parameter) == line


def test_settings_of_sections_have_dotted_paths():
    schema = {
        "properties": {"a": {"default": 1}, "s": {"anyOf": [{"$ref": "#/$defs/S"}, {"type": "null"}]}},
        "$defs": {"S": {"properties": {"b": {}, "c": {"default": None}}}},
    }
    assert list(interface.setting_lines(schema, schema)) == ["a = 1", "s.b", "s.c = null"]


def test_versions_of_formats_are_found():
    assert "nmt.storage.tensor_file.FORMAT_VERSION = 1" in list(interface.format_lines())
