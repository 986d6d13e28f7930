"""Random settings at their extremes, many at once: they give a config or one line, whatever they say of one another,
and what is a config can be asked what a run asks of it before it reads a text."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nmt.config import config_from_dict, config_schema, dump_config
from nmt.config.complaints import resolve
from nmt.config.yaml_text import parse_yaml
from nmt.errors import NMTError
from nmt.train.planning.lengths import doubts, fixed_training
from nmt.train.tasks.prepare import check_trainable
from nmt.train.updates.schedule import make_schedule

SCHEMA = config_schema()
WRONG = [
    None,
    True,
    "",
    "auto",
    -1,
    0,
    0.5,
    10**30,
    float("nan"),
    float("inf"),
    [],
    [1],
    {},
    {"a": 1},
    "~",
    "\ud800",
    3,
]
SAFE = {"rnn_type": ["lstm", "gru"]}
"""Names that would be imported are left out: a name is text."""


def leaves(node: dict[str, Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], dict[str, Any]]:
    """Every setting with its node of the schema."""
    found = {}
    for name, child in node.get("properties", {}).items():
        inner = resolve(child, SCHEMA)
        found |= leaves(inner, (*path, name)) if "properties" in inner else {(*path, name): inner}
    return found


LEAVES = leaves(SCHEMA)


def value_for(node: dict[str, Any], rng: random.Random, name: str) -> Any:
    """A value that the setting may have by itself, most of the time one of its extremes."""
    node = resolve(node, SCHEMA)
    if name in SAFE:
        return rng.choice(SAFE[name])
    if "anyOf" in node:
        return value_for(rng.choice(node["anyOf"]), rng, name)
    if "enum" in node:
        return rng.choice(node["enum"])
    if "const" in node:
        return node["const"]
    kind = node.get("type")
    if kind in ("integer", "number"):
        least = node.get("minimum", node.get("exclusiveMinimum", -1000))
        most = min(node.get("maximum", node.get("exclusiveMaximum", 10**6)), 10**9)
        inside = [least, most, least + 1, (least + most) / 2, 1, 2, 3, 8]
        chosen = rng.choice(inside)
        return int(chosen) if kind == "integer" else float(chosen)
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "array":
        items = node.get("prefixItems") or [node.get("items", {})] * rng.randrange(3)
        return [value_for(item, rng, name) for item in items]
    if kind == "object":
        return {key: value_for(one, rng, key) for key, one in node.get("properties", {}).items() if rng.random() < 0.5}
    return None if kind == "null" else rng.choice(["x", "bleu", "2 GiB", "a b", "~/x"])


def settings(rng: random.Random) -> dict[str, Any]:
    """Texts, and some other settings; now and then one that is wrong by itself."""
    sides = {"src": {"lang": "a"}, "tgt": {"lang": "b"}}
    values: dict[str, Any] = {"model_dir": "x", "data": {"train": "t", "dev": "d", **sides}}
    share = rng.choice([0.02, 0.05, 0.3])
    for path, node in LEAVES.items():
        if path in (("data", "src", "lang"), ("data", "tgt", "lang"), ("preset",)) or rng.random() > share:
            continue
        section = values
        for part in path[:-1]:
            section = section.setdefault(part, {})
        section[path[-1]] = rng.choice(WRONG) if rng.random() < 0.03 else value_for(node, rng, path[-1])
    return values


def ask(config: Any) -> None:
    """What a run asks before it reads a text, and when it knows how much there is."""
    check_trainable(config)
    for count in (1, 100):
        fixed = fixed_training(config.training, SimpleNamespace(size=3, num_updates=lambda epoch, n=count: n))
        doubts(config, fixed)
        schedule = make_schedule(fixed)
        assert all(rate >= 0 for rate in (schedule.learning_rate(update) for update in (1, 2, 1000)))


def outcome(do: Callable[[], Any]) -> Any:
    """What came of it; None where that is one line of complaint."""
    try:
        return do()
    except NMTError as error:
        assert str(error) and "\n" not in str(error) and len(str(error)) < 1000, str(error)
        return None


@pytest.mark.parametrize("seed", range(5))
def test_random_settings_are_a_config_or_one_line(seed: int) -> None:
    rng, good = random.Random(seed), 0
    for _ in range(240):
        values = settings(rng)
        config = outcome(lambda values=values: config_from_dict(values))
        if config is None:
            continue
        good += 1
        again = config_from_dict(parse_yaml(dump_config(config)))
        assert again.to_dict() == config.to_dict(), values
        outcome(lambda config=config: ask(config))
        if good == 4:
            return
    pytest.fail(f"{good} of 240 random configs are valid")
