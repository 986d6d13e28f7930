"""How long translations are: a line through lengths, found again in data that lies on one."""

import numpy as np
import pytest

from nmt.errors import CheckpointError
from nmt.storage.length_model import LengthModel, load_length_model, save_length_model


def test_the_line_of_least_squares():
    rng = np.random.default_rng(0)
    src, tgt = rng.integers(0, 40, 500), rng.integers(0, 60, 500)
    model = LengthModel.learn(src, tgt)
    ratio, extra = np.polyfit(src + 1.0, tgt + 1.0, 1)
    if ratio > 0:
        assert (model.ratio, model.extra) == (pytest.approx(ratio), pytest.approx(extra))
    exact = LengthModel.learn(src, 2 * src + 5)
    assert exact.expected([[4] * n for n in (0, 3, 10)]) == pytest.approx([6, 12, 26])
    assert exact.deviation == pytest.approx(0, abs=1e-9) and exact.pairs == 500
    slow = LengthModel.learn(4 * src, 2 * src + 5 + np.resize([3, -3], 500))  # as many too long as too short, by 3
    fitted = np.polyfit(4 * src + 1.0, 2 * src + 6.0 + np.resize([3, -3], 500), 1, full=True)
    assert 0 < slow.ratio < 1 and (slow.ratio, slow.extra) == pytest.approx(tuple(fitted[0]))
    assert slow.deviation == pytest.approx(np.sqrt(fitted[1][0] / 500))


def test_one_length_and_falling_lines_go_through_the_origin():
    one = LengthModel.learn(np.array([3, 3]), np.array([5, 9]))
    assert (one.ratio, one.extra) == (2.0, 0.0)
    falling = LengthModel.learn(np.array([1, 5]), np.array([9, 1]))
    assert (falling.ratio, falling.extra) == (1.5, 0.0)
    assert LengthModel.learn(np.array([9, 0]), np.array([9, 0])).expected([[]]) == pytest.approx([1])
    assert LengthModel(1.0, -5.0, 0.0, 9).expected([[4]]).tolist() == [1.0], "never less than the end"


def test_files(tmp_path):
    path = tmp_path / "lengths.json"
    assert load_length_model(path) is None
    model = LengthModel(0.9, 1.25, 2.0, 7)
    save_length_model(path, model)
    assert load_length_model(path) == model
    for text in ("", "7", "[1]", "{}", '{"ratio": 0, "extra": 0, "deviation": 0, "pairs": 1}', "[" * 100_000, "\xff"):
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(CheckpointError, match=r"lengths\.json: must contain length statistics"):
            load_length_model(path)
