"""nmt-backtranslate: translate monolingual text into training pairs."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from nmt.cli.lines.streams import check_apart, say, tell, write_errors
from nmt.cli.options.command import QUIET, Command, cells_option, compute_dtype_option, device_option, threads_option
from nmt.cli.options.path_types import INPUT, OUTPUT_PREFIX, writes
from nmt.cli.options.search_options import search_option, search_options, words_of
from nmt.errors import DataError
from nmt.system.files import replacing
from nmt.system.lines import read_lines, text_file
from nmt.system.paths import exists

_PASSED = ("threads", "device", "compute_dtype", "checkpoint")


@click.command(cls=Command)
@click.argument("model_dir", metavar="MODEL", type=INPUT)
@click.argument("text", metavar="TEXT", type=INPUT)
@writes("-o", "--output", kind=OUTPUT_PREFIX, metavar="PREFIX", required=True, text="Prefix of the two files to write.")
@click.option("--tag", metavar="WORD", default="<bt>", help="Tag of these pairs in the lines for the config.")
@search_options(("sampling", "sampling_topk", "sampling_seed"))
@search_option("beam_size")
@search_option("batch_size")
@click.option("--checkpoint", metavar="NAME", show_default="best", help="Checkpoint to load.")
@threads_option
@device_option
@compute_dtype_option
@cells_option
def backtranslate(model_dir: str, text: str, output: str, tag: str, **options: Any) -> None:
    """Translate monolingual text into training pairs.

    The pairs are PREFIX.SRC and PREFIX.TGT, named by the languages of MODEL.

    Back-translation (Sennrich et al. 2016): TEXT is in the target language of the model to be trained, and MODEL
    translates from that language; its translations become sources. Distillation (Kim and Rush 2016): TEXT is the source
    side of a training text, and MODEL is a larger model for the same direction; its translations become targets.

    Run the same command again to resume. The file with the copy of TEXT is written last, so that training never reads
    an incomplete set of pairs. The number of pairs goes to standard output, and the lines for a config to standard
    error.

    \b
    Examples:
        nmt-backtranslate runs/en-de mono.en.zst -o data/back
        nmt-backtranslate runs/large-de-en data/train.de -o data/distilled --beam-size 1
    """
    from nmt.storage.saved_model import load_saved_model

    data = load_saved_model(Path(model_dir), options["checkpoint"]).config.data
    copy, made = Path(f"{output}.{data.src.lang}"), Path(f"{output}.{data.tgt.lang}")
    check_apart({"-o": str(made)}, {"TEXT": text})
    _check_output(output, made)
    if exists(copy) and any(one != other for one, other in zip_longest(read_lines(copy), read_lines(text))):
        raise DataError(f"{copy}: must be new or contain the lines of {text}, got another file; choose another PREFIX")
    _translate(model_dir, text, made, options)
    count = _copy(text, copy, made)
    say(f"pairs\t{count}\t{copy}\t{made}")
    tell(f"data.train:\n  - path: {output}\n    tag: {tag}")


def _check_output(prefix: str, made: Path) -> None:
    """Raise DataError if the pairs cannot be written to that place."""
    from nmt.cli.lines.resume import RECORD_SUFFIX

    if prefix.endswith(("/", ".")) or not prefix or Path(prefix).is_dir():
        raise DataError(f"-o: must be the beginning of two names, such as data/back, got {prefix!r}; add a name")
    record = Path(f"{made}{RECORD_SUFFIX}")
    if made.is_file() and made.stat().st_size and not record.exists():
        raise DataError(
            f"{made}: must be new, or begun by this command, got a file without its record {record.name}; move it "
            "away, or name another PREFIX"
        )


def _translate(model_dir: str, text: str, made: Path, options: dict[str, Any]) -> None:
    """Run nmt-translate, which can resume."""
    from nmt.cli.commands.translate import translate

    words = [model_dir, text, "-o", str(made), "--resume", *words_of(options)]
    words += ["--quiet"] if click.get_current_context().meta[QUIET] else []
    for name in _PASSED:
        if options[name] is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    words += [word for module in options["cells"] for word in ("--cells", module)]
    if code := translate.main(words, standalone_mode=False, prog_name="nmt-backtranslate"):
        raise click.exceptions.Exit(code)


def _copy(text: str, copy: Path, made: Path) -> int:
    """Write the lines of the text next to their translations, unless the text is that file itself; return their number.
    Raises DataError if the number of translations differs."""
    count, found = (sum(1 for _ in read_lines(one)) for one in (text, made))
    if count != found:
        raise DataError(f"{made}: must have the {count} lines of {text}, got {found}; remove it and start again")
    if not (copy.exists() and text_file(text).samefile(copy)):
        with write_errors(str(copy)), replacing(copy, sync=True) as temporary, temporary.open("wb") as file:
            file.writelines(line.encode() + b"\n" for line in read_lines(text))
    return count
