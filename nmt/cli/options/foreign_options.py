"""Options of other toolkits: some work here under their own names, others are answered by what to write instead."""

from __future__ import annotations

from collections.abc import Collection

import click

ALIASES = {
    "--beam": "--beam-size",
    "--num-beams": "--beam-size",
    "--nbest": "--n-best",
    "--num-return-sequences": "--n-best",
    "--temperature": "--sampling-temperature",
    "--top-k": "--sampling-topk",
    "--topk": "--sampling-topk",
    "--top-p": "--sampling-topp",
    "--topp": "--sampling-topp",
}
"""Names that mean the same here; --help does not list them."""

_HINTS = {
    **dict.fromkeys(("--gpu", "--gpus", "--cuda", "--gpuid", "--gpu-ranks", "--devices"), "--device cuda"),
    **dict.fromkeys(("--cpu", "--use-cpu"), "--device cpu"),
    **dict.fromkeys(("--fp16", "--half", "--bf16"), "--compute-dtype bfloat16"),
    "--int8": "--compute-dtype int8",
    "--cpu-threads": "--threads",
    "--num-threads": "--threads",
    "--workers": "--threads",
    "--models": "--ensemble",
    "--pivot": "--then",
    "--output-file": "--output",
    "--out": "--output",
    "-b": "--beam-size",
    "-n": "--n-best",
    "--attn-debug": "--plot-attention",
    "--report-align": "--alignments",
    "--print-alignment": "--alignments",
    "--alignment": "--alignments",
    "--phrase-table": "--dictionary",
    "--print-score": "--scores",
    "--with-score": "--scores",
    "--word-scores": "--output-format json",
    "--tgt-prefix": "--prefix",
    "--prefix-size": "--prefix",
    "--dynamic-dict": "--shortlist",
    "--restrict-lexicon": "--shortlist",
    "--metrics": "--metric",
    "--hypothesis": "--hyp",
    "--hypotheses": "--hyp",
    "--reference": "--ref",
    "--references": "--ref",
}
"""Options of other toolkits that are no aliases, with what to write here."""

_ARGUMENTS = {
    "CONFIG.yaml | SRC TGT | PAIRS.tsv": ("--config", "-config", "-c", "--cfg"),
    "MODEL_DIR": ("--model", "-m", "--model-dir", "--path", "--checkpoint-path", "--model-name-or-path"),
    "MODEL...": ("--model", "-m", "--models", "--load-only"),
    "[INPUT]...": ("--src", "-src", "--input", "-i", "--input-file"),
    "SOURCE": ("--model", "--input"),
}
"""Options of other toolkits that are arguments here, by the argument's name in `Usage`."""


def resolved(args: list[str], known: Collection[str]) -> list[str]:
    """Return the arguments with each alias replaced by the option that it means, if the command has that option.

    Args:
        args: The arguments as typed.
        known: The command's own options, such as `--beam-size`.
    """
    end = args.index("--") if "--" in args else len(args)
    return [_resolved(word, known) for word in args[:end]] + args[end:]


def _resolved(word: str, known: Collection[str]) -> str:
    name, equals, value = word.partition("=")
    ours = ALIASES.get(name)
    return f"{ours}{equals}{value}" if name not in known and ours in known else word


def advice(name: str, command: click.Command, known: Collection[str]) -> str | None:
    """Return what to write instead of an option that the command does not have; None if the name is not known.

    Args:
        name: The option as typed, without a value.
        command: The command that was given it.
        known: The command's own options.
    """
    for parameter in command.params:
        shown = parameter.metavar or "" if isinstance(parameter, click.Argument) else ""
        if name in _ARGUMENTS.get(shown, ()):
            return f"{shown.strip('[].')} without an option"
    hint = _HINTS.get(name)
    if hint is not None and hint.partition(" ")[0] in known:
        return hint
    from nmt.config import config_schema
    from nmt.config.complaints import places_of
    from nmt.config.foreign_names import ours

    key = name.lstrip("-").replace("-", "_")
    meant = ours(key)
    paths = [meant] if meant else places_of(key, config_schema())
    option = f"--{paths[0].rpartition('.')[2].replace('_', '-')}" if len(paths) == 1 else ""
    if option in known:
        return option
    return " or ".join(f"--set {path}=..." for path in paths) if paths and "--set" in known else None
