"""Figures stand in results, with where they come from; a page quotes those of results/facts.tsv, and no dates."""

import csv
import re
from pathlib import Path

import pytest

from nmt.config.presets import measured

ROOT = Path(__file__).resolve().parent.parent
RESULTS = sorted(path for path in ROOT.glob("results/*.md") if path.name != "README.md")
# Written by `make docs`, and the history.
APART = {"docs/commands.md", "docs/settings.md", "docs/names.md", "CHANGELOG.md"}
GUIDES = sorted(
    path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if path.relative_to(ROOT).as_posix() not in APART
)
with (ROOT / "results" / "facts.tsv").open(encoding="utf-8") as file:
    FACTS = list(csv.DictReader(file, delimiter="\t"))
# Parts of guides that `make docs` writes.
GENERATED = re.compile(r"<!-- lstm_step: \w+ -->\n.*?<!-- end -->|\| Python \| command \| setting, .*", re.S)
NUMBER = r"\d[\d,]*(?:\.\d+)?"
# Scores, speeds, times of a sentence and sizes, as guides state them.
QUOTED = (
    rf"BLEU (?:of )?({NUMBER})",
    rf"({NUMBER}) (?:target tokens|sentences)(?:/s| a second)",
    rf"({NUMBER}) ms\b",
    rf"({NUMBER}) Mi?B\b",
)
# Limits, defaults and rules of thumb, which are no measurements of a result.
LIMITS = re.compile(
    r"\b(?:1|8|16|64|128|200|250|256|425|512) Mi?B\b|\b50 to 250 sentences|\b0\.5 MB|\b54 MB for|4 for each MiB"
)
# Figures for each 100 words of prose and tables; pages that are made of numbers may have more.
MOST_FIGURES = {"README.md": 7, "docs/lstm-step.md": 7, "docs/tutorials/lesson.md": 7}


def prose(path):
    """A page without code and the targets of links."""
    text = re.sub(r"^ *```.*?^ *```", "", path.read_text("utf-8"), flags=re.M | re.S)
    return re.sub(r"\]\([^)]*\)|`[^`\n]*`|https?://\S+", "", re.sub(r"\$\$.*?\$\$|\$[^$]+\$", "", text, flags=re.S))


def rounded(number, like):
    return f"{float(number.replace(',', '')):.{len(like.partition('.')[2])}f}" == like.replace(",", "")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_page_of_results_begins_with_where_they_come_from(path):
    head = path.read_text("utf-8").split("\n\n")[1].splitlines()[2:]
    rows = dict(row.strip("| ").split(" | ", 1) for row in head)
    assert list(rows) == ["date", "commit", "machine", "command", "seeds"] and all(rows.values())
    assert re.match(r"20\d\d-\d\d", rows["date"])
    assert path.name in (ROOT / "results" / "README.md").read_text("utf-8")


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact["fact"])
def test_a_fact_stands_on_its_page(fact):
    page = (ROOT / "results" / f"{fact['page']}.md").read_text("utf-8")
    assert any(rounded(number, fact["value"]) for number in re.findall(NUMBER, page))


def test_what_training_promises_stands_in_results():
    rows = [line for line in (ROOT / "results" / "low-resource.md").read_text("utf-8").splitlines() if "|" in line]
    for point in measured():
        scores = point.bleu, point.bleu_elsewhere, point.bleu_held_out, point.right, point.minutes
        found = [
            row for row in rows if row.startswith(f"| {point.kind}") and f"| {point.pairs:,} | {point.seeds} |" in row
        ]
        assert len(found) == 1 and all(f" {one} " in found[0] for one in scores if one is not None), point


def test_no_fact_has_two_values():
    assert len({fact["fact"] for fact in FACTS}) == len(FACTS)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_quotes_facts(path):
    values = {fact["value"] for fact in FACTS}
    text = LIMITS.sub("", " ".join(prose(path).split()))
    assert [found for pattern in QUOTED for found in re.findall(pattern, text) if found not in values] == []


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_has_no_dates_and_few_figures(path):
    text = prose(path)
    assert re.findall(r"\b20\d\d-\d\d-\d\d\b|12995ccb", path.read_text("utf-8")) == []
    figures = re.findall(rf"(?<![\w.-]){NUMBER}(?![\w-])", re.sub(r"\b(?:19|20)\d\d\b", "", text))
    most = MOST_FIGURES.get(path.relative_to(ROOT).as_posix(), 5)
    assert len(figures) <= most * len(text.split()) / 100, f"{len(figures)} figures in {len(text.split())} words"


def test_the_guides_are_a_book_that_can_be_read():
    words = [word for path in GUIDES for word in GENERATED.sub("", path.read_text("utf-8")).split()]
    assert len(GUIDES) <= 40 and sum(any(map(str.isalnum, word)) for word in words) <= 50_000
