"""docs/lstm-step.md shows what the compiler makes of an LSTM today."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import binding

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "lstm-step.md").read_text("utf-8")
VERSION = ".".join(map(str, binding.llvm_version_info))

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or f"LLVM {VERSION}," not in PAGE,
    reason="the page shows the assembly of one version of LLVM for x86-64 with Linux",
)


@pytest.fixture(scope="module")
def written():
    """The page as `make docs` would write it, from a process that compiles for the page's processor."""
    code = (
        "import sys; sys.path.insert(0, 'docs'); import lstm_step\n"
        "sys.stdout.write(lstm_step.refreshed(lstm_step.PAGE.read_text('utf-8')))"
    )
    environment = {**os.environ, "NMT_CPU": "avx2", "NMT_CPU_UNCHECKED": "1"}
    options = {"cwd": ROOT, "env": environment, "capture_output": True, "text": True, "check": True}
    return subprocess.run([sys.executable, "-c", code], **options).stdout


def listing(page, name):
    return re.search(rf"<!-- lstm_step: {name} -->\n(.*?)<!-- end -->", page, re.S)[1]


def test_the_page_is_current(written):
    assert written == PAGE, "run make docs"


def test_every_line_of_the_equation_reaches_every_listing(written):
    for name in ("cell", "graph", "gradient", "phases", "gradient_phases", "counts"):
        assert set(re.findall(r"\((\d)\)", listing(written, name))) == set("12345678"), name
    assert set(re.findall(r"^\((\d)\)", listing(written, "loop"), re.M)) == set("2345678")
    assert set(re.findall(r"^\((\d)\)", listing(written, "vector"), re.M)) == set("345678")


def test_counts_are_those_of_the_listings(written):
    rows = re.findall(r"^\| \((\d)\) \|.*", listing(written, "counts"), re.M)
    cells = [row.split("|")[3:-1] for row in re.findall(r"^\| \(.*", listing(written, "counts"), re.M)]
    assert len(rows) == 8
    graph = listing(written, "graph").splitlines()
    vector = listing(written, "vector")
    for number, (values, *_, instructions, _) in zip(rows, cells, strict=True):
        assert int(values) == sum(line.startswith(f"({number})") for line in graph)
        groups = re.findall(rf"^\({number}\) .*\n((?: {{11}}.*\n)*)", vector, re.M)
        assert int(instructions) == sum("ymm" in line for group in groups for line in group.splitlines())
