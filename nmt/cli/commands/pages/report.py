"""nmt-report: summarise runs in an HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nmt.cli.lines.streams import check_page, output_lines, tell
from nmt.cli.options.command import Command, cells_option
from nmt.cli.options.path_types import INPUT, writes
from nmt.errors import NMTError

if TYPE_CHECKING:
    from nmt.report import Run


@click.command(cls=Command)
@click.argument("folders", metavar="MODEL...", nargs=-1, required=True, type=INPUT)
@writes("-o", "--output", default="report.html", text="Output page; - is stdout.")
@click.option("--title", metavar="TEXT", default="Training report", help="Title of the page.")
@click.option(
    "--attention",
    type=click.IntRange(min=0),
    default=2,
    help="Number of sample sentences to plot attention for, with each run's best model; 0 loads no model.",
)
@cells_option
def report(folders: tuple[str, ...], output: str, title: str, attention: int, cells: tuple[str, ...]) -> None:
    """Write an HTML page about runs: curves, scores, translations.

    MODEL is the folder of a run; a folder of nmt-sweep stands for all of its runs. The page is one HTML file that any
    browser shows without a network: zoomable curves, validation scores with 95 % intervals, sample translations over
    time, attention, speed, machine, settings and their differences, and problems found in the corpus. Runs may still be
    in progress.

    \b
    Examples:
        nmt-report runs/de-en
        nmt-report runs/base runs/wide runs/deep -o comparison.html
        nmt-report runs/mine --cells my_cells
    """
    from nmt.report import read_run, report_page, runs_in

    check_page(output, "an earlier report")
    runs = [read_run(folder) for folder in runs_in(folders)]
    page = report_page(runs, {run.name: _pictures(run, attention, cells) for run in runs}, title)
    with output_lines(output) as writer:
        writer.write(page.rstrip("\n"))
    if output != "-":
        tell(f"{output}: {len(runs)} run{'s' if len(runs) > 1 else ''}, {len(page.encode()):,} bytes")


def _pictures(run: Run, most: int, cells: tuple[str, ...]) -> list[str]:
    """Return plots of the best model's attention on its first samples; none, with a warning, if that is impossible."""
    from nmt.inference.translator import Translator
    from nmt.report.page import attention_svg

    if not (sources := [str(sample["source"]) for sample in run.samples[:most]]):
        return []
    try:
        found = Translator.load(run.folder, cells=cells).translate_nbest(sources, n_best=1, details=True)
    except NMTError as error:
        tell(f"warning: {run.name}: no attention is drawn: {error}")
        return []
    details = [translations[0].detail for translations in found]
    return [
        attention_svg(detail.attention, [*detail.src_tokens, "</s>"], detail.tokens)
        for detail in details
        if detail is not None and detail.attention is not None
    ]
