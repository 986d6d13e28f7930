"""Source factors from text to translation: they are learned from, saved, bundled, shrunk, and refused where nobody
knows of them."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nmt import Translator
from nmt.cli.commands.bundle import bundle
from nmt.cli.commands.export import export
from nmt.cli.commands.quantize import quantize
from nmt.cli.commands.score import score
from nmt.cli.commands.shortlist import shortlist
from nmt.cli.commands.translate import translate
from nmt.config import config_from_dict
from nmt.data.batching.batches import make_batch
from nmt.data.corpora.corpus import Side, load_parallel
from nmt.doctor import examine
from nmt.errors import ConfigError, DataError
from nmt.serve.models import load_models
from nmt.serve.settings import ServerSettings
from nmt.train.run.trainer import Trainer
from nmt.train.tasks.prepare import sides_of_sample
from nmt.train.updates.update import Methods
from tests import small_models
from tests.cli.test_cli_models import call
from tests.finite_differences import check_gradients
from tests.settings import texts_in
from tests.train.resumed import difference

WORDS, TAGS = "abcdef", ("X", "Y")


def write_texts(folder: Path) -> None:
    """Letters whose translation their tag alone decides: the letter, or the capital."""
    for part, lines, seed in (("train", 400, 1), ("dev", 10, 2)):
        rng = random.Random(seed)
        rows = [[(rng.choice(WORDS), rng.choice(TAGS)) for _ in range(rng.randint(1, 4))] for _ in range(lines)]
        src = "".join(" ".join(f"{word}|{tag}" for word, tag in row) + "\n" for row in rows)
        tgt = "".join(" ".join(word if tag == "X" else word.upper() for word, tag in row) + "\n" for row in rows)
        (folder / f"{part}.xx").write_text(src)
        (folder / f"{part}.yy").write_text(tgt)


def settings(folder: Path, **training: Any) -> dict[str, Any]:
    side, words = {"embeddings": {"embedding_dim": 16}, "hidden_size": 24}, {"type": "word", "vocab_size": 30}
    return {
        "model_dir": str(folder / "model"),
        "threads": 1,
        "data": texts_in(folder, src_factors=["case"], factor_separator="|", subwords=words | {"joint": False}),
        "model": {"encoder": {**side, "factors": [6]}, "decoder": side},
        "training": {"batch_size": 300, "updates": 150, "epochs": 100, "learning_rate": 0.01, "scheduling": "linear"}
        | {"validation_freq": 75, "stop_after": None, **training},
        "decoding": {"beam_size": 2},
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("factors")
    write_texts(folder)
    Trainer(config_from_dict(settings(folder))).run()
    return folder


LINES = ["a|X b|Y", "f|Y", "", "c|X c|Y c|X"]
ANSWERS = ["a B", "F", "", "c C c"]


def test_what_only_factors_tell_is_learned(trained: Path) -> None:
    translator = Translator.load(trained / "model", threads=1)
    assert translator.translate(LINES) == ANSWERS
    assert translator.score(LINES[:2], ANSWERS[:2])[0].log_probs
    assert [one.text for one in translator.translate_nbest(["a|X"], n_best=2, details=True)[0]][0] == "a"
    assert translator.session("d|Y").complete("")[0].text == "D"


def test_a_bundle_and_int8_and_the_command_say_the_same(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    call(bundle, trained / "model", "-o", tmp_path / "one.nmt")
    call(quantize, trained / "model", "-o", tmp_path / "int8")
    for model in (trained / "model", tmp_path / "one.nmt", tmp_path / "int8"):
        assert call(translate, model, tmp_path / "in.txt", "--threads", "1").stdout.splitlines() == ANSWERS, model


def test_a_word_without_factors_is_a_line_that_names_it(trained: Path, tmp_path: Path) -> None:
    translator = Translator.load(trained / "model", threads=1)
    with pytest.raises(DataError, match=r"sentence 2: each word must have 1 factor behind it, word\|FACTOR, got 'b'"):
        translator.translate(["a|X", "a|X b"])
    (tmp_path / "in.txt").write_text("a|X\nb|Y\nc\n")
    for words, where in (([tmp_path / "in.txt"], f"{tmp_path / 'in.txt'}: line 3"), ([], "standard input: line 1")):
        told = call(translate, trained / "model", *words, given="c\n", code=1).stderr
        assert f"{where}: each word must have 1 factor" in told


def test_what_does_not_know_of_them_refuses(trained: Path, tmp_path: Path) -> None:
    model = trained / "model"
    (tmp_path / "in.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\na\n")
    commands = [
        (translate, [model, tmp_path / "in.srt", "--format", "srt"], "--format: must have a model without data."),
        (shortlist, [model, "--src", trained / "dev.xx", "--tgt", trained / "dev.yy"], "nmt-shortlist: must"),
        (export, [model, "--to", "numpy", "-o", tmp_path / "numpy"], "model.encoder.factors must be none"),
        (export, [model, "--to", "onnx", "-o", tmp_path / "onnx"], "model.encoder.factors must be none"),
    ]
    for command, words, message in commands:
        assert message in call(command, *words, code=1).stderr
    with pytest.raises(ConfigError, match=r"model: must have a model without data\.src_factors, got one with case"):
        load_models(ServerSettings(models=(trained / "model",)))


def test_the_score_command_knows_them(trained: Path) -> None:
    call(score, trained / "model", "--src", trained / "dev.xx", "--tgt", trained / "dev.yy")


def test_an_interruption_changes_no_bit(trained: Path) -> None:
    values = settings(trained, src_word_dropout=0.1, validation_freq=2, batch_multiplier=2)
    assert difference(config_from_dict(values), 2) == (4, [])


def test_an_unknown_word_keeps_its_factors(trained: Path) -> None:
    model = small_models.build(9, factor_sizes=(4,), encoder={"factors": (3,)})
    whole = config_from_dict(settings(trained, src_word_dropout=0.5))
    batch = make_batch([[4 + 9 * (1 + n % 3), 6 + 9 * 2] for n in range(20)], [[4]] * 20, range(20))
    found = Methods(whole, model).prepare(batch, 3).batch.src
    units = found % 9
    assert set(units[:2].reshape(-1).tolist()) == {1, 4, 6}
    np.testing.assert_array_equal(found // 9, batch.src // 9)
    assert (units[2] == 3).all()
    assert found.dtype == batch.src.dtype


def test_the_doctor_counts_units_without_them(trained: Path) -> None:
    config = config_from_dict(settings(trained))
    found = examine(config, lambda sample: sides_of_sample(config, sample, lambda text: None))
    assert not found.errors
    assert not any(one.name in ("vocabulary", "unknown") for one in found.warnings)
    bad = config.model_copy(update={"data": config.data.model_copy(update={"dev": str(trained / "bad")})})
    (trained / "bad.xx").write_text("a|X\nb\n")
    (trained / "bad.yy").write_text("a\nb\n")
    with pytest.raises(DataError, match=r"bad\.xx, line 2: each word must have 1 factor"):
        examine(bad, lambda sample: sides_of_sample(config, sample, lambda text: None))
    src, tgt = sides_of_sample(config, [["a|X a|X"], ["a a"]], lambda text: None)
    with pytest.raises(DataError, match="bad, source line 2: each word must have 1 factor"):
        load_parallel(str(trained / "bad"), Side(config.data.src, src.subwords), tgt, training=False)


def test_gradients_of_their_tables_are_those_of_the_loss() -> None:
    sizes = {"factor_sizes": (4, 5), "encoder": {"factors": (3, 2)}}
    model = small_models.build(9, dtype=np.float64, **sizes)
    pairs = [([4 + 9 * 2, 5 + 9 * (3 + 4 * 2)], [5, 4]), ([8 + 9 * (1 + 4 * 4), 7 + 9 * 2, 4], [6])]
    batch = make_batch([src for src, _ in pairs], [tgt for _, tgt in pairs], range(2))
    tables = {f"src_factors.{n}.embeddings" for n in range(2)}
    names = (*tables, "src_embeddings", "encoder.0.forward.W_x")
    _, gradients = check_gradients(model, batch, {"seed": 1, "threads": 1}, smallest=1e-9, names=names)
    assert {name for name in gradients if name.startswith("src_factors")} == tables
