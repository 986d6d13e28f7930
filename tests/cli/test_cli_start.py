"""What a command loads before there is work to do, and what its help promises."""

import os
import subprocess
import sys

import click
import pytest

from nmt.cli.options.command import Setting
from nmt.config import config_schema
from nmt.config.complaints import lookup
from nmt.config.section import MOST

COMMANDS = {
    name: f"nmt-{name}"
    for name in ("train", "translate", "evaluate", "score", "generate", "average", "shortlist", "bundle")
}
HEAVY = {"numpy", "numba", "pydantic", "yaml", "sacrebleu", "rich", "sentencepiece", "safetensors"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_loads_nothing_heavy(name: str) -> None:
    program = (
        "import sys\n"
        f"from nmt.cli.commands.{name} import {name} as command\n"
        f"command(['--help'], prog_name={COMMANDS[name]!r}, standalone_mode=False)\n"
        "print('loaded:', *sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    shown, _, loaded = done.stdout.partition("loaded:")
    assert "nmt" in loaded.split()
    assert not HEAVY & set(loaded.split())
    assert f"Usage: {COMMANDS[name]} [OPTIONS]" in shown
    assert "Example" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    module = __import__(f"nmt.cli.commands.{name}", fromlist=[name])
    command: click.Command = getattr(module, name)
    options = [param for param in command.params if isinstance(param, click.Option)]
    assert options
    for option in options:
        assert option.help, option.name
    exempt = {"version", "scores", "lowercase", "as_json", "n_best", "overrides"}
    for option in options:
        has_default = option.default is not None or option.show_default not in (None, True, False)
        files = option.metavar == "FILE"
        assert has_default or files or option.name in exempt, f"{option.name} hides its default"


@pytest.mark.parametrize("name", COMMANDS)
def test_ranges_in_help_are_those_of_the_schema(name: str) -> None:
    module = __import__(f"nmt.cli.commands.{name}", fromlist=[name])
    for option in getattr(module, name).params:
        if isinstance(option.type, Setting):
            node = lookup(config_schema(), option.type.path.split("."))
            node = next((kind for kind in node.get("anyOf", []) if kind.get("type") == "integer"), node)
            bounds = {key: node.get(key) for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")}
            known = {key: value for key, value in bounds.items() if value is not None and abs(value) < MOST}
            if isinstance(option.type, click.IntRange | click.FloatRange):
                shown = {
                    "exclusiveMinimum" if option.type.min_open else "minimum": option.type.min,
                    "exclusiveMaximum" if option.type.max_open else "maximum": option.type.max,
                }
                assert {key: value for key, value in shown.items() if value is not None} == known, option.name
            else:
                assert not known, f"{option.name} hides its range"


@pytest.mark.parametrize(("name", "value", "line"), [("NUMBA_DISABLE_JIT", "1", "NUMBA_DISABLE_JIT: must be 0")])
def test_an_environment_that_compiles_nothing_is_one_line(name, value, line, tmp_path):
    code = "from nmt.cli.entry import cache; cache()"
    environment = {**os.environ, name: value, "NMT_CACHE_DIR": str(tmp_path)}
    words = [sys.executable, "-c", f"import sys; sys.argv = ['nmt-cache', 'fill']; {code}"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert line in done.stderr
