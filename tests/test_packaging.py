"""The distribution is `recurrent-nmt`: `nmt` on the package index is somebody else's code, and nobody is sent there."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import nmt
from nmt.errors import how_to_install

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OURS, TAKEN = "recurrent-nmt", "nmt"
INSTALLERS = r"(?:pip[0-9.]*|pipx|\$\(PIP\)|uv(?:\s+pip|\s+tool)?|uvx|poetry|pdm|rye|hatch|conda|mamba)"
COMMAND = re.compile(
    rf"{INSTALLERS}\s+(?:install|add|inject|run|download|wheel)\b([^\n]*(?:\\\n[^\n]*)*)(?:\n([^\n]*))?"
)


def requirement_name(word):
    """The distribution that a word of a command, or a requirement, names; None where it names none."""
    found = re.match(r"([A-Za-z0-9][\w.-]*?)\s*(?:\[[^\]]*\])?\s*(?:[=<>!~;@].*)?$", word.strip("'\"`(),.\\"))
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else None


def sent_to(text):
    """The distributions that commands in a text install; a command's words may stand on its next line."""
    for line, following in COMMAND.findall(text):
        of_command, *rest = re.split(r"[`;&|]", line)
        words = [word for word in of_command.split() if word.strip("'\"\\")] or ([] if rest else following.split())
        yield from filter(None, map(requirement_name, words))


def tracked_texts():
    """Every text file that belongs to the project."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no checkout: nobody says which files belong to the project")
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and path != Path(__file__).resolve() and b"\0" not in (content := path.read_bytes()):
            yield name, content.decode("utf-8")


def test_nobody_is_sent_to_the_distribution_of_others():
    texts = dict(tracked_texts())
    assert "README.md" in texts and "nmt/errors.py" in texts
    assert [name for name, text in texts.items() if TAKEN in sent_to(text)] == []
    extras = "|".join(PROJECT["optional-dependencies"])
    assert [name for name, text in texts.items() if re.search(rf"(?<![\w-])nmt\[(?:{extras})\b", text)] == []


def test_nobody_is_sent_to_an_index_that_does_not_have_it():
    """Until the package is published, a command that installs it is one of a checkout."""
    assert [name for name, text in tracked_texts() if OURS in sent_to(text)] == []


def test_messages_name_extras_that_exist():
    ours = [text for name, text in tracked_texts() if name.startswith("nmt/")]
    called = {extra for text in ours for extra in re.findall(r"(?:how_to_install|require_extra)\(['\"](\w+)", text)}
    assert {"serve", "parquet", "cuda"} <= called <= PROJECT["optional-dependencies"].keys()
    assert how_to_install("serve") == "in the checkout of nmt run pip install -e '.[serve]'"


@pytest.mark.parametrize(
    "text",
    [
        "run `pip install nmt`.",
        "pip install 'nmt[cuda]'",
        'python -m pip install -U "nmt[cuda,dev]>=0.1" numpy',
        "pip3 install numpy NMT==0.1.0",
        *("uv pip install nmt", "uv add nmt[cuda]", "uv tool install nmt", "pipx install nmt"),
        "got none; pip install\n    'nmt[cuda]', or use --device cpu",
        'must be installed, it is not; pip install "\n "nmt[cuda]"',
        "pip install \\\n  --upgrade nmt",
    ],
)
def test_any_way_of_saying_it_is_found(text):
    assert TAKEN in sent_to(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'recurrent-nmt[cuda]'",
        "pip install -e .",
        "pip install numpy\nnmt-train c",
        "`pip install numpy`: nmt",
    ],
)
def test_what_is_right_is_left_alone(text):
    assert TAKEN not in sent_to(text)


def test_the_project_names_itself_rightly():
    assert PROJECT["name"] == OURS
    needed = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    assert OURS in map(requirement_name, needed["cuda"]), "the extra cuda takes in cuda-compiler"
    assert TAKEN not in [requirement_name(one) for found in needed.values() for one in found]


def test_the_version_stands_the_same_everywhere():
    citation = pytest.importorskip("yaml").safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert nmt.__version__ == PROJECT["version"] == citation["version"]
    assert re.search(rf"^## {re.escape(nmt.__version__)}\b", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert citation["license"] == "MIT" and citation["authors"] and citation["title"].startswith(OURS)


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Two builds of the sdist and the wheel, with times held."""
    pytest.importorskip("hatchling", reason="hatchling, which builds, is not installed")
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    for folder in folders:
        command, place = [sys.executable, "-m", "hatchling", "build", "-d", folder], {"SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=os.environ | place)
    return folders


def test_two_builds_are_the_same_bytes(archives):
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in archives)
    assert {name.rsplit(".", 1)[1] for name in first} == {"gz", "whl"}
    assert first == second


