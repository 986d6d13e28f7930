"""Every key of configs/reference.yaml does something: each has a run here that would be the same if it did nothing, or
names the test that fails then."""

import ast
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nmt.config import config_from_dict, load_config
from nmt.errors import NMTError
from nmt.search_settings import ROWS
from nmt.storage.model_folder import read_checkpoint
from nmt.train.run.trainer import Trainer
from tests.settings import changed, leaves, texts_in
from tests.train import fake_model
from tests.train.resumed import events

ROOT = Path(__file__).parents[2]

SGD = {"training.optimizer": "sgd"}
WORSE = {"training.learning_rate": 5.0, "training.metric": "loss", "training.learning_rate_min": 1.0}
"""Every validation after the first is worse."""
LONG = {"training.updates": 30, "training.validation_freq": 10}

RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "name": ("other", {}),
    "seed": (7, {}),
    "data.train": ("{folder}/dev", {}),
    "data.dev": ("{folder}/test", {}),
    "data.test": ("{folder}/test", {}),
    "data.src.lang": ("zz", {}),
    "data.tgt.lang": ("zz", {}),
    "data.src.max_length": (3, {}),
    "data.tgt.max_length": (3, {}),
    "data.src.lowercase": (True, {}),
    "data.tgt.lowercase": (True, {}),
    "data.src.normalize": ("nfkc", {}),
    "data.tgt.normalize": ("nfkc", {}),
    "data.subwords.type": ("char", {}),
    "data.subwords.vocab_size": (30, {}),
    "data.subwords.joint": (False, {}),
    "data.subwords.character_coverage": (0.98, {"data.subwords.type": "char"}),
    "data.subwords.model_file": ("{folder}/none.spm", {}),
    "data.subwords.src_model_file": ("{folder}/none.spm", {"data.subwords.joint": False}),
    "data.subwords.tgt_model_file": ("{folder}/none.spm", {"data.subwords.joint": False}),
    "model.encoder.boundaries": ("none", {}),
    "data.check": (False, {}),
    "data.filter.duplicates": (True, {}),
    "data.filter.same": (True, {}),
    "data.filter.max_length_ratio": (1.5, {}),
    "data.filter.markup": (True, {}),
    "data.filter.encoding": (True, {}),
    "data.filter.control": (True, {}),
    "data.filter.script": (True, {}),
    "data.filter.overlap": ("exact", {}),
    "training.optimizer": ("adamw", {"training.weight_decay": 0.1}),
    "training.learning_rate": (0.1, {}),
    "training.adam_betas": ([0.8, 0.9], {}),
    "training.adam_eps": (1e-3, {}),
    "training.weight_decay": (0.01, {}),
    "training.momentum": (0.5, SGD),
    "training.clip_grad_norm": (0.01, SGD),
    "training.batch_size": (32, {}),
    "training.batch_type": ("sentence", {}),
    "training.batch_multiplier": (2, {}),
    "training.learning_rate_scaling": ("sqrt", {"training.batch_multiplier": 2}),
    "training.scheduling": ("linear", LONG),
    "training.learning_rate_warmup": (5, {}),
    "training.cooldown": (0.5, {}),
    "training.learning_rate_min": (4.0, {**WORSE, "training.lower_after": 1}),
    "training.decrease_factor": (0.2, {**WORSE, "training.lower_after": 1}),
    "training.lower_after": (1, WORSE),
    "training.stop_after": (1, WORSE),
    "training.metric": ("loss", WORSE),
    "training.epochs": (1, LONG),
    "training.updates": (5, {}),
    "training.max_minutes": (1e-6, {}),
    "training.validation_freq": (5, {}),
    "training.validation_pairs": (3, {}),
    "training.logging_freq": (3, {}),
    "training.shuffle": (False, {}),
    "training.print_valid_sents": ([4], {}),
    "training.keep_best_ckpts": (3, {"training.validation_freq": 2}),
    "training.keep_last_ckpts": (3, {"training.validation_freq": 2}),
    "training.ema_decay": (0.9, {}),
    "training.src_word_dropout": (0.5, {}),
}
"""For each key another value, and what stands beside both."""

BASES = {"data.subwords.type": "word", "training.metric": "bleu"}
"""Keys whose first value is not what `write_setup` or the default gives."""

