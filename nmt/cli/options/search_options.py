"""Search options of nmt-translate and nmt-generate, each for a key of the `decoding` section."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nmt.cli.options.command import NumberSetting, Setting, WholeSetting
from nmt.cli.options.path_types import InputPath

if TYPE_CHECKING:
    from nmt.config import DecodingConfig


def _option(name: str, kind: Any, text: str, key: str, default: object) -> tuple[str, Callable[[Any], Any]]:
    """Return the key and the click option for it. `kind`: a type of click, or a partial that is called with the
    setting's path."""
    shown = f"decoding.{key} of the config, or {default}"
    kind = kind(f"decoding.{key}") if isinstance(kind, partial) else kind
    return key, click.option(name, key, type=kind, default=None, show_default=shown, help=text)


_COUNT, _LENGTH = partial(WholeSetting, least=0), partial(WholeSetting, least=0, most=100_000)
_BEAM, _SAMPLES = partial(WholeSetting, least=1, most=1000), partial(WholeSetting, least=1, most=10_000)
_ANY, _WEIGHT, _ABOVE = partial(Setting, name="float"), partial(NumberSetting), partial(NumberSetting, above=True)
_RATIO, _NUCLEUS = partial(NumberSetting, most=1000, above=True), partial(NumberSetting, most=1, above=True)
_TEMPERATURE = partial(NumberSetting, least=0.001, most=1000)


_MEASURE = click.Choice(["none", "chrf", "bleu"])
_OPTIONS = [
    _option("--min-length", _LENGTH, "Minimum length of a translation, in subwords.", "min_length", 0),
    _option(
        "--max-length-ratio",
        _RATIO,
        "Maximum length of a translation, in subwords per source subword ...",
        "max_length_ratio",
        2.0,
    ),
    _option("--max-length-extra", _LENGTH, "... plus this many subwords.", "max_length_extra", 10),
    _option("--word-reward", _ANY, "Bonus added to the score for each subword.", "word_reward", 0.0),
    _option(
        "--word-reward-bounded/--word-reward-unbounded",
        None,
        "Stop the word reward at the length expected from the training text.",
        "word_reward_bounded",
        "false",
    ),
    _option(
        "--coverage-penalty", _WEIGHT, "Penalty for untranslated source words (GNMT's beta).", "coverage_penalty", 0.0
    ),
    _option(
        "--no-repeat-ngram-size",
        _LENGTH,
        "Never repeat an n-gram of this many subwords; 0 allows repeats.",
        "no_repeat_ngram_size",
        0,
    ),
    _option(
        "--repetition-penalty",
        _ABOVE,
        "Above 1, makes subwords that were already produced less likely.",
        "repetition_penalty",
        1.0,
    ),
    _option(
        "--beam-groups", _BEAM, "Number of groups for diverse beam search; must divide --beam-size.", "beam_groups", 1
    ),
    _option(
        "--diversity-strength",
        _WEIGHT,
        "Penalty for choosing tokens that earlier beam groups chose.",
        "diversity_strength",
        0.5,
    ),
    _option(
        "--sampling/--no-sampling", None, "Sample translations instead of running beam search.", "sampling", "false"
    ),
    _option(
        "--sampling-temperature",
        _TEMPERATURE,
        "Sampling temperature; below 1 favours likely subwords.",
        "sampling_temperature",
        1.0,
    ),
    _option("--sampling-topk", _COUNT, "Sample from the K most likely subwords; 0 means all.", "sampling_topk", 0),
    _option(
        "--sampling-topp",
        _NUCLEUS,
        "Sample from the smallest set of subwords with this total probability.",
        "sampling_topp",
        1.0,
    ),
    _option("--seed", _COUNT, "Random seed for sampling.", "sampling_seed", 0),
    _option("--mbr", _MEASURE, "Choose the candidate closest to the others (minimum Bayes risk).", "mbr", "none"),
    _option("--mbr-samples", _SAMPLES, "With --mbr and --sampling: number of samples per line.", "mbr_samples", 32),
    _option(
        "--glossary-bonus", _WEIGHT, "Bonus added to the score for each glossary phrase used.", "glossary_bonus", 8.0
    ),
]


_NEEDED = {
    "sampling_temperature": ("--sampling", "sampling", False),
    "sampling_topk": ("--sampling", "sampling", False),
    "sampling_topp": ("--sampling", "sampling", False),
    "sampling_seed": ("--sampling", "sampling", False),
    "mbr_samples": ("--mbr and --sampling", "sampling", False),
    "diversity_strength": ("--beam-groups", "beam_groups", 1),
    "word_reward_bounded": ("--word-reward", "word_reward", 0.0),
}
"""Options that have no effect without another one: that option, its setting, and the value that means it is off."""


def tell_unused(given: dict[str, Any], decoding: DecodingConfig) -> None:
    """Warn about options that were given but have no effect; `given` has None for a key whose option was not given."""
    from nmt.cli.lines.streams import tell

    for key, (needed, setting, left_out) in _NEEDED.items():
        value = given.get(setting)
        value = getattr(decoding, setting) if value is None else value
        if given.get(key) is not None and value == left_out:
            name = "--seed" if key == "sampling_seed" else "--" + key.replace("_", "-")
            tell(f"warning: {name} changes nothing without {needed}")


_OF_A_MODEL = (
    *("shortlist", "lm", "lm_weight", "beam_size", "length_penalty", "batch_size", "checkpoint"),
    *("compute_dtype", "threads", "device", "cells"),
)
_NEEDED_PARAMETERS: dict[str, tuple[str, str | None]] = {
    "column": ("a table", None),
    "output_column": ("a table", None),
    "alignment_type": ("--alignments", "alignments"),
    "split": ("--format", "form"),
    "ensemble_average": ("--ensemble", "ensemble"),
    "glossary_bonus": ("--glossary", "glossary"),
    "differences": ("--compare", "compare"),
    **dict.fromkeys(_OF_A_MODEL, ("MODEL_DIR", "model_dir")),
}
"""For each parameter: what it needs to have an effect, and the parameter for that, None if the command has none."""


def tell_needs() -> None:
    """Warn about options on the command line of the running command that have no effect without another one."""
    from nmt.cli.lines.streams import tell

    context = click.get_current_context()
    typed = {one.name: one for one in context.command.params if _is_typed(context, one)}
    for key, (needed, parameter) in _NEEDED_PARAMETERS.items():
        if key in typed and parameter not in typed:
            tell(f"warning: {max(typed[key].opts, key=len)} changes nothing without {needed}")


def _is_typed(context: click.Context, param: click.Parameter) -> bool:
    return context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE


def language_model_options() -> Callable[[Any], Any]:
    """Return the language model options, shared by all commands that compute probabilities of translations."""
    _, weight = _option("--lm-weight", _WEIGHT, "Weight of the language model; 0 turns it off.", "lm_weight", 0.1)

    def decorate(function: Any) -> Any:
        lm = click.option(
            "--lm",
            type=InputPath(),
            metavar="MODEL",
            show_default="decoding.lm of the config, or none",
            help="Target-side language model for shallow fusion (must share the target vocabulary): "
            "a model folder or a file of nmt-bundle.",
        )
        return lm(weight(function))

    return decorate


def search_options(*keys: str) -> Callable[[Any], Any]:
    """Return the search options other than `beam_options`: for these keys of the section, or for all."""

    def decorate(function: Any) -> Any:
        for key, option in reversed(_OPTIONS):
            function = option(function) if key in keys or not keys else function
        return function

    return decorate
