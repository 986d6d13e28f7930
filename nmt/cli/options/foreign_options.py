"""Options of other toolkits: some work here under their own names, others are answered by what to write instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

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

_HINTS: dict[str, str | tuple[str, ...]] = {
    **dict.fromkeys(
        ("--gpu", "--gpus", "--cuda", "--use-cuda", "--gpuid", "--gpu-ranks", "--devices"), "--device cuda"
    ),
    **dict.fromkeys(("--cpu", "--use-cpu"), "--device cpu"),
    **dict.fromkeys(("--fp16", "--half", "--bf16"), "--compute-dtype bfloat16"),
    **dict.fromkeys(("--int8", "--load-in-8bit", "--gemm-type"), "--compute-dtype int8"),
    "--cpu-threads": "--threads",
    "--num-threads": "--threads",
    "--workers": "--threads",
    "--models": "--ensemble",
    "--pivot": "--then",
    "--output-file": "--output",
    "--out": "--output",
    "-b": "--beam-size",
    "-n": ("--n-best", "--last"),
    "--max-tokens": "--batch-size",
    **dict.fromkeys(
        ("--num-epoch-checkpoints", "--num-update-checkpoints", "--num-checkpoints", "--checkpoints"), "--last"
    ),
    **dict.fromkeys(("--quantization", "--quantize"), "--compute-dtype int8"),
    "--format": "--to",
    **dict.fromkeys(("--n-trials", "--num-trials", "--trials"), "--grid KEY=V1,V2"),
    "-m": "--metric",
    "-t": ("--test-set NAME:PAIR", "--tgt"),
    "-s": "--src",
    **dict.fromkeys(("-l", "--language-pair"), "--test-set NAME:PAIR"),
    **dict.fromkeys(("-i", "--input", "--sys"), "--hyp"),
    "-r": "--ref",
    "--attn-debug": "--plot-attention",
    "--report-align": "--alignments",
    "--print-alignment": "--alignments",
    "--alignment": "--alignments",
    "--return-attention": "--alignments",
    "--normalize": "--length-penalty",
    "--max-length": "--max-length-ratio",
    "--phrase-table": "--dictionary",
    "--print-score": "--scores",
    "--with-score": "--scores",
    "--word-scores": "--output-format json",
    **dict.fromkeys(("--tgt-prefix", "--tgt-file-prefix", "--prefix-size", "--force-decode"), "--prefix"),
    "--decoder-input-ids": "--prefix",
    "--force-words-ids": "--constraints",
    "--dynamic-dict": "--shortlist",
    "--restrict-lexicon": "--shortlist",
    "--metrics": "--metric",
    "--hypothesis": "--hyp",
    "--hypotheses": "--hyp",
    "--reference": "--ref",
    "--references": "--ref",
    "--req-limit": "--requests-per-minute",
    "--char-limit": "--max-characters",
    "--batch-limit": "--max-texts",
    "--alternatives-limit": "--max-alternatives",
    "--api-keys": "--keys",
}
"""Options of other toolkits that are no aliases, with what to write here: the first that the command has."""

_PROGRESS = "--progress", "--show-progress"
_SHOWS = "leave it out: progress is shown, and -q turns it off"
_RESUMES = "run the same command again: it resumes"
_FROM = f"{_RESUMES}; --set training.load_model=DIR starts a new run from a trained model"
_ANSWERS: dict[str, dict[str, str]] = {
    "train": {
        **dict.fromkeys(("--data", "--data-dir"), "give SRC TGT, or a CONFIG.yaml that names the corpora"),
        **dict.fromkeys(("--resume", "--continue", "--auto-resume"), _RESUMES),
        **dict.fromkeys(("--train-from", "--restore-file", "--resume-from-checkpoint"), _FROM),
        **dict.fromkeys(
            ("--overwrite", "--overwrite-output", "--overwrite-output-dir", "--no-restore-file"),
            "choose a new folder: a run is never overwritten; or delete that folder first",
        ),
        "--ranks": "mpiexec -n N nmt-train ... --set training.max_minutes=2 measures N ranks",
    },
    "translate": {
        **dict.fromkeys(
            ("--remove-bpe", "--post-process", "--detokenize", "--detok", "--bpe", "--bpe-codes", "--tokenizer"),
            "leave it out: the output is plain text",
        ),
        **dict.fromkeys(
            ("--src-lang", "--tgt-lang", "--source-lang", "--target-lang"), "leave it out: a model has its languages"
        ),
    },
    "sweep": {"--budget": "--set training.max_minutes=... limits each run"},
    "evaluate": {
        **dict.fromkeys(("-b", "--score-only"), "--json writes the scores for programs"),
        **dict.fromkeys(
            ("--ensemble", "--models", "--checkpoints"),
            "--hyp FILE scores what nmt-translate wrote with an ensemble; nmt-average makes one model of checkpoints",
        ),
    },
    "average": {"--inputs": "MODEL is given without an option, and --last or --best chooses its checkpoints"},
    "quantize": dict.fromkeys(
        ("--out-type", "--quantization", "--dtype", "--gemm-type"), "leave it out: the matrices become int8"
    ),
}
"""Options of other toolkits, and of earlier versions, that have no counterpart, by command, with what to do."""

_ARGUMENTS = {
    "CONFIG.yaml": ("--config", "-c", "--cfg"),
    "SRC TGT": ("--train-sets", "--src", "--train-src", "--source"),
    "MODEL": ("--model", "-m", "--model-dir", "--path", "--checkpoint-path", "--model-name-or-path"),
    "MODEL...": ("--model", "-m", "--models", "--load-only"),
    "[INPUT]...": ("--src", "-s", "--source", "--input", "--inputs", "-i", "--input-file"),
    "SOURCE": ("--model", "--input"),
}
"""Options of other toolkits that are arguments here, by the argument's name in `Usage`."""
_ONE_DASH = re.compile(r"-[a-z][a-z_]+")
"""A long option as OpenNMT-py writes it: `-beam_size`."""


