"""nmt-average, nmt-shortlist and nmt-bundle on a real, tiny model, and what nmt-translate makes of them."""

import errno
import json
import os
import shutil
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner

from nmt.cli.commands.average import average
from nmt.cli.commands.bundle import bundle
from nmt.cli.commands.evaluate import evaluate
from nmt.cli.commands.quantize import quantize
from nmt.cli.commands.score import score
from nmt.cli.commands.shortlist import shortlist
from nmt.cli.commands.translate import translate
from nmt.errors import CheckpointError
from nmt.inference.shortlist_learning import count_misses
from nmt.inference.translator import Translator
from nmt.storage.saved_model import load_saved_model
from nmt.storage.tensor_file import map_tensors, write_tensors
from tests.saved_models import sentences, write_folder


def call(command, *arguments, given=None, code=0):
    """What a command prints, which ends with this code."""
    result = CliRunner().invoke(command, [str(a) for a in arguments], input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.stderr
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("models") / "model")


@pytest.fixture(scope="module")
def learnt(folder):
    return call(shortlist, folder, "--per-source", "3", "--frequent", "2", "--threads", "1").stdout.splitlines()


def test_a_shortlist_is_learnt_and_measured(folder, learnt):
    saved = load_saved_model(folder)
    frequent, candidates, together, reference, own = learnt
    ids = [saved.src_subwords.encode([line])[0] for line in sentences(400)[:40]]
    misses = count_misses(saved.shortlist, ids, ids)
    rate = f"{misses.rate:.2f} %", f"{misses.missing} of {misses.tokens} subwords"
    assert reference.split("\t") == ["miss rate", *rate, "reference"]
    assert misses.missing > 0 and f"{misses.candidates:.1f} of {saved.tgt_subwords.vocab_size}" in candidates
    assert own.endswith("translation")
    assert frequent.startswith("frequent\t4 of "), "two, the unknown one and the end"
    assert together.endswith("\t64 sentences in a batch")


def test_frequent_words_are_as_many_as_keep_to_the_share_missed(folder, learnt, tmp_path):
    other = tmp_path / "model"
    shutil.copytree(folder, other)
    rates = {}
    for most in (0.0, 3.0):
        result = call(
            shortlist, other, "--per-source", "1", "--most-missed", most, "--pairs", "150", "--translated", "90"
        )
        lines = [line.split("\t") for line in result.stdout.splitlines()]
        rates[most] = float(lines[-1][1].split()[0]), int(lines[0][1].split()[0])
    assert rates[0.0][0] <= rates[3.0][0] <= 3.0 and rates[0.0][1] > rates[3.0][1]


