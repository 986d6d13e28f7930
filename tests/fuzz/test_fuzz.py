"""A few hundred odd inputs and broken models; NMT_TEST_FUZZ=1000 makes a thousand times as many."""

import os
import shutil

import pytest

from tests.fuzz.imports import KINDS, check_imports
from tests.fuzz.run import check_inputs, check_models, is_text, line_bytes, make_model, run_translate

TIMES = int(os.environ.get("NMT_TEST_FUZZ", "1"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("fuzz"))


def test_odd_inputs(model):
    done = check_inputs(model, 0, 150 * TIMES)
    assert done["not UTF-8"] >= 5 and done["text"] >= 120


def test_every_kind_of_input_comes():
    lines = [line_bytes(number) for number in range(2000)]
    texts = [line.decode() for line in lines if is_text(line)]
    assert 60 < sum(not is_text(line) for line in lines) < 300
    assert {ord(c) >> 16 for text in texts for c in text} == set(range(17))
    assert any(text.count(" ") > 9000 for text in texts) and "" in texts
    assert not any(b"\n" in line for line in lines)
    assert {chr(c) for c in range(32)} - {"\n"} <= {c for text in texts for c in text}


def test_broken_models(model, tmp_path):
    done = check_models(model.parent / "model", model, tmp_path, 0, 120 * TIMES)
    assert done["refused"] >= 70, "most changes are found"


def test_a_model_that_lacks_a_file_is_one_line(model, tmp_path):
    for name in ("joint.spm", "best.safetensors", "config.yaml"):
        shutil.copytree(model.parent / "model", tmp_path / name)
        (tmp_path / name / name).unlink()
        result = run_translate([str(tmp_path / name)], b"kara\n")
        assert result.exit_code == 1 and result.stderr.count("\n") == 1 and result.stderr.startswith("Error: ")


@pytest.mark.parametrize("kind", KINDS)
def test_broken_models_are_refused_in_a_line_or_written(tmp_path, kind):
    done = check_imports(kind, tmp_path / "models", 0, 25 * TIMES)
    assert sum(done.values()) == 25 * TIMES and done.get("refused", 0) >= 5
