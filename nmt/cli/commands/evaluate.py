"""nmt-evaluate: score translations, or translate and score."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines.judging import Given, check_lines_output, langs_by_names, langs_of, tell_doubts, tell_if_seen
from nmt.cli.lines.streams import check_apart, output_lines, say, tell, telling_notices, with_memory
from nmt.cli.options.command import Command, chooses, flag, running_options, table_of, table_options
from nmt.cli.options.path_types import INPUT, reads, writes
from nmt.cli.options.search_options import beam_options, tell_needs
from nmt.evaluate.scores import ALL_METRICS, METRICS, TOKENIZERS

if TYPE_CHECKING:
    from nmt.config import SideConfig
    from nmt.inference.translator import Translator


_OUTPUTS = ("-o", "output"), ("--tsv", "tsv"), ("--plot-confidence", "plot_confidence")
OF_LETTERS = "wer", "per", "accuracy", "chrf"
"""The metrics for models that read and write letters: BLEU of single words is theirs that are right, or nothing."""


class MetricNames(click.ParamType):
    """A comma-separated list of metrics."""

    name = "NAME,NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names without duplicates."""
        names = tuple(dict.fromkeys(part.strip() for part in str(value).split(",")))
        for name in names:
            if name == "comet":
                self.fail(
                    "COMET is computed in an environment of its own, by comet-score: docs/comparing.md.", param, ctx
                )
            if name not in ALL_METRICS:
                self.fail(f"{name!r} is none of {', '.join(ALL_METRICS)}.", param, ctx)
        return names


@click.command(cls=Command)
@click.argument("model_dir", metavar="[MODEL]", required=False, type=INPUT)
@reads("--src", text="Source text to translate with MODEL, or to show next to --hyp.")
@reads("--hyp", text="Translations to score, instead of MODEL and --src.")
@reads("--ref", multiple=True, text="Reference translations, one per line; may be repeated.")
@table_options
@click.option("--ref-separator", metavar="TEXT", help="Separator of several references in one line of --ref.")
@writes("-o", "--output", text="Also write the translations to this file.")
@flag("--lowercase", text="Ignore case.")
@chooses(
    "--tokenize",
    among=list(TOKENIZERS),
    default="13a",
    text="Tokenizer for BLEU. ja-mecab and ko-mecab need the extras [ja] and [ko]; flores101, flores200 and spBLEU-1K "
    "are downloaded once.",
)
@click.option(
    "--metric",
    "metrics",
    type=MetricNames(),
    show_default=f"{','.join(METRICS)}; {','.join(OF_LETTERS)} for a model of the preset character or edits",
    help="Metrics, separated by commas: bleu, chrf, chrf++, ter; for texts of one word per line, wer (percentage of "
    "wrong lines), per (edits per 100 tokens), accuracy.",
)
@flag(
    "--confidence",
    text="Also print 95 % confidence intervals, by bootstrap over the lines, and with MODEL how right its own "
    "confidence is.",
)
@writes("--plot-confidence", text="Also draw the confidence of MODEL against what is kept, as FILE.svg.")
@writes("--tsv", text="Also write source, translation and references as columns, for other metrics.")
@flag("--json", "as_json", text="Write JSON instead of tables.")
@reads("--memory", text="Read similar pairs of this text or table while translating, as nmt-translate --memory.")
@flag("--shortlist", text="Restrict the output vocabulary of each line to the shortlist from nmt-shortlist.")
@beam_options
@running_options
def evaluate(
    model_dir: str | None,
    src: str | None,
    hyp: str | None,
    ref: tuple[str, ...],
    ref_separator: str | None,
    **options: Any,
) -> None:
    """Score translations against references: BLEU, chrF, TER and others.

    Give MODEL and --src (which is translated first), or --hyp. Each score has its sacrebleu signature.
    With a model, references are cleaned and lower-cased as the model's config says, since the model cannot write
    otherwise; standard error says so. Files are UTF-8, plain or .gz, or - for standard input. Of a table (see
    nmt-train), --src reads the column of the source, --ref that of the target.

    \b
    Examples:
        nmt-evaluate runs/de-en --src test.de --ref test.en
        nmt-evaluate --hyp output.en --ref test.en --metric bleu,chrf++ --confidence
    """
    from nmt.cli.lines.evaluation import Evaluation, check_counts
    from nmt.storage.model_folder import model_files

    how = table_of(options)
    _check_usage(model_dir, src, hyp, ref, options)
    tell_needs()
    given = {name: file for name, file in (("--src", src), ("--hyp", hyp)) if file is not None}
    inputs: dict[str, str | list[Path]] = {**given, **{f"--ref {one}" if len(ref) > 1 else "--ref": one for one in ref}}
    inputs |= {} if model_dir is None else {"a file of the model": model_files(Path(model_dir))}
    check_apart({name: options[key] for name, key in _OUTPUTS if options[key] is not None}, inputs)
    check_lines_output(options["output"] or "-")
    translator = None if model_dir is None else _load(model_dir, options)
    langs = langs_of(translator.config.data) if translator is not None else langs_by_names(src, ref[0])
    named: list[Given] = [(src, "--src", 0), *((file, name, 1) for name, file in given.items() if name != "--src")]
    tell_doubts(langs, [*named, *((file, "--ref", 1) for file in ref)], options["output"] or "-", **how)
    shown = Evaluation.reading(ref, ref_separator, src, options, langs, **how)
    if translator is not None:
        check_counts(str(src), len(shown.sources), ref[0], len(shown.references[0]))
        tell_if_seen(translator, (str(src), ref[0]), (shown.sources, [line or "" for line in shown.references[0]]))
        hypotheses = _translate(translator, str(src), shown, options)
    else:
        hypotheses = shown.read(str(hyp))
    options["metrics"] = options["metrics"] or METRICS
    say(shown.report(hypotheses))


