"""docs/lstm-step.md shows what the compiler makes of an LSTM today."""

import os
import platform
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


def test_the_page_is_current(written):
    assert written == PAGE, "run make docs"