def test_the_wheel_brings_what_is_used_and_no_more(archives):
    with zipfile.ZipFile(next(archives[0].glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
        metadata = wheel.read(next(name for name in names if name.endswith("/METADATA"))).decode()
    shared = {name.split(".data/data/")[1] for name in names if ".data/data/" in name}
    pages = {f"share/man/man1/{path.name}" for path in (ROOT / "docs" / "man").iterdir()}
    shells = "bash-completion/completions/nmt zsh/site-functions/_nmt fish/vendor_completions.d/nmt.fish"
    assert len(pages) > 10 and shared == pages | {f"share/{name}" for name in shells.split()}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "nmt").rglob("*.py")}
    assert sources | {"nmt/py.typed"} <= {name for name in names if name.startswith("nmt/")}
    own = f"recurrent_nmt-{nmt.__version__}"
    assert {name.split("/")[0] for name in names} == {"nmt", f"{own}.data", f"{own}.dist-info"}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert "License-Expression: MIT\n" in metadata and "License-File: LICENSE\n" in metadata


def test_the_sdist_builds_and_tests_by_itself(archives):
    with tarfile.open(next(archives[0].glob("*.tar.gz"))) as sdist:
        names = {name.split("/", 1)[1] for name in sdist.getnames()}
    assert {"LICENSE", "Makefile", "CITATION.cff", "SECURITY.md", "docs/man/nmt.1", "docs/build.py", ".ci/run"} <= names
    assert {"data_scripts/number_words.py", "configs/quickstart.yaml", "tests/test_packaging.py"} <= names
    assert not {name for name in names if name.split("/")[0] in {"runs", "data", "dist", "build", ".venv"}}


def test_a_link_in_an_ignored_folder_takes_nothing_from_the_sdist(tmp_path):
    pytest.importorskip("hatchling", reason="hatchling, which builds, is not installed")
    root = tmp_path / "checkout"
    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE", "configs/quickstart.yaml", "nmt/__init__.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "build").mkdir()  # the test bed for Windows has a link to / there, and from / a link of a test led back
    (root / "build" / "link").symlink_to(root / "configs")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path], cwd=root, check=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as sdist:
        assert {"configs/quickstart.yaml", "nmt/__init__.py"} <= {name.split("/", 1)[1] for name in sdist.getnames()}


def test_the_page_of_licences_names_all_that_a_server_installs():
    requirements = pytest.importorskip("packaging.requirements", reason="needs packaging")
    from importlib.metadata import PackageNotFoundError, requires

    wanted, found = [(OURS, "serve")], {}
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in found:
            continue
        try:
            found[name, extra] = requires(name) or []
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed")
        for one in map(requirements.Requirement, found[name, extra]):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                plain = re.sub(r"[-_.]+", "-", one.name).lower()
                wanted += [(plain, extra) for extra in ("", *one.extras)]
    page = (ROOT / "docs" / "versioning.md").read_text("utf-8")
    section = page.partition("### What a server installs")[2].partition("\n### ")[0].lower()
    names = {name for name, _ in found} - {OURS}
    assert len(names) > 30 and f"{len(names)} packages" in section
    assert [name for name in sorted(names) if not re.search(rf"\b{re.escape(name)}\b", section)] == []
