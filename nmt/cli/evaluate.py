"""nmt-evaluate: score translations, or translate and score."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.command import Command, beam_options, running_options
from nmt.cli.search_options import language_model_options
from nmt.evaluate import TOKENIZERS

if TYPE_CHECKING:
    from nmt.config import SideConfig


@click.command(cls=Command, context_settings={"show_default": True})
@click.argument("model_dir", metavar="[MODEL_DIR]", required=False)
@click.option("--src", metavar="FILE", help="Source text to translate with MODEL_DIR.")
@click.option("--hyp", metavar="FILE", help="Translations to score, instead of MODEL_DIR and --src.")
@click.option("--ref", metavar="FILE", required=True, help="What a person wrote, line by line.")
@click.option("-o", "--output", metavar="FILE", help="Also write the translations to this file.")
@click.option("--lowercase", is_flag=True, help="Compare without regard to case.")
@click.option(
    "--tokenize",
    type=click.Choice(list(TOKENIZERS)),
    default="13a",
    help="The words that BLEU counts.",
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON instead of a table.")
@click.option("--shortlist", is_flag=True, help="Choose among the words that nmt-shortlist found for each line.")
@language_model_options()
@beam_options()
@running_options()
def evaluate(
    model_dir: str | None,
    src: str | None,
    hyp: str | None,
    ref: str,
    lowercase: bool,
    tokenize: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Score translations against references: BLEU, chrF and TER, with sacrebleu signatures.

    Either MODEL_DIR and --src, which are translated first, or --hyp. With a model, references are
    cleaned and lower-cased as the model's config says, since it cannot write otherwise; standard
    error says so. Files are UTF-8, plain or .gz, or - for standard input.

    \b
    Examples:
        nmt-evaluate runs/de-en --src test.de --ref test.en
        nmt-evaluate --hyp output.en --ref test.en --json
    """
    from nmt.cli.streams import check_apart, say
    from nmt.lines import read_text
    from nmt.storage.model_folder import model_files

    if hyp is not None and (model_dir or src or options["output"]):
        raise click.UsageError("Give either MODEL_DIR and --src (and -o), or --hyp.")
    if hyp is None and (model_dir is None or src is None):
        raise click.UsageError("Give MODEL_DIR and --src to translate, or --hyp to score.")
    given = str(hyp if hyp is not None else src)
    inputs: dict[str, str | list[Path]] = {"--src" if hyp is None else "--hyp": given, "--ref": ref}
    if model_dir is not None:
        inputs["a file of the model"] = model_files(Path(model_dir))
    check_apart({} if options["output"] is None else {"-o": options["output"]}, inputs)
    references = read_text(ref)
    if hyp is not None:
        hypotheses = read_text(hyp)
    else:
        sources = read_text(given)
        _check_counts(given, len(sources), ref, len(references))
        hypotheses, references = _translate(str(model_dir), given, sources, references, options)

    from nmt.evaluate import format_table, score_translations

    scores = score_translations(hypotheses, references, lowercase=lowercase, tokenize=tokenize)
    if as_json:
        import json

        record = {
            "lines": len(references),
            "metrics": {name: score.to_dict() for name, score in scores.items()},
        }
        say(json.dumps(record, indent=2))
    else:
        say(format_table(list(scores.values())))


def _translate(
    model_dir: str, name: str, sources: list[str], references: list[str], options: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Return the translations of the text `name`, and the references as the model was taught to write them."""
    from nmt.cli.meter import Meter
    from nmt.cli.streams import output_lines, tell, telling_notices
    from nmt.data.corpus import clean_line
    from nmt.inference.translator import Translator

    output = options.pop("output")
    loading = {name: options.pop(name) for name in ("threads", "checkpoint", "compute_dtype", "device", "cells", "lm")}
    translator = Translator.load(model_dir, **loading)
    with contextlib.closing(Meter()) as meter:
        found = translator.translate_nbest(sources, n_best=1, on_batch=meter.add, **options)
    with telling_notices(name) as notices:
        for number, translations in enumerate(found):
            notices.add(number, translations[0].warnings)
    hypotheses = [translations[0].text for translations in found]
    if output is not None:
        with output_lines(output) as writer:
            for line in hypotheses:
                writer.write(line)
    side = translator.config.data.tgt
    tell(_cleaning(side))
    return hypotheses, [clean_line(line, side.lowercase, side.normalize) for line in references]


def _cleaning(side: SideConfig) -> str:
    """A line that says how references are cleaned before they are compared."""
    done = ["with single spaces"]
    if side.normalize != "none":
        done.append(f"in Unicode form {side.normalize.upper()}")
    if side.lowercase:
        done.append("lower-cased")
    return f"references are compared {', '.join(done)}, as the model's config says"


def _check_counts(src: str, num_sources: int, ref: str, num_references: int) -> None:
    """Find out before minutes go into translating."""
    from nmt.errors import DataError

    if num_sources != num_references:
        raise DataError(
            f"{src}, {ref}: must have as many lines as each other, got {num_sources} and "
            f"{num_references}; line n of one has to translate line n of the other"
        )


if __name__ == "__main__":
    from nmt.cli import entry

    entry.evaluate()