ELSEWHERE = {
    "preset": "tests/test_presets.py",
    "threads": "tests/train/test_optimizer.py",
    "device": "tests/cuda/test_training.py",
    "compute_dtype": "tests/model/test_gradients.py",
    "model_dir": "tests/train/test_trainer.py",
    "data.src_factors": "tests/test_factors.py",
    "data.factor_separator": "tests/test_factors.py",
    "model.encoder.factors": "tests/test_factors.py",
    "training.freeze": "tests/test_methods.py",
    "training.extend_vocabulary": "tests/test_methods.py",
    "training.load_model": "tests/train/test_prepare.py",
    "training.reset_optimizer": "tests/train/test_prepare.py",
    "training.label_smoothing": "tests/model/test_gradients.py",
    "training.gradient_dtype": "tests/train/test_ranks.py#bfloat16",
    "training.recompute": "tests/model/test_gradients.py",
    "training.tgt_word_dropout": "tests/train/test_methods.py",
    "training.r_drop": "tests/train/test_methods.py",
    "training.auto_epochs": "tests/train/test_lengths.py",
    "training.guided_alignment": "tests/test_methods.py",
}

for name in ("residual", "embeddings.scale", "variational_dropout"):
    for side in ("encoder", "decoder"):
        ELSEWHERE[f"model.{side}.{name}"] = "tests/model/test_gradients.py"
ELSEWHERE |= {f"decoding.{name}": "tests/test_search_settings.py" for name in ROWS}
ELSEWHERE |= {
    "model.decoder.copy_source": "tests/model/test_copying.py",
    "model.decoder.edit_actions": "tests/model/test_edit_actions.py",
    "model.decoder.init_from": "tests/model/test_gradients.py",
    "model.decoder.bridge_activation": "tests/model/test_gradients.py",
}

CONV = {"model.decoder.type": "conv", "model.encoder.type": "conv", "model.decoder.embeddings.embedding_dim": 512}
CONV |= {"model.encoder.embeddings.embedding_dim": 512}
TIED = {"model.decoder.embeddings.embedding_dim": 512}
LAYERS = {"model.encoder.num_layers": 2, "model.decoder.num_layers": 2}
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "model.tied_embeddings": ("softmax", TIED),
    "model.initializer": ("uniform", {}),
    "model.init_weight": (0.3, {"model.initializer": "uniform"}),
    "model.forget_bias": (0.0, {}),
    "model.encoder.type": ("conv", {}),
    "model.decoder.type": ("conv", {}),
    "model.decoder.input_feeding": (False, {}),
    "model.decoder.init_hidden": ("zero", {}),
    "model.decoder.attention": ("general", {}),
    "model.decoder.attention_size": (64, {}),
    "model.decoder.attention_heads": (2, {"model.decoder.attention": "multi_head"}),
    "model.decoder.attention_bias": (True, {}),
    "model.decoder.lexical": (True, {}),
    "model.decoder.readout": ("linear", {}),
    "model.decoder.readout_size": (7, {}),
    "model.decoder.conditional": (True, {"model.decoder.input_feeding": False}),
    "model.decoder.hidden_dropout": (0.5, {}),
    "model.encoder.bidirectional": (False, {}),
    "model.encoder.projection": (64, {}),
    "model.encoder.kernel_size": (5, CONV),
    "model.decoder.kernel_size": (5, CONV),
    "model.encoder.max_positions": (9, CONV),
    "model.decoder.max_positions": (9, CONV),
}
for side in ("encoder", "decoder"):
    MODELS |= {
        f"model.{side}.rnn_type": ("gru", {}),
        f"model.{side}.zoneout": (0.5, {}),
        f"model.{side}.embeddings.embedding_dim": (64, {}),
        f"model.{side}.embeddings.dropout": (0.5, {}),
        f"model.{side}.hidden_size": (64, {}),
        f"model.{side}.num_layers": (2, {}),
        f"model.{side}.dropout": (0.5, LAYERS),
    }


def test_every_key_of_the_reference_is_reached() -> None:
    keys = set(leaves(load_config(ROOT / "configs" / "reference.yaml").to_dict()))
    lists = RUNS, MODELS, ELSEWHERE
    assert keys == set().union(*lists)
    assert len(keys) == sum(map(len, lists)), "a key is in one list"