def resolved(args: list[str], known: Collection[str]) -> list[str]:
    """Return the arguments with each alias replaced by the option that it means, if the command has that option.
    `args`: the arguments as typed; `known`: the command's own options, such as `--beam-size`."""
    end = args.index("--") if "--" in args else len(args)
    return [_resolved(word, known) for word in args[:end]] + args[end:]


def _resolved(word: str, known: Collection[str]) -> str:
    name, equals, value = word.partition("=")
    if _ONE_DASH.fullmatch(name):
        long = "-" + name.replace("_", "-")
        tables: list[Collection[str]] = [ALIASES, _HINTS, *_ANSWERS.values(), *_ARGUMENTS.values(), _PROGRESS]
        foreign = any(long in names for names in tables)
        name = long if long in known or foreign or meant_setting(long) else name
        word = name + equals + value
    ours = ALIASES.get(name)
    return f"{ours}{equals}{value}" if name not in known and ours in known else word


def advice(name: str, command: click.Command, known: Collection[str]) -> str | None:
    """Return what to do about an option that the command does not have: `did you mean ...?`, or another clause; None if
    the name is not known.

    Args:
        name: The option as typed, without a value.
        command: The command that was given it.
        known: The command's own options.
    """
    plain = "--" + name.lstrip("-").replace("_", "-") if len(name) > 2 else name
    answer = _ANSWERS.get(str(command.name), {}).get(plain) or (_SHOWS if plain in _PROGRESS else None)
    if answer is None and "--set" in known:
        from nmt.config.foreign_names import NOT_HERE

        answer = NOT_HERE.get(plain.lstrip("-").replace("-", "_"))
    meant = None if answer else _meant(plain, command, known)
    return answer or (meant and f"did you mean {meant}?")


def nearest(error: click.NoSuchOption, ctx: click.Context) -> click.NoSuchOption:
    """Return click's error with those of its guesses that have most letters in common with what was typed."""
    from difflib import SequenceMatcher

    typed = error.option_name.lstrip("-")
    close = [one for one in error.possibilities or () if SequenceMatcher(None, typed, one.lstrip("-")).ratio() >= 0.75]
    return click.NoSuchOption(error.option_name, possibilities=close, ctx=ctx)


def about_extra(words: Sequence[str], command: click.Command, known: Collection[str]) -> str | None:
    """Return the message about arguments that the command does not take but has options for, or None."""
    for options in ("--src FILE", "--ref FILE"), ("--src FILE", "--tgt FILE"):
        if all(option.split()[0] in known for option in options):
            return f"{' and '.join(options)} name the files, got {' '.join(words)} without an option."
    for parameter in command.params:
        if "-o" in parameter.opts:
            return f"-o {parameter.metavar} names the output, got {' '.join(words)} without an option."
    return None


def _meant(name: str, command: click.Command, known: Collection[str]) -> str | None:
    """Return what to write instead of an option of another toolkit; None if the name is not known."""
    for parameter in command.params:
        metavar = parameter.metavar or "" if isinstance(parameter, click.Argument) else ""
        for shown in metavar.split(" | "):
            if name in _ARGUMENTS.get(shown, ()):
                return f"{shown.strip('[].')} without an option"
    hints = _HINTS.get(name, ())
    for hint in (hints,) if isinstance(hints, str) else hints:
        if hint.partition(" ")[0] in known:
            return hint
    from nmt.config import config_schema
    from nmt.config.complaints import places_of

    meant = meant_setting(name)
    word = " and " if meant and " and " in meant else " or "
    paths = meant.split(word) if meant else places_of(name.lstrip("-"), config_schema())
    key, _, value = (paths[0] if len(paths) == 1 else "").partition(": ")
    if key == "model_dir" and "-o" in known:
        return "-o DIR"
    option = f"--{key.rpartition('.')[2].replace('_', '-')}"
    if option in known:
        return f"{option} {value}".rstrip()
    return word.join(map(_as_override, paths)) if paths and "--set" in known else None


def meant_setting(name: str) -> str | None:
    """Return the settings that an option of another toolkit means, as in `nmt.config.foreign_names`; None if it is not
    known."""
    from nmt.config.foreign_names import ours

    return ours(name.lstrip("-"))


def _as_override(path: str) -> str:
    """Return a setting, such as `training.updates` or `training.loggers: [wandb]`, as it is given to --set."""
    key, _, value = path.partition(": ")
    return f"--set {key}={value or '...'}"
