"""The pages of --help and --help-all: options in groups, those that matter most first."""

from __future__ import annotations

import re
from collections.abc import Callable

import click

from nmt.search_settings import ROWS

ALL = "nmt.help_all"
"""The key of a click context's `meta` that is true when --help-all prints."""

GROUPS = {
    "Text": """dev src_lang tgt_lang columns header sheet src tgt hyp ref ref_separator dev_src dev_tgt pairs translated
        tag form split input_format column output_column shard leave_numbers strict""",
    "Result": """output samples n_best scores output_format resume alignments alignment_type plot_attention
        plot_confidence tsv as_json""",
    "Metrics": "metrics tokenize lowercase confidence",
    "Run": "budget seed seeds stop_with_stdin",
    "Instead of training": "plan show_config check_data",
    "Model": "folder preset overrides checkpoint ensemble ensemble_average then cells",
    "Search": "",
    "Sampling": "sampling sampling_temperature sampling_topk sampling_topp sampling_seed",
    "Words and phrases": "memory glossary glossary_bonus forbid prefix prefix_text replace_unk dictionary generate_unk",
    "Shortlist": "per_source mass frequent most_missed",
    "Speed": "batch_size shortlist compute_dtype threads device cache",
    "Server": "host port pivot learn log_texts keys allow_origin allow_host",
    "Limits": """requests_per_minute max_characters max_texts max_alternatives max_body max_file max_waiting timeout
        file_timeout""",
}
"""The names of options by the heading that --help gives them, for commands with more than a few."""

_elsewhere = " ".join(GROUPS.values()).split()
GROUPS["Search"] = " ".join(["max_length", *(name for name in ROWS if name not in _elsewhere)])

FIRST = {
    "train": "folder dev src_lang tgt_lang preset budget overrides threads device check_data plan show_config",
    "translate": """output form output_format n_best scores beam_size glossary alignments shortlist compute_dtype
        threads device""",
    "evaluate": "src hyp ref columns output metrics tokenize lowercase confidence as_json tsv beam_size",
    "serve": """host port keys learn split pivot shortlist compute_dtype threads allow_origin requests_per_minute
        max_characters""",
}
"""The options that --help shows of a command that has many; --help-all shows the others as well."""

FEW = 8
"""The number of options up to which they need no headings."""

Record = tuple[str, str]


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write the options of a command in groups, and say how many are omitted."""
    options = [one for one in command.get_params(ctx) if isinstance(one, click.Option)]
    records = {str(one.name): record for one in options if (record := help_record(one, ctx)) is not None}
    general = [str(one.name) for one in options if not one.expose_value]
    own = [name for name in records if name not in general]
    first = FIRST.get(str(command.name), "").split() or (own if len(own) <= FEW else [])
    is_short = str(command.name) in FIRST and not ctx.meta.get(ALL)
    pages = {"Options": first, **({} if is_short else {heading: names.split() for heading, names in GROUPS.items()})}
    pages["General"] = general
    shown: set[str] = set()
    for heading, names in pages.items():
        if here := [name for name in names if name in records and name not in shown]:
            with formatter.section(heading):
                formatter.write_dl([records[name] for name in here], col_max=26)
            shown |= {*here}
    if is_short:
        formatter.write_paragraph()
        formatter.write_text(f"{len(records) - len(shown)} more options: {ctx.command_path} --help-all")


def help_record(option: click.Option, ctx: click.Context) -> Record | None:
    """Return what click shows of an option, with plain names of numbers, and defaults in words without parentheses."""
    if (record := option.get_help_record(ctx)) is None:
        return None
    names, text = record
    if isinstance(option.show_default, str):
        text = text.replace(f"({option.show_default})", option.show_default)
    return re.sub(r"INTEGER( RANGE)?", "N", re.sub(r"FLOAT( RANGE)?", "NUMBER", names)), text


def help_all_option() -> click.Option:
    """Return the `--help-all` option."""

    def page(ctx: click.Context) -> str:
        ctx.meta[ALL] = True
        return ctx.get_help()

    return text_option("--help-all", page, "Show all options and exit.")


def text_option(name: str, text: Callable[[click.Context], str], explanation: str) -> click.Option:
    """Return an option that prints a text and ends the command; the text is made only when requested."""

    def show(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            click.echo(text(ctx))
            ctx.exit()

    return click.Option(
        [name],
        is_flag=True,
        expose_value=False,
        allow_from_autoenv=False,
        is_eager=True,
        callback=show,
        help=explanation,
    )