@pytest.mark.parametrize("key", ELSEWHERE)
def test_what_is_reached_elsewhere_is(key: str) -> None:
    """The file is there, and its tests speak of the setting, or of what is named behind the #."""
    file, _, name = ELSEWHERE[key].partition("#")
    name = name or key.rpartition(".")[2]
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    assert any(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in ast.walk(tree))
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    words |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}
    words |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    words |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    assert any(re.search(rf"\b{name}\b", word) for word in words), f"{file} does not speak of {name}"


def outcome(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """What a run leaves: files, arrays, numbers, and lines of its log but for what time decides."""
    folder.mkdir()
    settings = changed(fake_model.write_setup(folder, updates=12, validation_freq=3), values.items())
    mixed = [f"W{n} ﬁ <b>Ã¤</b>\x01 w1" for n in range(3)] + ["w1 w2"] * 3 + ["z1 z2", "ж ж ж ж ж ж"]
    same = ["Z1 ﬁ <b>Ã¤</b>\x01 z1"] * 3 + ["z1 z2"] * 3 + ["z1 z2", "z3 " * 20]
    for lang, lines in (("xx", mixed), ("yy", same)):
        with (folder / f"train.{lang}").open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))
            file.write((folder / f"dev.{lang}").read_text().splitlines()[0] + "\n")
    try:
        result = Trainer(config_from_dict(settings)).run()
    except NMTError as error:
        return {"error": str(error).replace(str(folder), "")}
    model = Path(settings["model_dir"])
    last = model / "last.safetensors"
    arrays, content = read_checkpoint(last) if last.exists() else ({}, {"state": {}})
    told = events(model)
    for event in told:
        for name in filter(re.compile("second|^(time|elapsed|machine|peak_memory)$").search, list(event)):
            del event[name]
    shown = [line[21:] for line in (model / "train.log").read_text().splitlines()]
    return {
        "files": sorted(str(path.relative_to(model)) for path in model.rglob("*") if "tfevents" not in path.name),
        "arrays": {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in arrays.items()},
        "events": told,
        "state": {name: value for name, value in content["state"].items() if name != "elapsed"},
        "end": (result.reason, result.update, result.best_update),
        "batch size": [re.sub(r"[\d.]+ [MG]iB", "", line) for line in shown if line.startswith("batch_size")],
        "name": [line.split(":")[0] for line in shown if line.startswith("model ")],
    }


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The folder and the outcome of a run with these values, which many keys are compared with."""

    @cache
    def found(key: str) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("run") / "one"
        return folder, outcome(folder, json.loads(key))

    return lambda values: found(json.dumps(values, sort_keys=True))


def test_the_folder_of_a_run_changes_nothing(tmp_path: Path, known: Any) -> None:
    assert known({})[1] == outcome(tmp_path / "two", {})


@pytest.mark.parametrize("key", RUNS)
def test_a_run_is_another_one(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: Any) -> None:
    value, beside = RUNS[key]
    first, other = {key: BASES[key]} if key in BASES else {}, {key: value}
    folder, one = known({**beside, **first})
    other = {name: given.format(folder=folder) if isinstance(given, str) else given for name, given in other.items()}
    assert one != outcome(tmp_path / "two", {**beside, **other})


@pytest.mark.parametrize("key", MODELS)
def test_a_model_is_another_one(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parameters, first values, or what is traced of its cells; nothing is compiled."""
    for name in ("nmt.model", "nmt.model.translation"):
        monkeypatch.delitem(__import__("sys").modules, name)
    from nmt.model.parts.cells import decoder_cell, encoder_cells
    from nmt.model.translation import TranslationModel
    from nmt.rnn.compiler.identity import traced

    def found(values: dict[str, Any]) -> tuple[Any, ...]:
        config = config_from_dict(changed({"model_dir": "x", "data": texts_in(Path())}, values.items()))
        model = TranslationModel(config.model, 11, 11)
        model.initialize(1)
        arrays = {name: array.tobytes() for name, array in model.params.items()}
        steps = [traced(cell) for cell in (*encoder_cells(config.model), decoder_cell(config.model))]
        return arrays, steps

    value, beside = MODELS[key]
    assert found(beside) != found({**beside, key: value})
