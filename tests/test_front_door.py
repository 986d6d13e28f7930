"""What somebody new meets is true: messages that a page explains, names of other toolkits, licences, versions, files
to copy."""

import ast
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
    assert {path.relative_to(ROOT).with_suffix("").as_posix() for path in DOCS.glob("**/*.md")} <= set(
        re.findall(r"^(docs/[\w/-]+)$", index, re.M)
    )
