"""What lies beside an export, and what its page says to somebody who gives it text."""

import subprocess
import sys

import pytest

from nmt.exporting.to_numpy import save_numpy
from nmt.storage.saved_model import load_saved_model
from tests.saved_models import write_folder


@pytest.mark.parametrize("joint", [True, False])
def test_an_export_has_the_subwords_and_its_page_takes_their_units(joint, tmp_path):
    folder = write_folder(tmp_path / "m", joint=joint)
    saved = load_saved_model(folder)
    save_numpy(tmp_path / "x", saved)
    for name in ("joint.spm",) if joint else ("src.spm", "tgt.spm"):
        assert (tmp_path / "x" / name).read_bytes() == (folder / name).read_bytes()
    line = "kara losu miti"
    units = saved.src_subwords.pieces(saved.src_subwords.encode([line])[0])
    found = [page(tmp_path / "x", text) for text in (" ".join(units), "  ".join(units), "hello, you there")]
    assert found[0] == found[1] and found[0].stderr == ""
    assert found[2].stderr.count("\n") == 1 and "few subwords of the model" in found[2].stderr


class Page:
    def __init__(self, done):
        self.stdout, self.stderr = done.stdout, done.stderr

    def __eq__(self, other):
        return (self.stdout, self.stderr) == (other.stdout, other.stderr)


def page(folder, line):
    words = [sys.executable, str(folder / "plain_numpy.py")]
    done = subprocess.run(words, input=f"{line}\n", capture_output=True, text=True, timeout=60, check=True)
    return Page(done)
