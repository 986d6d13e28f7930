"""nmt-translate: read sentences, write translations."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nmt.cli.lines import streams
from nmt.cli.lines.judging import check_forms, langs_of, tell_doubts, tell_if_strange
from nmt.cli.lines.tables import FORMATS as TABLE_FORMATS
from nmt.cli.lines.tables import Columns, Shard, Work, check_no_models, is_corpus, translate_all
from nmt.cli.options.command import Command, chooses, flag, running_options
from nmt.cli.options.path_types import INPUT, OUTPUT_FOLDER, OUTPUT_PLACE, reads, writes
from nmt.cli.options.search_options import beam_options, search_option, search_options, tell_needs, tell_unused
from nmt.inference.rows import Rows, translate_rows
from nmt.search_settings import Place, usable
from nmt.system.lines import STDIN, Lines, chunks, open_lines, source_name
from nmt.system.notices import Notices
from nmt.system.paths import check_output, is_file

if TYPE_CHECKING:
    from nmt.cli.lines.meter import Meter
    from nmt.cli.lines.resume import Continued
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translation, Translator

_CHUNK_BATCHES = 32
"""Number of batches to read at a time: enough to batch lines of similar lengths, with little memory."""


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@click.argument("inputs", metavar="[INPUT]...", nargs=-1, type=INPUT)
@writes("-o", "--output", kind=OUTPUT_PLACE, default="-", text="Output file or folder (see above); - is stdout.")
@click.option("--shard", type=Shard(), metavar="I/N", help="Translate only part I of N of the input, into a folder.")
@chooses(
    "--input-format",
    among=TABLE_FORMATS,
    show_default="from the file name: .jsonl, .parquet, else text",
    text="Format of INPUT: lines of text, JSON objects, or a Parquet table.",
)
@click.option("--column", metavar="NAME", default="text", help="Table column to translate.")
@click.option("--output-column", metavar="NAME", default="translation", help="Table column for the translations.")
@beam_options
@search_option(
    "n_best",
    show_default="1; setting decoding.n_best; always 1 for text output",
    help="Write up to this many translations per line, as columns (see above).",
)
@flag("--scores", text="Write the score next to each translation, as columns.")
@chooses(
    "--output-format",
    among=streams.FORMATS,
    show_default="text, or tsv with --n-best or --scores",
    text="Write text, columns, or one JSON object per line of INPUT (see above).",
)
@chooses(
    "--format",
    "form",
    among="lines auto text html xml markdown srt vtt po xliff docx pptx odt ods odp epub".split(),
    default="lines",
    text="Type of INPUT: one sentence per line, or a document (see above); auto uses the file extension.",
)
@click.option(
    "--split/--no-split", default=True, help="Split paragraphs of a document into sentences, or treat each as one."
)
@flag("--leave-numbers", text="Leave numbers of a document as the model writes them, even if they are wrong.")
@flag("--strict", text="Write no document of which something cannot be read and translated.")
@writes("--alignments", text="Also write word alignments, as 0-0 1-2 ...")
@chooses(
    "--alignment-type",
    among=["hard", "soft"],
    default="hard",
    text="hard: pairs of words; soft: the attention of each word over all source words.",
)
@writes(
    "--plot-attention",
    kind=OUTPUT_FOLDER,
    metavar="DIR",
    text="Also plot the attention of each line, as DIR/LINE.svg; the first line is 0.",
)
@flag("--replace-unk", text="Replace each unknown word by the source word with the most attention.")
@reads("--dictionary", text="Translations for --replace-unk: one source word, a tab and its translation per line.")
@flag("--shortlist", text="Restrict the output vocabulary of each line to the shortlist from nmt-shortlist.")
@reads("--prefix", text="Forced beginnings of the translations, one per line, in whole words.")
@click.option("--prefix-text", metavar="TEXT", show_default="none", help="Forced beginning of every translation.")
@reads("--glossary", text="Preferred translations: PHRASE, a tab or =, and TRANSLATION per line.")
@reads(
    "--memory",
    text="Read those pairs of a text or table that are similar while translating: its training text, for example "
    "(docs/decoding.md).",
)
@reads("--forbid", text="Words or phrases that no translation may contain, one per line.")
@search_options()
@reads(
    "--then",
    metavar="MODEL",
    multiple=True,
    text="Translate the translations with this model: from German through English (pivot) into French, for example; "
    "may be repeated.",
)
@reads("--ensemble", metavar="MODEL", multiple=True, text="Add this model to the ensemble; may be repeated.")
@chooses(
    "--ensemble-average",
    among=["log_prob", "prob"],
    default="log_prob",
    text="Average the ensemble's log-probabilities or probabilities.",
)
@flag("--resume", text="Write the output file as lines finish, and continue a partial one.")
@running_options
def translate(model_dir: str, inputs: tuple[str, ...], **options: Any) -> None:
    """Translate sentences, documents or tables with a trained model.

    MODEL is a folder written by nmt-train or a file written by nmt-bundle. INPUT is a UTF-8 text file with one sentence
    per line, plain or .gz, or a pipe; - or no INPUT is standard input. Each line gives one line of detokenised text, in
    order; a blank line gives an empty line. Lines from a pipe or a terminal are translated as they
    arrive, in batches of those that are waiting.

    With --n-best, --scores or --output-format tsv each translation is a line of four tab-separated columns: number of
    the input line (from 0), rank (from 1), score, text. The score is the natural logarithm of the probability after the
    length penalty; higher is better. With --output-format json each input line gives a JSON object with its
    translations: text, score, log_prob, confidence, the subwords with their log-probabilities, alignment and warnings.

    With --format INPUT is a document, and so is the output: paragraphs are split into sentences and joined again, tags
    and placeholders follow their words, and all else is kept byte for byte (docs/serving.md).

    Several files, a folder, or a table (.jsonl, .parquet) are translated file by file, each into a file of the same
    name in the folder given by -o. A table keeps its columns and gets translation, translation_error (what is wrong
    with a row) and, with --scores, translation_score. A file appears only when it is complete; files that exist are not
    translated again. With --shard I/N this command does one part of N (docs/many-machines.md).

    docs/decoding.md explains the search options and where they come from, and what --then makes of scores.

    \b
    Examples:
        nmt-translate runs/de-en test.de -o test.en
        echo 'Guten Morgen!' | nmt-translate runs/de-en --n-best 3
        echo 'Guten Morgen!' | nmt-translate runs/de-en --then runs/en-fr
        nmt-translate runs/de-en corpus/ -o translated/ --shard 3/8 --threads 1
    """
    if is_corpus(inputs or ("-",), options["input_format"], options["shard"]):
        _translate_corpus(model_dir, inputs, options)
        return
    source = inputs[0] if inputs else "-"
    from nmt.cli.lines.meter import Meter
    from nmt.cli.lines.resume import continued_lines, identity

    _check(source, model_dir, options)
    check_forms(source, options)
    job = _job(options)
    if options["form"] != "lines":
        _translate_document(job, model_dir, source, options)
        return
    records = streams.in_step(open_lines(source), {path: open_lines(path) for path in [job.prefixes] if path})
    with contextlib.ExitStack() as stack:
        job.notices = stack.enter_context(streams.telling_notices(source))
        if not options["resume"]:
            job.writer = stack.enter_context(streams.output_lines(options["output"]))
        if options["alignments"]:
            job.alignments = stack.enter_context(streams.output_lines(options["alignments"]))
        translator = streams.load_translator(model_dir, options)
        tell_doubts(langs_of(translator.config.data), [(source, "INPUT", 0)], options["output"], lines=False)
        _settle(job, translator, source)
        if options["resume"]:
            run = identity(job, translator, options)
            job.continued = stack.enter_context(continued_lines(options["output"], records, run, tsv=job.form == "tsv"))
            job.writer, job.number, records = job.continued.writer, job.continued.answered, job.continued.rest
        meter = stack.enter_context(contextlib.closing(Meter(source=source, initial=job.number)))
        _run(job, source, records, translator, meter)


_LINES_ONLY = """alignments plot_attention prefix prefix_text glossary forbid n_best output_format resume replace_unk
    dictionary""".split()
"""Options that cannot be combined with tables, folders and shards."""


def _translate_document(job: _Job, model_dir: str, source: str, options: dict[str, Any]) -> None:
    """Translate a document, for --format."""
    from nmt.cli.lines.documents import translate_document

    translator = streams.load_translator(model_dir, options)
    tell_doubts(langs_of(translator.config.data), [], options["output"])
    _settle(job, translator)
    translate_document(translator, source, options, job.search, (job.glossary, job.forbidden))


def _translate_corpus(model_dir: str, inputs: tuple[str, ...], options: dict[str, Any]) -> None:
    """Translate whole files."""
    from nmt.cli.lines.meter import Meter
    from nmt.cli.lines.resume import identity

    if options["form"] != "lines":
        raise click.UsageError(f"--format {options['form']} is for one document, not for tables, folders and shards.")
    if options["column"] == options["output_column"]:
        raise click.UsageError(f"--output-column {options['column']} must be another column than --column.")
    if wrong := [f"--{name.replace('_', '-')}" for name in _LINES_ONLY if options[name]]:
        raise click.UsageError(f"{wrong[0]} is for lines of one text, not for tables, folders and shards.")
    check_no_models(model_dir, inputs)
    if options["output"] == "-":
        given = "Tables, folders and shards need" if len(inputs) < 2 else f"{len(inputs)} files to translate need"
        raise click.UsageError(f"{given} -o, the file or folder to write to.")
    if "-" in inputs or not inputs:
        raise click.UsageError("Tables and shards need files, not standard input.")
    scores = options.pop("scores")
    job = _job({**options, "scores": False})
    translator = streams.load_translator(model_dir, options)
    _settle(job, translator)
    new = options["output_column"]
    columns = Columns(options["column"], new, f"{new}_error", f"{new}_score" if scores else None)
    run = identity(job, translator, options) | {"columns": [columns.text, new, scores]}
    not_for_rows = ("n_best", "replace_unk", "details", "dictionary")
    settings = {name: value for name, value in job.search.items() if name not in not_for_rows}
    with contextlib.closing(Meter()) as meter:

        def translated(values: list[Any]) -> Rows:
            rows = translate_rows(translator, values, **settings)
            meter.add(len(values))
            return rows

        size = _CHUNK_BATCHES * settings["batch_size"]
        work = Work(options["input_format"], columns, translated, size, langs_of(translator.config.data))
        translate_all(inputs, options["output"], options["shard"], work, run)


@dataclass
class _Job:
    """The inputs, outputs and search settings of a translation."""

    form: str
    search: dict[str, Any]
    prefixes: str | None  # a file parallel to the input
    prefix: str | None  # for all lines
    glossary: list[tuple[str, str]]
    forbidden: list[str]
    plots: Path | None
    writer: streams.LineWriter | None = None
    alignments: streams.LineWriter | None = None
    notices: Notices | None = None
    continued: Continued | None = None
    soft: bool = False  # whether alignments are soft
    number: int = 0  # number of the next input line


def _check(source: str, model_dir: str, options: dict[str, Any]) -> None:
    """Raise DataError if -o cannot be written or an output is also an input, and UsageError for options that do not
    apply to documents. Warn about options without effect."""
    from nmt.cli.lines.documents import check_document_options
    from nmt.storage.model_folder import model_files

    tell_needs()
    if options["form"] != "lines":
        check_document_options(source, options)
    elif options["strict"]:
        raise click.UsageError("--strict is for a document; name its format by --format.")
    if options["output"] != "-":
        check_output(options["output"], "-o")
    parallel = ("prefix", "glossary", "forbid", "dictionary", "memory")
    inputs: dict[str, str | list[Path]] = {"INPUT": source}
    inputs |= {f"--{name}": options[name] for name in parallel if options[name] is not None}
    models = [model_dir, *options["ensemble"], *options["then"]]
    inputs["a file of the model"] = [path for place in models for path in model_files(Path(place))]
    outputs = {"-o": options["output"], "--alignments": options["alignments"]}
    streams.check_apart({name: path for name, path in outputs.items() if path is not None}, inputs)


def _job(options: dict[str, Any]) -> _Job:
    """Return the options as a job. Raises UsageError if they cannot be combined."""
    n_best, beam_size = options.pop("n_best"), options["beam_size"]
    if n_best is not None and beam_size is not None and n_best > beam_size and not options["sampling"]:
        raise click.UsageError(f"--n-best {n_best} needs --beam-size {n_best} or more.")
    form = options["output_format"] or ("tsv" if options["scores"] or n_best is not None else "text")
    if form == "text" and options["scores"]:
        raise click.UsageError("--scores needs --output-format tsv or json; text is the best translation alone.")
    if form == "text" and (n_best or 1) > 1:
        raise click.UsageError(
            f"--n-best {n_best} needs --output-format tsv or json; text is the best translation alone."
        )
    if options["resume"] and (options["output"] == "-" or options["alignments"]):
        raise click.UsageError("--resume needs -o FILE, and no --alignments (--output-format json contains them).")
    if options["then"] and (wrong := [f"--{name}" for name in ("ensemble", "dictionary", "memory") if options[name]]):
        raise click.UsageError(f"{wrong[0]} is for one model; leave it out with --then.")
    plots = options["plot_attention"]
    search = {name: options[name] for name in usable(Place.CALL)}
    if options["dictionary"] is not None and not options["replace_unk"]:
        raise click.UsageError("--dictionary needs --replace-unk.")
    search |= {"n_best": n_best, "replace_unk": options["replace_unk"], "shortlist": options["shortlist"]}
    search["dictionary"] = dict(streams.phrase_pairs(options["dictionary"]))
    search["details"] = form == "json" or plots is not None or options["alignments"] is not None
    if options["prefix"] is not None and options["prefix_text"] is not None:
        raise click.UsageError("Give --prefix, a text for each line, or --prefix-text, one for all.")
    return _Job(
        form=form,
        search=search,
        prefixes=options["prefix"],
        prefix=options["prefix_text"],
        glossary=streams.phrase_pairs(options["glossary"]),
        forbidden=streams.phrases(options["forbid"]),
        plots=Path(plots) if plots else None,
        soft=options["alignment_type"] == "soft",
    )


def _settle(job: _Job, translator: Translator | Pivot, source: str = STDIN) -> None:
    """Fill in settings from the config, and warn about options that then have no effect, and about a file of lines,
    `source`, of a kind that the model does not know."""
    decoding, search = translator.config.decoding, job.search
    if source != STDIN and is_file(Path(source)):
        tell_if_strange(translator, source, open_lines(source))
    tell_unused(search, decoding)
    if search["n_best"] is None:  # text output has one line per input line, whatever the config says
        search["n_best"] = 1 if job.form == "text" else decoding.n_best
    is_beam = not (decoding.sampling if search["sampling"] is None else search["sampling"])
    if is_beam and search["n_best"] > (search["beam_size"] or decoding.beam_size):
        search["beam_size"] = search["n_best"]
    search["batch_size"] = search["batch_size"] or decoding.batch_size


def _run(job: _Job, source: str, records: Lines[streams.Record], translator: Translator | Pivot, meter: Meter) -> None:
    """Translate all records of a source chunk by chunk; each chunk is written before the next one is read."""
    from nmt.data.tokens.factors import FactorError
    from nmt.inference.pipeline import phrases_for
    from nmt.inference.translator import Constraints

    if source == STDIN and sys.stdin is not None and sys.stdin.isatty():  # which would otherwise wait in silence
        streams.tell("Type a sentence, then Enter; Ctrl-D ends.")
    size = job.search["batch_size"]
    for chunk in chunks(records, size * _CHUNK_BATCHES if size > 1 else 1):
        if job.continued is not None:
            job.continued.save()
        lines = [line for line, _ in chunk]
        glossary = [phrases_for(translator, line, job.glossary) for line in lines] if job.glossary else None
        prefixes = [parallel[job.prefixes] for _, parallel in chunk] if job.prefixes else job.prefix
        constraints = Constraints(prefixes=prefixes, glossary=glossary, forbidden=job.forbidden)
        try:
            results = translator.translate_nbest(lines, on_batch=meter.add, constraints=constraints, **job.search)
        except FactorError as error:
            raise error.at(f"{source_name(source)}: line {job.number + error.index + 1}") from None
        for line, found in zip(lines, results, strict=True):
            _write(job, line, found)
        if job.writer is not None:
            job.writer.flush()


def _write(job: _Job, line: str, found: list[Translation]) -> None:
    """Write the translations of one line to all requested outputs."""
    if job.notices is not None:
        job.notices.add(job.number, [text for one in found[:1] for text in one.warnings])
    if job.writer is not None:
        for text in streams.output_of(job.form, job.number, line, found):
            job.writer.write(text)
    if job.alignments is not None:
        job.alignments.write(streams.alignment_line(found[0].detail, soft=job.soft))
    if job.plots is not None and found[0].detail is not None:
        streams.write_plot(job.plots / f"{job.number}.svg", found[0].detail)
    job.number += 1
