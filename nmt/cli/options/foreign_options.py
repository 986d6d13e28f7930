"""Advice about an option that a command does not have: one of another toolkit, or one that is removed."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import chain

import click

_ARGUMENTS = {
    "CONFIG.yaml": ("config", "c"),
    "SRC TGT": ("src", "tgt", "train", "train-src", "train-tgt", "input"),
    "MODEL": ("model", "m", "models", "path"),
    "MODEL...": ("model", "m", "models", "load-only"),
    "[INPUT]...": ("src", "s", "input", "i"),
    "SOURCE": ("model", "input"),
}
"""Options of other toolkits that are arguments here, by the argument's name in `Usage`."""
_OPTIONS = dict(
    pair.split(":")
    for pair in """b:--beam-size n:--n-best s:--src t:--tgt m:--metric r:--ref i:--hyp print-alignment:--alignments
        report-align:--alignments unkpen:--no-unk generate-unk:--no-unk sampling-seed:--seed source-lang:--src-lang
        target-lang:--tgt-lang time:--budget hours:--budget max-time:--budget req-limit:--requests-per-minute
        char-limit:--max-characters batch-limit:--max-texts api-keys:--keys""".split()
)
"""Options of other toolkits that have another name here."""
_NEEDLESS = {
    **dict.fromkeys(("remove-bpe", "post-process"), "translations are plain text, whose subwords are joined"),
    **dict.fromkeys(("source-lang", "target-lang", "src-lang", "tgt-lang"), "a model knows its languages"),
    **dict.fromkeys(("vocab", "vocabs", "src-vocab", "tgt-vocab", "bpe-codes"), "a model has its subwords in it"),
    **dict.fromkeys(("train resume", "train continue"), "the same command again resumes a run"),
    "batch-type": "--batch-size counts sentences",
}
"""Options of other toolkits that are to be omitted, and why."""
_ONE_DASH = re.compile(r"-[a-z][a-z_]+|[–—]-?[a-z][a-z_-]+")
"""A long option as OpenNMT-py writes it, `-beam_size`, or with the dash of a word processor, `—beam-size`."""


def resolved(args: list[str], known: Set[str]) -> list[str]:
    """Return the arguments, whose `_ONE_DASH` options get two dashes. `known`: the command's own, as `--beam-size`."""
    end = args.index("--") if "--" in args else len(args)
    return [_resolved(word, known) for word in args[:end]] + args[end:]


def _resolved(word: str, known: Set[str]) -> str:
    name, equals, value = word.partition("=")
    if not _ONE_DASH.fullmatch(name):
        return word
    from nmt.config.removed import ours  # imported late, since --help must be fast

    plain = name.lstrip("-–—")
    long = plain.replace("_", "-")
    is_long = f"--{long}" in known or ours(plain) or long in {*chain(_OPTIONS, _NEEDLESS, *_ARGUMENTS.values())}
    return f"--{long}{equals}{value}" if is_long else word


def advice(name: str, command: click.Command, known: Set[str]) -> str | None:
    """Return what to do about an option that the command does not have: `did you mean ...?`, or another clause; None if
    the name is not known. `name`: the option as typed, without a value; `command`: the command that was given it;
    `known`: the command's own options."""
    from nmt.config.removed import instead

    plain = name.lstrip("-").replace("_", "-")
    if gone := instead(f"nmt-{command.name} --{plain}"):
        return f"it {gone}"
    meant = _meant(plain, command, known)
    needless = _NEEDLESS.get(plain) or _NEEDLESS.get(f"{command.name} {plain}", "")
    if meant or not needless or not known >= {*re.findall("--[a-z-]+", needless)}:
        return meant and f"did you mean {meant}?"
    return f"leave it out: {needless}"


def nearest(error: click.NoSuchOption, ctx: click.Context) -> click.NoSuchOption:
    """Return click's error with those of its guesses that have most letters in common with what was typed."""
    from difflib import SequenceMatcher

    typed = error.option_name.lstrip("-")
    close = [one for one in error.possibilities or () if SequenceMatcher(None, typed, one.lstrip("-")).ratio() >= 0.75]
    return click.NoSuchOption(error.option_name, possibilities=close, ctx=ctx)


def about_extra(words: Sequence[str], command: click.Command, known: Set[str]) -> str | None:
    """Return the message about arguments that the command does not take but has options for, or None."""
    for options in ("--src FILE", "--ref FILE"), ("--src FILE", "--tgt FILE"):
        if all(option.split()[0] in known for option in options):
            return f"{' and '.join(options)} name the files, got {' '.join(words)} without an option."
    for parameter in command.params:
        if "-o" in parameter.opts:
            return f"-o {parameter.metavar} names the output, got {' '.join(words)} without an option."
    return None


def _meant(name: str, command: click.Command, known: Set[str]) -> str | None:
    """Return what to write instead of an option of another toolkit; None if the name is not known."""
    for parameter in command.params:
        metavar = parameter.metavar or "" if isinstance(parameter, click.Argument) else ""
        for shown in metavar.split(" | "):
            if name in _ARGUMENTS.get(shown, ()):
                return f"{shown.strip('[].')} without an option"
    if (theirs := _OPTIONS.get(name)) in known:
        return theirs
    from nmt.config import config_schema
    from nmt.config.complaints import places_of
    from nmt.config.removed import ours

    meant = ours(name, "" if "--set" in known else "decoding")
    paths = meant.split(" or ") if meant else places_of(name, config_schema())
    if paths == ["model_dir"] and "-o" in known:
        return "-o DIR"
    own = dict.fromkeys(f"--{path.rpartition('.')[2].replace('_', '-')}" for path in paths)
    if len(own) == 1 and own.keys() <= set(known):
        return next(iter(own))
    return " or ".join(f"--set {path}=..." for path in paths) if "--set" in known and paths else None
