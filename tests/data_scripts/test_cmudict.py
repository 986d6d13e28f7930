"""cmudict.py and pronunciation_errors.py: alternatives kept for scoring, distances against a plain recursion."""

import gzip
import random
from functools import cache

import pytest
from pronunciation_errors import edit_distance, nearest

from tests.data_scripts.test_corpora import one_line, printed, run


@pytest.fixture
def small_copy(tmp_path):
    """A folder as the corpus comes: train packed, dev and test with alternatives."""
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / "train.grapheme.gz").write_bytes(gzip.compress(b"a b\n' c\n"))
    (folder / "train.phoneme.gz").write_bytes(gzip.compress(b"AH B\nK\n"))
    for part in ("dev", "test_a"):
        (folder / f"{part}.grapheme").write_text("a b e\na g\n")
        (folder / f"{part}.phoneme").write_text("EY B\nAE G | EY G IY | AH G\n")
    return folder


def test_first_pronunciations_to_learn_from_and_all_to_be_scored_by(small_copy, tmp_path):
    printed("cmudict.py", "--from", small_copy, "--out", tmp_path / "out")
    assert (tmp_path / "out/train.phoneme").read_text() == "AH B\nK\n"
    assert (tmp_path / "out/train.grapheme").read_text() == "a b\n' c\n"
    assert not (tmp_path / "out/train.answers").exists()
    for part in ("dev", "test"):
        assert (tmp_path / f"out/{part}.phoneme").read_text() == "EY B\nAE G\n"
        assert (tmp_path / f"out/{part}.answers").read_text() == "EY B\nAE G | EY G IY | AH G\n"


def test_a_missing_side_is_one_line(small_copy, tmp_path):
    (small_copy / "test_a.phoneme").unlink()
    message = one_line(run("cmudict.py", "--from", small_copy, "--out", tmp_path / "out"), "cmudict.py")
    assert "must contain test_a.phoneme or test.phoneme" in message
    assert not (tmp_path / "out").exists()
    assert "must be a folder" in one_line(run("cmudict.py", "--from", tmp_path / "none"), "cmudict.py")


def test_the_nearest_answer_counts(tmp_path):
    (tmp_path / "hyp").write_text("EY G IY\nK\n\nB AA R\n")
    (tmp_path / "answers").write_text("AE G | EY G IY\nK AH T\nAA\nB ER | AA R\n")
    answer = run("pronunciation_errors.py", tmp_path / "hyp", tmp_path / "answers", "--at-most", "75")
    assert answer.returncode == 0
    # Edits 0 of 3 sounds, 2 of 3, 1 of 1, 1 of 2 (AA R is nearer than B ER).
    assert answer.stdout.splitlines()[-2:] == ["WER 75.00% (3 of 4 words)", "PER 44.44% (4 of 9 sounds)"]
    assert answer.stdout.splitlines()[:2] == ["  got  K", "  for  K AH T"]
    answer = run("pronunciation_errors.py", tmp_path / "hyp", tmp_path / "answers", "--at-most", "74.9", "--show", "0")
    assert "WER must be at most 74.9%, got 75.00%" in one_line(answer, "pronunciation_errors.py")
    assert len(answer.stdout.splitlines()) == 2


def test_edit_distance_is_that_of_the_recursion():
    random.seed(7)
    for _ in range(300):
        one, other = ([random.choice("abc") for _ in range(random.randrange(6))] for _ in range(2))  # noqa: S311

        @cache
        def plain(i, j, one=tuple(one), other=tuple(other)):
            if not i or not j:
                return i + j
            return min(plain(i - 1, j) + 1, plain(i, j - 1) + 1, plain(i - 1, j - 1) + (one[i - 1] != other[j - 1]))

        assert edit_distance(one, other) == plain(len(one), len(other))
    assert nearest(["a"], [["b", "c"], ["a", "d"], ["a", "e", "f"]]) == (1, 2)
    assert nearest(["a"], [["b"], ["a", "d"]]) == (1, 2)