def _check_usage(
    model_dir: str | None, src: str | None, hyp: str | None, ref: tuple[str, ...], options: dict[str, Any]
) -> None:
    """Raise click.UsageError for options that cannot be combined."""
    if hyp is not None and (model_dir or options["output"]):
        raise click.UsageError("Give either MODEL and --src (and -o), or --hyp.")
    if hyp is None and (model_dir is None or src is None):
        raise click.UsageError("Give MODEL and --src to translate, or --hyp to score.")
    if options["memory"] and model_dir is None:
        raise click.UsageError("--memory is for MODEL, which reads it.")
    if options["plot_confidence"] and model_dir is None:
        raise click.UsageError("--plot-confidence is for MODEL, whose confidence it draws.")
    if not ref:
        raise click.UsageError("Missing option '--ref'.")


def _load(model_dir: str, options: dict[str, Any]) -> Translator:
    """Return the model to evaluate."""
    from nmt.inference.translator import Translator

    loading = {name: options[name] for name in ("threads", "checkpoint", "compute_dtype", "device", "cells")}
    return with_memory(Translator.load(model_dir, **loading), options["memory"])


def _translate(translator: Translator, name: str, shown: Any, options: dict[str, Any]) -> list[str]:
    """Return the translations of the text `name`; clean the references like the model's training targets."""
    from nmt.cli.lines.meter import Meter
    from nmt.config.presets import OF_WORDS
    from nmt.data.calibration import least_of
    from nmt.data.corpora.corpus import clean_line

    if options["metrics"] is None and translator.config.preset in OF_WORDS:
        options["metrics"] = OF_LETTERS
    searching = {key: options[key] for key in ("beam_size", "length_penalty", "batch_size", "shortlist")}
    with contextlib.closing(Meter(total=len(shown.sources))) as meter:
        found = translator.translate_nbest(shown.sources, n_best=1, on_batch=meter.add, **searching)
    with telling_notices(name) as notices:
        for number, translations in enumerate(found):
            notices.add(number, translations[0].warnings)
    hypotheses = [translations[0].text for translations in found]
    if options["output"] is not None:
        with output_lines(options["output"]) as writer:
            for line in hypotheses:
                writer.write(line)
    side = translator.config.data.tgt
    tell(_cleaning(side))
    shown.references = [
        [None if line is None else clean_line(line, side.lowercase, side.normalize) for line in text]
        for text in shown.references
    ]
    if options["confidence"] or options["plot_confidence"]:
        least = least_of([line for text in shown.references for line in text if line is not None])
        known = translator.calibration
        shown.judge([one[0].confidence for one in found], hypotheses, least if known is None else known.least)
        if known is None:
            tell(
                "note: this model's confidence is the mean probability of its subwords, not calibrated by a validation "
                "text; train it again, or go on with its training, to have one that is"
            )
    return hypotheses


def _cleaning(side: SideConfig) -> str:
    """Return a message on how references are cleaned before the comparison."""
    done = ["with single spaces"]
    if side.normalize in ("nfc", "nfkc"):
        done.append(f"in Unicode form {side.normalize.upper()}")
    if side.lowercase:
        done.append("lower-cased")
    return f"note: references are read {', '.join(done)}, as the texts that the model was trained on"
