"""What a call may be given: the Python interface refuses what the commands and a config refuse, in one line."""

import random
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nmt.config import checked_value, config_from_dict, config_schema, dump_config
from nmt.config.complaints import resolve
from nmt.config.yaml_text import parse_yaml
from nmt.errors import ConfigError, DataError, NMTError
from nmt.inference.translator import Constraints, Translator
from nmt.rnn.cores import default_threads
from nmt.train.planning.lengths import doubts, fixed_training
from nmt.train.tasks.prepare import check_trainable
from nmt.train.updates.schedule import Schedule
from tests.refusals import refused
from tests.saved_models import sentences
from tests.settings import changed, settings_with

LINES = sentences(3, seed=5)
NAN, INF, HUGE = float("nan"), float("inf"), 10**30

BAD = {
    "beam_size": [0, -1, 2.5, "5", True, HUGE, NAN, INF, [5]],
    "batch_size": [0, -1, 2.5, "5", True, HUGE],
    "length_penalty": ["foo", -1, NAN, INF, True, HUGE],
    "max_length_ratio": [0, -1, NAN, INF, "2", True, HUGE],
    "max_length_extra": [-1, 2.5, HUGE],
    "min_length": [-1, 2.5, HUGE],
    "word_reward": [NAN, INF, -INF, "1", True, HUGE],
    "generate_unk": [0, "no"],
    "no_repeat_ngram_size": [-1, 1.5, HUGE],
    "repetition_penalty": [0, -1, NAN, INF, HUGE],
    "sampling": [1, "yes"],
    "sampling_temperature": [0, 1e-30, NAN, INF, HUGE],
    "sampling_topk": [-1, 0.5, HUGE],
    "sampling_topp": [0, 1.5, NAN],
    "sampling_seed": [-1, 0.5, HUGE],
    "mbr": ["ter", True],
    "mbr_samples": [0, HUGE],
    "glossary_bonus": [-1, NAN, INF],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD.items() for value in values])
def test_a_setting_of_a_call_is_checked_as_in_a_file(key, value, translator):
    told = refused(ConfigError, rf"decoding\.{key} must", settings_with, decoding={key: value})
    assert told == f"config: {refused(ConfigError, '', translator.translate, LINES, **{key: value})}"


@pytest.mark.parametrize("n_best", [0, -1, 2.5, "2", True, NAN, HUGE])
def test_how_many_are_asked_for(n_best, translator):
    for ask in (partial(translator.translate_nbest, LINES), partial(translator.session(LINES[0]).complete, "")):
        refused(ConfigError, "^n_best must be a whole number", ask, n_best=n_best)


def test_other_callers_are_as_strict(translator):
    refused(ConfigError, r"^decoding\.batch_size must be", translator.score, LINES, LINES, batch_size=0)
    for line in (LINES[0], ""):
        refused(ConfigError, r"^decoding\.beam_size must be", translator.session(line).complete, "", beam_size=0)


def test_numbers_of_numpy_are_numbers(translator):
    ours = {"beam_size": 3, "length_penalty": 0.5, "max_length_ratio": 1.5, "generate_unk": False}
    kinds = np.int64, np.float64, np.array, np.bool_
    theirs = {name: kind(value) for kind, (name, value) in zip(kinds, ours.items(), strict=True)}
    expected = translator.translate_nbest(LINES, n_best=2, **ours)
    assert translator.translate_nbest(LINES, n_best=np.int32(2), **theirs) == expected


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        ("one", "got one string"),
        (b"one", "got bytes"),
        (None, "got NoneType"),
        (5, "got int"),
        ({"a": "b"}, "got dict"),
        (["a", 1], "got int at place 1"),
        (["a", b"b"], "got bytes at place 1"),
        ([["a"]], "got list at place 0"),
    ],
)
def test_what_is_no_list_of_texts(given, fact, translator):
    for ask in (
        lambda: translator.translate_nbest(given),
        lambda: translator.score(given, LINES),
        lambda: translator.score(LINES, given),
    ):
        refused(TypeError, f"must be a list of strings, {fact}", ask)


def test_texts_may_come_one_by_one(translator):
    assert translator.translate(line for line in LINES) == translator.translate(LINES)
    assert translator.translate(np.array(LINES)) == translator.translate(LINES)


def test_constraints_and_targets_are_for_all_sentences(translator):
    with pytest.raises(DataError, match=r"Constraints\.prefixes: must have an entry for each sentence, 3, got 1"):
        translator.translate_nbest(LINES, constraints=Constraints(prefixes=["ka"]))
    refused(DataError, "as many sources as targets, got 3 and 2", translator.score, LINES, LINES[:2])


@pytest.mark.parametrize(
    "arguments",
    [
        *({"threads": wrong} for wrong in (0, -1, "x", 2.5, True, 100_000, HUGE)),
        {"compute_dtype": "foo"},
        {"compute_dtype": 1},
        {"device": "x"},
        {"checkpoint": 5},
    ],
)
def test_loading(arguments, folder):
    (name,) = arguments
    refused(ConfigError, f"^{name} must be", Translator.load, folder, **arguments)


def test_more_threads_than_cores_are_told_of(folder, caplog):
    cores = default_threads()
    assert Translator.load(folder, threads=cores).num_threads == cores
    assert caplog.messages == []
    assert Translator.load(folder, threads=1024).num_threads == cores
    (message,) = caplog.messages
    assert message.startswith(f"warning: threads: 1024 were asked for, got {cores}, one for each core;")


def test_a_value_by_itself_is_not_measured_by_the_defaults_of_others():
    assert checked_value("decoding.n_best", 7) == 7  # the default beam of 5 is not what it will meet


def test_what_was_allowed_once_allows_no_other_type():
    """Answers are remembered, and True == 1 == 1.0."""
    assert checked_value("decoding.n_best", 1) == 1
    for value in (True, 1.0):
        refused(ConfigError, "decoding.n_best must be a whole number", checked_value, "decoding.n_best", value)


def test_settings_of_a_call_that_were_allowed_once_allow_no_other_type(translator):
    assert translator.translate(["a"], beam_size=1) == translator.translate(["a"], beam_size=1)
    for value in (True, 1.0, 0):
        refused(ConfigError, "decoding.beam_size must be a whole number", translator.translate, ["a"], beam_size=value)


SCHEMA = config_schema()
WRONG = [None, True, "", "auto", -1, 0, 0.5, HUGE, NAN, INF, [], [1], {}, {"a": 1}, "~", "\ud800", 3]
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
        chosen = rng.choice([least, most, least + 1, (least + most) / 2, 1, 2, 3, 8])
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
    share, given = rng.choice([0.02, 0.05, 0.3]), {}
    for path, node in LEAVES.items():
        if path in (("data", "src", "lang"), ("data", "tgt", "lang"), ("preset",)) or rng.random() > share:
            continue
        given[".".join(path)] = rng.choice(WRONG) if rng.random() < 0.03 else value_for(node, rng, path[-1])
    return changed({"model_dir": "x", "data": {"train": "t", "dev": "d", **sides}}, given.items())


def ask(config: Any) -> None:
    """What a run asks before it reads a text, and when it knows how much there is."""
    check_trainable(config)
    for count in (1, 100):
        fixed = fixed_training(config.training, SimpleNamespace(size=3, num_updates=lambda epoch, n=count: n))
        doubts(config, fixed)
        schedule = Schedule(fixed)
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
        assert config_from_dict(parse_yaml(dump_config(config))).to_dict() == config.to_dict(), values
        outcome(lambda config=config: ask(config))
        if good == 4:
            return
    pytest.fail(f"{good} of 240 random configs are valid")
