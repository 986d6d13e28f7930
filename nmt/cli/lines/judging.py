"""Judge the files that a command was given, before its work: what they are, and whether their names fit the model."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nmt.cli.lines.streams import STDOUT, STDOUT_NAME, tell
from nmt.errors import DataError
from nmt.system.lines import STDIN, check_is_lines
from nmt.system.paths import is_file

if TYPE_CHECKING:
    from nmt.config import DataConfig
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translator

Given = tuple[str | None, str, int]
"""A text as a user names it: its path or None; the option or argument; 0 for the source, 1 for the target."""
_NOT_TEXT = frozenset(".pdf .doc .xls .ppt .xlsx .rtf .zip .parquet .gz .zst .bz2 .xz".split())
"""Endings of files that lines of text are none of: a text for nmt-translate -o is not compressed."""
_MOSTLY = 0.8
"""Share of pairs of the training text from which a text is taken for it; the rest was held out or filtered."""
_FIRST_LINES, _MOST_SHOWN = 2000, 5
_ALIKE = ({"html", "xml"}, {"xliff", "xml"}, {"text", "markdown"})
"""Formats that may have each other's endings."""


def tell_doubts(
    langs: tuple[str, str], given: Sequence[Given], output: str = STDOUT, *, lines: bool = True, **how: Any
) -> None:
    """Warn about texts, and a file for translations, whose names or words contradict the codes of a model's languages.
    `lines`: whether markup is refused; `how`: see `table_of`. Raises DataError as `judged` does."""
    from nmt.data.corpora.judged_texts import Named, judged, judged_output

    texts = [Named(path, what, side) for path, what, side in given if path is not None]
    for line in (*judged(texts, langs, lines=lines, **how), *judged_output(output, "-o", langs)):
        tell(f"warning: {line}")


def langs_of(data: DataConfig) -> tuple[str, str]:
    """Return the codes of source and target."""
    return data.src.lang, data.tgt.lang


def langs_by_names(src: str | None, tgt: str) -> tuple[str, str]:
    """Return the codes of the languages in which two texts are by their names, without a model that knows them."""
    from nmt.config.data_section import UNNAMED
    from nmt.data.corpora.judged_texts import ending_of
    from nmt.data.corpora.sources import format_of

    found = [None if path is None or format_of(path) != "lines" else ending_of(path) for path in (src, tgt)]
    src_code, tgt_code = (named if end is None else end[0] for end, named in zip(found, UNNAMED, strict=True))
    return src_code, tgt_code


def tell_if_seen(translator: Translator, names: tuple[str, str], texts: tuple[list[str], list[str]]) -> None:
    """Warn if most pairs of a test text are in the training text of the model, by the fingerprints that it keeps.
    `names`: of the files of source and reference; `texts`: their lines."""
    from nmt.data.corpora.corpus import clean_lines
    from nmt.data.quality.overlap import share_seen
    from nmt.inference.pipeline import source_ids

    sketch = translator.loaded[0].seen if translator.loaded else ""
    if not sketch:
        return
    data = translator.config.data
    references = translator.tgt_subwords.encode(clean_lines(texts[1], data.tgt.lowercase, data.tgt.normalize))
    ids = zip(source_ids(translator, texts[0]), references, strict=True)
    kept = [
        (src, tgt) for src, tgt in ids if 0 < len(src) <= data.src.max_length and 0 < len(tgt) <= data.tgt.max_length
    ]
    share = share_seen(sketch, [src for src, _ in kept], [tgt for _, tgt in kept])
    if share is not None and share >= _MOSTLY:
        tell(
            f"warning: {', '.join(names)}: must be text that the model was not trained on, and about {share:.0%} of "
            "the pairs are in its training text, by their fingerprints; give a text that was held out"
        )


def tell_if_strange(translator: Translator | Pivot, source: str, lines: Iterable[str]) -> None:
    """Say that a text is a table by its name (.tsv only if the model reads no features), or of a kind that the model
    does not know: of its first lines, many more words than of the validation text are new. `source`: its name."""
    endings = (".csv", ".json", *([".tsv"] if translator.config.data.features_columns is None else []))
    if PurePath(source).suffix.lower() in endings and not takes_any_lines():
        tell(
            f"warning: {source}: is a table by its name, and each line is translated as a sentence, signs and all; "
            "give one of its columns as a text, or all as .jsonl with --column"
        )
    found = translator.novelty(line for line in islice(lines, _FIRST_LINES) if line.strip())
    if found is not None and found.is_strange:
        shown = ", ".join(found.words[:_MOST_SHOWN])
        tell(
            f"warning: {source}: the model does not know this kind of text: its training never had {found.share:.0%} "
            f"of the words ({found.usual:.0%} of its validation text's), such as {shown}"
        )


def takes_any_lines() -> bool:
    """Return whether the user has typed --format lines, so that a document is read as lines, too."""
    return click.get_current_context().get_parameter_source("form") is ParameterSource.COMMANDLINE


def check_forms(source: str, options: dict[str, Any]) -> None:
    """Check what INPUT of nmt-translate is, and the ending of -o. Raises DataError if INPUT is a document and --format
    is not given, if -o ends as a file of another format does, or if a terminal would get an archive; warns if the name
    of INPUT alone says that it is a document."""
    from nmt.documents.forms import PACKED_FORMATS, format_of

    output, form = options["output"], options["form"]
    form = format_of(source) if form == "auto" else form
    if output == STDOUT and form in PACKED_FORMATS and sys.stdout is not None and sys.stdout.isatty():
        raise DataError(f"{STDOUT_NAME}: must be a file or a pipe for {form}, got a terminal; name a file with -o")
    if form != "lines":
        named, ending = _form_of(output), PurePath(output).suffix.lower()
        is_known = named is not None or ending in _NOT_TEXT
        if is_known and output != STDOUT and named != form and {named, form} not in _ALIKE:
            raise DataError(
                f"{output}: must end as INPUT does, got {form} for {ending}; the output has the format of INPUT"
            )
        return
    if takes_any_lines():
        return
    is_regular = source != STDIN and is_file(Path(source))
    if is_regular:
        check_is_lines(source)
    check_lines_output(output, options["output_format"])
    if not is_regular:
        return
    if (named := _form_of(source)) not in (None, "text", "markdown"):
        tell(
            f"warning: {source}: is {named} by its name, and each line is translated as a sentence; give --format "
            f"{named}, or --format lines if that is meant"
        )


def check_lines_output(output: str, output_format: str | None = None) -> None:
    """Raise DataError if a file for lines ends as a document, an archive or a table does."""
    ending = PurePath(output).suffix.lower()
    named = _form_of(output)
    wrong = ending in _NOT_TEXT or named not in (None, "text", "markdown")
    if wrong or ending == ".jsonl" and output_format != "json":
        raise DataError(
            f"{output}: must have the ending of a text, got lines for {ending}; name it .txt, or give --format if "
            "INPUT is such a document"
        )


def _form_of(name: str) -> str | None:
    """Return the format of documents that the ending of a name stands for; None if it stands for none."""
    from nmt.documents.forms import SUFFIXES, format_of

    return format_of(name) if PurePath(name).suffix.lower() in SUFFIXES else None
