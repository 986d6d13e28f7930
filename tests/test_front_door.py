"""What somebody new meets is true: messages that a page explains, names of other toolkits, licences, versions, files
to copy."""

import ast
import csv
import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml

from nmt.config import config_schema, load_config
from nmt.config.presets import measured
from tests.test_docs import options_of, schema_paths

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def strings_of_the_code():
    """Every text in nmt, f-strings with a gap in place of their values."""
    for path in (ROOT / "nmt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def rows(page):
    """The cells of each row of a page's tables, without heads."""
    for line in (DOCS / page).read_text("utf-8").splitlines():
        if line.startswith("|") and not set(line) <= set("|- "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def test_messages_that_are_explained_are_those_of_the_code():
    texts = "\n".join(strings_of_the_code())
    quoted = [words for first, *_ in rows("troubleshooting.md") for words in re.findall("`([^`]+)`", first)]
    assert len(quoted) > 20
    assert [words for words in quoted if words not in texts] == ["is not a setting; did you mean"]
    assert "is not a setting" in texts and "; did you mean {}?" in texts


def test_the_migration_page_names_settings_and_options_that_exist():
    schema = config_schema()
    known = set(schema_paths(schema, schema)) | options_of("translate") | options_of("evaluate")
    page = (DOCS / "migration.md").read_text("utf-8").split("\n## Settings of JoeyNMT\n")
    tables = page[0] + page[1].partition("\n## Search\n")[2].partition("\n## Import a model\n")[0]
    firsts = {re.findall("`([^`]+)`", line)[0] for line in tables.splitlines() if line.startswith("| `")}
    ours = {name.split()[0] for name in firsts if not name.startswith(("nmt-", "train.", "patience", "max_", "check"))}
    assert len(ours) > 35 and ours <= known


def test_every_package_has_its_licence_on_the_page():
    page = (DOCS / "versioning.md").read_text("utf-8").lower()
    for extra, requirements in {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}.items():
        if extra == "dev":
            continue
        for requirement in requirements:
            name = re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower()
            assert name == "recurrent-nmt" or name in page, requirement
        assert f"`{extra}`" in page or not extra


def test_constraints_hold_versions_that_the_project_allows():
    packaging = pytest.importorskip("packaging.requirements")
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    held = dict(line.lower().split("==") for line in lines)
    assert len(held) == len(lines) > 100 and not [line for line in lines if "/" in line or "@" in line]
    for requirement in map(packaging.Requirement, PROJECT["dependencies"]):
        assert requirement.specifier.contains(held[requirement.name.lower()]), requirement


def test_parts_that_may_change_in_any_release_are_bounded():
    every = " ".join([*PROJECT["dependencies"], *chain(*PROJECT["optional-dependencies"].values())])
    page = (DOCS / "versioning.md").read_text("utf-8")
    for name in ("numba", "numba-cuda", "uvicorn", "starlette", "sacrebleu", "sentencepiece"):
        assert re.search(rf"(?<![\w-]){name}(?:\[\w+\])?>=[\d.]+,<[\d.]+", every), name
        assert f"{name} (" in page.partition("Upper bounds")[2]


@pytest.mark.parametrize("name", ["own_text", "quickstart"])
def test_files_to_copy_keep_capitals(name):
    data = load_config(ROOT / "configs" / f"{name}.yaml").data
    assert not data.src.lowercase and not data.tgt.lowercase


def test_the_demo_needs_no_extra_and_leaves_out_what_it_would_be_warned_of():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    rule = re.search(r"^demo: (.*)$", makefile, re.M)[1]
    assert "$(BASE)" in rule and "$(STAMP)" not in rule
    assert re.search(r"^\$\(BASE\): pyproject.toml\n(?:\t.*\n)*\t\$\(PIP\) install .* -e \.\n", makefile, re.M)
    filters = yaml.safe_load((ROOT / "configs" / "quickstart.yaml").read_text("utf-8"))["data"]["filter"]
    assert filters == {"overlap": "near", "same": True}


def test_make_installs_each_choice_of_extras_once(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)

    environment = {key: value for key, value in os.environ.items() if key not in ("EXTRAS", "MAKEFLAGS")}

    def installs(*arguments):
        made = subprocess.run(
            ["make", "-s", "setup", f"VENV={tmp_path}", "PIP=echo", *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return re.findall(r"-e \.(\S*)", made.stdout)

    assert installs("EXTRAS=serve, learn") == ["", "[serve,learn]"]
    assert installs("EXTRAS=serve,learn") == []
    assert installs("EXTRAS=documents") == ["[documents]"]
    assert installs() == ["[dev]"]


def test_every_page_stands_in_the_sites_contents():
    index = (DOCS.parent / "index.md").read_text("utf-8")
    pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in DOCS.glob("**/*.md")}
    assert pages <= set(re.findall(r"^(docs/[\w/-]+)$", index, re.M))


RESULTS = sorted(path for path in ROOT.glob("results/*.md") if path.name != "README.md")
# Written by `make docs`, and the history.
APART = {"docs/commands.md", "docs/settings.md", "docs/names.md", "CHANGELOG.md"}
EVERY = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
GUIDES = [path for path in EVERY if path.relative_to(ROOT).as_posix() not in APART]
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
LIMITS = r"\b(?:1|8|16|64|128|200|250|256|425|512) Mi?B\b|\b50 to 250 sentences|\b0\.5 MB|\b54 MB for|4 for each MiB"
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
    rows = dict(row.strip("| ").split(" | ", 1) for row in path.read_text("utf-8").split("\n\n")[1].splitlines()[2:])
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
        own = f"| {point.pairs:,} | {point.seeds} |"
        found = [row for row in rows if row.startswith(f"| {point.kind}") and own in row]
        assert len(found) == 1 and all(f" {one} " in found[0] for one in scores if one is not None), point


def test_no_fact_has_two_values():
    assert len({fact["fact"] for fact in FACTS}) == len(FACTS)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_quotes_facts(path):
    values = {fact["value"] for fact in FACTS} | {str(point.bleu) for point in measured()}
    text = re.sub(LIMITS, "", " ".join(prose(path).split()))
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