def test_a_shortlist_of_texts_that_are_no_translations_is_told(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    lines = sentences(300, seed=6)
    for name, text in (("s", lines), ("t", lines[1:] + lines[:1])):
        (tmp_path / name).write_text("\n".join(text) + "\n")
    learnt_from = ("--src", tmp_path / "s", "--tgt", tmp_path / "t", "--per-source", "2", "--frequent", "2")
    done = call(shortlist, other, *learnt_from, "--most-missed", "100")
    assert done.stderr.count("swapped or are no translations") == 1


def test_one_file_of_it_all(folder, learnt, tmp_path):
    path = tmp_path / "m.nmt"
    assert "subwords, shortlist" in call(bundle, folder, "-o", path).stderr
    text = "\n".join([*sentences(9, seed=3), "", "kara"]) + "\n"
    for options in ([], ["--shortlist"], ["--word-reward", "0.4"], ["--n-best", "2"]):
        one, other = (call(translate, model, *options, given=text) for model in (folder, path))
        assert one.stdout == other.stdout
    pair = same_text(tmp_path, text)
    one, other = (call(score, model, *pair) for model in (folder, path))
    assert one.stdout == other.stdout
    done = call(evaluate, path, "--shortlist", "--src", tmp_path / "s", "--ref", tmp_path / "t", "--json")
    assert json.loads(done.stdout)["lines"] == 11


def same_text(folder, text):
    """Options for a source and a target that are equal, in two files."""
    for name in ("s", "t"):
        (folder / name).write_text(text, "utf-8")
    return ["--src", folder / "s", "--tgt", folder / "t"]


def test_checkpoints_that_were_kept_have_names(folder, tmp_path):
    other, lines = tmp_path / "model", "".join(f"{line}\n" for line in sentences(5, seed=2))
    shutil.copytree(folder, other)
    tensors, content = map_tensors(folder / "best.safetensors")
    for update, factor in ((600, 1.5), (80, 0.5)):
        changed = {name: array * np.float32(factor) for name, array in tensors.items()}
        write_tensors(other / f"best-{update}.safetensors", changed, content)
    (other / "notes.safetensors").write_bytes(b"")
    pair = same_text(tmp_path, lines)
    shown = {name: call(score, other, *pair, "--checkpoint", name).stdout for name in ("best", "best-600", "best-80")}
    assert len(set(shown.values())) == 3
    details = Translator.load(other, checkpoint="best-600").score(lines.splitlines(), lines.splitlines())
    sums = [float(row.split("\t")[1]) for row in shown["best-600"].splitlines()]
    assert sums == pytest.approx([sum(one.log_probs) for one in details], abs=1e-5)
    for command in (translate, quantize, bundle):
        more = {quantize: ["-o", tmp_path / "q"], bundle: ["-o", tmp_path / "b.nmt"]}.get(command, [tmp_path / "s"])
        call(command, other, *more, "--checkpoint", "best-80")
        more = {quantize: ["-o", tmp_path / "q2"], bundle: ["-o", tmp_path / "b2.nmt"]}.get(command, more)
        result = call(command, other, *more, "--checkpoint", "best-7", code=1)
        assert result.stderr.count("\n") == 1
        assert "must contain best-7.safetensors" in result.stderr and "got best, best-600, best-80;" in result.stderr
    names = ["--checkpoint", "best-600", "--checkpoint", other / "best-80.safetensors"]
    call(average, other, *names, "-o", tmp_path / "mean")
    assert call(score, tmp_path / "mean", *pair).stdout == shown["best"], "the mean of 1.5 and 0.5 times"
    for name in ("../model/best", "notes", "shortlist", "", "best-600.safetensors"):
        with pytest.raises(CheckpointError, match="got best, best-600, best-80;"):
            Translator.load(other, checkpoint=name)


@pytest.mark.parametrize("command", [quantize, average])
def test_a_folder_that_cannot_be_finished_is_not_there(command, folder, tmp_path, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for module in ("nmt.storage.saved_model", "nmt.train.checkpoints.checkpoint"):
        monkeypatch.setattr(f"{module}.write_tensors", Mock(side_effect=full))
    kept = ["--checkpoint", "best"] if command is average else []
    result = call(command, folder, *kept, "-o", tmp_path / "new", code=1)
    assert result.stderr.count("\n") == 1
    assert "must be written, got no space left on device; free some space and run again" in result.stderr
    assert os.listdir(tmp_path) == []


def test_what_may_not_be_written_needs_leave_and_not_room(folder, monkeypatch, tmp_path):
    refusal = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    for module in ("nmt.storage.model_folder", "nmt.storage.saved_model"):
        monkeypatch.setattr(f"{module}.write_tensors", Mock(side_effect=refusal))
    for words in ((shortlist, folder, "--pairs", "9"), (bundle, folder, "-o", tmp_path / "x.nmt")):
        result = call(*words, code=1)
        assert "got permission denied; " in result.stderr
        assert result.stderr.endswith("get leave to write there, or choose another place\n")


def test_soft_alignments_and_a_dictionary(folder, tmp_path):
    options = ["--alignments", tmp_path / "a", "--alignment-type", "soft"]
    result = call(translate, folder, *options, given="kara losu miti\n\n")
    first, empty = (tmp_path / "a").read_text().split("\n")[:-1]
    rows = [[float(x) for x in word.split(",")] for word in first.split()]
    assert empty == "" and len(rows) == len(result.stdout.split("\n")[0].split())
    for row in rows:
        assert len(row) == 4 and sum(row) == pytest.approx(1, abs=1e-4), "three words and the end"


def test_pairs_are_scored_in_each_dtype(folder, tmp_path):
    sides = [*same_text(tmp_path, "".join(line + "\n" for line in sentences(6, seed=3))), "--threads", "1"]
    found = {kind: call(score, folder, *sides, "--compute-dtype", kind) for kind in ("float32", "bfloat16", "int8")}
    sums = {kind: [float(line.split("\t")[1]) for line in one.stdout.splitlines()] for kind, one in found.items()}
    assert len(sums["float32"]) == 6
    for kind in ("bfloat16", "int8"):
        assert sums[kind] != sums["float32"] and sums[kind] == pytest.approx(sums["float32"], rel=0.1)


CONVOLUTIONS = {"type": "conv", "hidden_size": 5, "embeddings": {"embedding_dim": 4}, "max_positions": 4}


def test_lines_beyond_the_positions_of_convolutions(tmp_path):
    """Positions beyond the last learned one share it: long lines are translated and scored like any other."""
    whole = write_folder(tmp_path / "m", encoder=CONVOLUTIONS, decoder=CONVOLUTIONS | {"attention": "dot"})
    lines = ["kara", " ".join(sentences(8, seed=3)), *sentences(3, seed=4)]
    given = "".join(line + "\n" for line in lines)
    options = ["--output-format", "json", "--min-length", "9", "--threads", "1"]
    found = [json.loads(line) for line in call(translate, whole, *options, given=given).stdout.splitlines()]
    assert [one["source"] for one in found] == lines
    for one in found:
        (best,) = one["translations"]
        assert len(best["tokens"]) > 9
        assert sum(best["token_log_probs"]) == pytest.approx(best["log_prob"], abs=1e-4)
    scored = call(score, whole, *same_text(tmp_path, given), "--threads", "1")
    assert len(scored.stdout.splitlines()) == len(lines), scored.stderr


def test_a_shortlist_that_leaves_out_too_much_is_not_written(tmp_path):
    """As with the languages swapped. The one that was there stays."""
    other = write_folder(tmp_path / "m")
    call(shortlist, other, "--threads", "1", "--most-missed", "100", "--pairs", "50", "--translated", "20")
    before = {path.name: path.read_bytes() for path in other.iterdir()}
    pair = [*same_text(tmp_path, "kara\n"), "--translated", "0", "--per-source", "1"]
    result = call(shortlist, other, *pair, "--threads", "1", "--most-missed", "0", code=1)
    assert "must miss at most 0 % of the model's own output" in result.stderr
    assert before == {path.name: path.read_bytes() for path in other.iterdir()}
    call(shortlist, other, *pair, "--threads", "1", "--frequent", "2")  # asked for by its number
