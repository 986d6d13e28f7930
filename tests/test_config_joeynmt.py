"""JoeyNMT's configs as settings of ours. Keys and values are those of the recurrent configs that JoeyNMT publishes (its
configs folder, versions 1.0 to 2.3: iwslt14_deen_bpe, iwslt_deen_bahdanau, iwslt_envi_luong, iwslt_envi_xnmt,
wmt_ende_best, rnn_reverse, rnn_small)."""

import copy

import pytest
from click.testing import CliRunner

from nmt.cli.commands.train import train
from nmt.config import config_from_dict, load_config
from nmt.config.joeynmt.settings import convert, is_joeynmt
from nmt.config.yaml_text import format_yaml
from nmt.errors import ConfigError
from tests.nested import put


def side(kind, embedding, hidden, layers=1, dropout=0.0, **more):
    embeddings = {"embedding_dim": embedding, "scale": False}
    return {
        "rnn_type": kind,
        "embeddings": embeddings,
        "hidden_size": hidden,
        "num_layers": layers,
        "dropout": dropout,
    } | more


def decoder(kind, embedding, hidden, layers=1, dropout=0.0, **more):
    found = {"input_feeding": True, "emb_scale": False, "hidden_dropout": 0.2, "init_hidden": "bridge"}
    return side(kind, embedding, hidden, layers, dropout) | found | {"attention": "bahdanau"} | more


IWSLT14_BPE = {
    "name": "iwslt14-deen-bpe",
    "data": {
        **{"src": "de", "trg": "en", "train": "iwslt14/train", "dev": "iwslt14/valid", "test": "iwslt14/test"},
        **{"level": "bpe", "lowercase": True, "max_sent_length": 62},
        **{f"{lang}_voc_{key}": value for lang in ("src", "trg") for key, value in (("min_freq", 1), ("limit", 32000))},
    },
    "testing": {"beam_size": 5, "alpha": 1.0},
    "training": {
        **{"optimizer": "adam", "normalization": "tokens", "learning_rate": 0.0002, "batch_size": 80},
        **{"scheduling": "plateau", "patience": 8, "weight_decay": 0.0, "decrease_factor": 0.7},
        **{"early_stopping_metric": "loss", "epochs": 100, "validation_freq": 2000, "logging_freq": 500},
        **{"eval_metric": "bleu", "model_dir": "models/iwslt14_deen_bpe", "overwrite": False, "shuffle": True},
        **{"use_cuda": True, "max_output_length": 80, "print_valid_sents": [0, 1, 2, 3, 4]},
    },
    "model": {
        "encoder": side("gru", 620, 500, bidirectional=True),
        "decoder": decoder("gru", 620, 1000),
    },
}
BAHDANAU = {
    "name": "iwslt_deen_bahdanau",
    "data": {
        **{"src": "de", "trg": "en", "train": "iwslt/train", "dev": "iwslt/dev", "test": "iwslt/test"},
        **{"level": "word", "lowercase": True, "max_sent_length": 50, "src_voc_min_freq": 3, "trg_voc_min_freq": 3},
    },
    "testing": {"beam_size": 10, "alpha": 1.0},
    "training": {
        **{"random_seed": 42, "optimizer": "adam", "learning_rate": 0.001, "learning_rate_min": 0.00005},
        **{"batch_size": 64, "scheduling": "plateau", "patience": 0, "decrease_factor": 0.5},
        **{"early_stopping_metric": "ppl", "epochs": 100, "validation_freq": 2359, "logging_freq": 500},
        **{"model_dir": "iwslt_deen_bahdanau", "max_output_length": 100},
    },
    "model": {
        "encoder": side("lstm", 256, 256, bidirectional=True),
        "decoder": decoder("lstm", 256, 256, dropout=0.2, init_hidden="last", attention="luong"),
    },
}
ENVI_LUONG = {
    "name": "iwslt_envi_luong",
    "data": {
        **{"src": "en", "trg": "vi", "train": "envi/train", "dev": "envi/tst2012", "test": "envi/tst2013"},
        **{"level": "word", "lowercase": False, "max_sent_length": 50, "src_voc_limit": 100000},
        **{"trg_voc_limit": 100000, "src_vocab": "envi/vocab.en", "trg_vocab": "envi/vocab.vi"},
    },
    "testing": {"beam_size": 10, "alpha": 1.0},
    "training": {
        **{"optimizer": "sgd", "learning_rate": 1.0, "learning_rate_min": 0.0625, "clip_grad_norm": 5.0},
        **{"batch_size": 128, "scheduling": "plateau", "patience": 1, "decrease_factor": 0.5},
        **{"early_stopping_metric": "eval_metric", "eval_metric": "bleu", "epochs": 25, "validation_freq": 1000},
        **{"logging_freq": 100, "model_dir": "models/iwslt_envi_luong", "overwrite": True},
    },
    "model": {
        **{"initializer": "uniform", "init_weight": 0.1, "embed_initializer": "uniform", "embed_init_weight": 0.1},
        **{"bias_initializer": "uniform", "bias_init_weight": 0.1, "init_rnn_orthogonal": False},
        "lstm_forget_gate": 0.0,
        "encoder": side("lstm", 512, 512, dropout=0.2, bidirectional=True),
        "decoder": decoder("lstm", 512, 512, 2, 0.2, init_hidden="zero", attention="luong"),
    },
}
WORDS = {"max_length": 25, "level": "word", "voc_limit": 100, "voc_min_freq": 0}
REVERSE = {
    "name": "reverse_experiment",
    "joeynmt_version": "2.0.0",
    "data": {
        **{"train": "reverse/train", "dev": "reverse/dev", "test": "reverse/test", "dataset_type": "plain"},
        **{"src": {"lang": "src", **WORDS}, "trg": {"lang": "trg", **WORDS}},
    },
    "testing": {
        **{"n_best": 1, "beam_size": 1, "beam_alpha": 1.0, "eval_metrics": ["bleu"], "max_output_length": 30},
        **{"batch_size": 10, "batch_type": "sentence", "return_prob": "none", "sacrebleu_cfg": {"tokenize": "13a"}},
    },
    "training": {
        **{"random_seed": 42, "optimizer": "adam", "learning_rate": 0.001, "learning_rate_min": 0.0002},
        **{"weight_decay": 0.0, "clip_grad_norm": 1.0, "batch_size": 10, "batch_type": "sentence"},
        **{"scheduling": "plateau", "patience": 5, "decrease_factor": 0.5, "early_stopping_metric": "bleu"},
        **{"epochs": 1, "validation_freq": 1000, "logging_freq": 100, "model_dir": "reverse_model"},
        **{"overwrite": True, "shuffle": True, "use_cuda": False, "fp16": True, "print_valid_sents": [0, 3, 6]},
        "keep_best_ckpts": 2,
    },
    "model": {
        **{"initializer": "xavier_uniform", "embed_initializer": "normal", "embed_init_weight": 0.1},
        **{"bias_initializer": "zeros", "init_rnn_orthogonal": False, "lstm_forget_gate": 0.0},
        "encoder": side("lstm", 16, 64, dropout=0.1, type="recurrent", bidirectional=True),
        "decoder": {
            **side("lstm", 16, 64, dropout=0.1, type="recurrent", hidden_dropout=0.1, input_feeding=True),
            **{"init_hidden": "zero", "attention": "luong", "activation": "tanh"},
        },
    },
}
WITHOUT = ("training.overwrite", "model.embed_initializer", "model.embed_init_weight")


def changed(values, *without, **given):
    """A copy of a config without some keys and with others (dots in their names are written as __)."""
    values = copy.deepcopy(values)
    for name in without:
        *way, key = name.split(".")
        section = values
        for part in way:
            section = section[part]
        del section[key]
    for name, value in given.items():
        put(values, name.split("__"), value)
    return values


def load(tmp_path, values, *overrides):
    path = tmp_path / "joey.yaml"
    path.write_text(format_yaml(values), encoding="utf-8")
    lines = []
    return load_config(path, overrides, lines.append), [line.removeprefix(f"{path}: ") for line in lines]


def refusal(tmp_path, values):
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, values)
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(f"{tmp_path / 'joey.yaml'}: ")


def test_version_2(tmp_path):
    config, lines = load(tmp_path, changed(REVERSE, *WITHOUT))
    assert (config.name, config.model_dir, config.seed, config.device) == (
        "reverse_experiment",
        "reverse_model",
        42,
        "cpu",
    )
    data, training, model, decoding = config.data, config.training, config.model, config.decoding
    assert (data.src.lang, data.tgt.lang, data.src.max_length, data.src.normalize) == ("src", "trg", 25, "none")
    assert (data.subwords.type, data.subwords.vocab_size, data.subwords.joint) == ("word", 104, False)
    assert (training.batch_size, training.batch_type, training.patience, training.epochs) == (10, "sentence", 6, 1)
    assert (training.clip_grad_norm, training.early_stopping_patience, training.keep_best_ckpts) == (1.0, None, 2)
    assert (training.early_stopping_metric, training.learning_rate_min) == ("bleu", 0.0002)
    assert (model.encoder.embeddings.dropout, model.encoder.dropout, model.decoder.hidden_dropout) == (0.1, 0.0, 0.1)
    assert (model.decoder.attention, model.decoder.init_hidden, model.forget_bias) == ("general", "zero", 0.0)
    assert (decoding.beam_size, decoding.length_penalty, decoding.max_length_extra) == (1, 1.0, 30)
    told = " ".join(lines)
    assert "training.patience: 5 -> training.patience: 6 (JoeyNMT lowers the rate one validation later)" in lines
    assert "without effect here: joeynmt_version, training.fp16" in lines
    keys = [
        *("data.train", "data.dataset_type", "testing.sacrebleu_cfg.tokenize", "training.shuffle", "training.use_cuda"),
        *("model.encoder.bidirectional", "model.decoder.activation", "testing.n_best", "testing.eval_metrics"),
    ]
    assert [key for key in keys if key not in told] == []


def test_version_1(tmp_path):
    values = changed(IWSLT14_BPE, data__level="word")
    config, lines = load(tmp_path, values)
    assert (config.data.src.lang, config.data.tgt.lang, config.device) == ("de", "en", "auto")
    assert config.data.src.lowercase and config.data.tgt.lowercase and config.data.tgt.max_length == 62
    assert config.data.subwords.vocab_size == 32004
    assert (config.model.encoder.rnn_type, config.model.encoder.hidden_size) == ("gru", 500)
    assert (config.model.decoder.init_hidden, config.model.decoder.init_from) == ("bridge", "top")
    assert not any("layer of its own" in line for line in lines)  # a GRU of one layer has one state
    assert (config.training.decrease_factor, config.training.patience) == (0.7, 9)
    assert (config.training.clip_grad_norm, config.training.learning_rate_min) == (None, 1e-8)  # 1.x's defaults
    assert (config.decoding.beam_size, config.decoding.length_penalty, config.decoding.max_length_extra) == (5, 1.0, 80)
    assert config.decoding.min_length == 0


def test_what_differs_is_said(tmp_path):
    values = changed(ENVI_LUONG, "data.src_vocab", "data.trg_vocab", "training.overwrite", "model.bias_initializer")
    values = changed(values, "model.embed_initializer", "model.embed_init_weight")
    config, lines = load(tmp_path, changed(values, model__decoder__init_hidden="bridge"))
    assert (config.model.initializer, config.model.init_weight, config.training.optimizer) == ("uniform", 0.1, "sgd")
    assert (config.model.decoder.dropout, config.model.decoder.embeddings.dropout) == (0.2, 0.2)  # two layers
    assert config.training.early_stopping_metric == "bleu"
    told = " ".join(lines)
    assert "each state has a layer of its own, in JoeyNMT one is for all" in told
    assert "it is not applied to the vector of input feeding" in told
    assert "no training.normalization: losses here are means over target tokens" in told


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (REVERSE, "training.overwrite must be false, got true; remove the folder yourself, or name another model_dir"),
        (BAHDANAU, "data.src_voc_min_freq must be 1 or 0"),
        (
            IWSLT14_BPE,
            "data.level must be word or char, or bpe with tokenizer_type sentencepiece on both sides, got 'bpe'",
        ),
        (ENVI_LUONG, "data.src_vocab has no counterpart here"),
    ],
    ids=["rnn_reverse", "iwslt_deen_bahdanau", "iwslt14_deen_bpe", "iwslt_envi_luong"],
)
def test_published_configs_are_refused_by_the_key_that_has_no_counterpart(tmp_path, values, line):
    assert refusal(tmp_path, values).startswith(line)


def test_every_key_without_a_counterpart_is_named(tmp_path):
    assert refusal(tmp_path, REVERSE).endswith("(and 2 more: model.embed_initializer, model.embed_init_weight)")
    line = refusal(tmp_path, BAHDANAU)
    assert "data.trg_voc_min_freq" in line and "model.decoder.init_hidden" in line
    line = refusal(tmp_path, changed(REVERSE, *WITHOUT, **{f"training__x{n}": n for n in range(20)}))
    assert line == (
        "training.x0 has no counterpart here; remove it to use the default (and 19 more: training.x1, "
        "training.x2, training.x3, training.x4, training.x5, training.x6, ...)"
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"training__clip_grad_val": 1.0}, "training.clip_grad_val has no counterpart here"),
        ({"training__normalization": "batch"}, "training.normalization must be tokens, got 'batch'"),
        ({"training__optimizer": "adadelta"}, "training.optimizer must be adam, adamw or sgd, got 'adadelta'"),
        (
            {"training__scheduling": "noam"},
            "training.scheduling must be plateau or warmupinversesquareroot, got 'noam'",
        ),
        ({"training__patience": "five"}, "training.patience must be a whole number of at least 0, got 'five'"),
        ({"training__load_model": "a.ckpt"}, "training.load_model has no counterpart here"),
        ({"training__alpha": 1}, "training.alpha has no counterpart here"),
        ({"model__encoder__type": "transformer"}, "model.encoder.type must be 'recurrent', got 'transformer'"),
        (
            {"model__tied_embeddings": True},
            "model.tied_embeddings must be false, or true with tied_softmax: true",
        ),
        ({"model__tied_embeddings": [1]}, "model.tied_embeddings must be false"),
        ({"model__encoder__freeze": True}, "model.encoder.freeze must be false, got true"),
        ({"model__init_rnn_orthogonal": True}, "model.init_rnn_orthogonal must be false, got true"),
        ({"model__lstm_forget_gate": "one"}, "model.lstm_forget_gate must be a number, got 'one'"),
        ({"data__trg__level": "char"}, "data.trg.level must be as data.src.level, 'word', got 'char'"),
        ({"data__trg__voc_limit": 99}, "data.trg.voc_limit must be as that of the source, 100, got 99"),
        ({"data__src__normalize": True}, "data.src.normalize must be false, got true"),
        ({"data__dataset_type": "huggingface"}, "data.dataset_type must be 'plain', got 'huggingface'"),
        ({"random_seed": 1}, "training.random_seed is given as random_seed, too; take one of them out"),
        ({"model": 3}, "model.encoder.hidden_size must be given"),
        ({"testing__eval_metrics": "bleu"}, "testing.eval_metrics must be a list of"),
    ],
)
def test_refused(tmp_path, given, line):
    values = changed(REVERSE, *WITHOUT)
    if "random_seed" in given:
        values = {"random_seed": 1, **values}
    assert refusal(tmp_path, changed(values, **given)).startswith(line)


def test_a_value_that_our_settings_refuse_is_one_line(tmp_path):
    line = refusal(tmp_path, changed(REVERSE, *WITHOUT, training__batch_size="ten"))
    assert line.startswith(f"{tmp_path / 'joey.yaml'} as settings of nmt: training.batch_size must be a whole number")


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"testing__beam_alpha": -1}, "decoding.length_penalty", "none"),
        ({"testing__max_output_length": -1}, "decoding.max_length_ratio", 1.5),
        ({"testing__no_repeat_ngram_size": -1}, "decoding.no_repeat_ngram_size", 0),
        ({"testing__repetition_penalty": 1.2}, "decoding.repetition_penalty", 1.2),
        ({"training__keep_best_ckpts": -1}, "training.keep_best_ckpts", 10**9),
        ({"training__use_cuda": True}, "device", "auto"),
        ({"training__scheduling": "warmupinversesquareroot"}, "training.learning_rate_warmup", 4000),
        ({"model__lstm_forget_gate": 1}, "model.forget_bias", 2.0),
        ({"model__tied_softmax": True, "model__decoder__hidden_size": 16}, "model.tied_embeddings", "softmax"),
        ({"training__updates": 100}, "training.updates", 100),
    ],
)
def test_mapped(tmp_path, given, name, value):
    found, _ = load(tmp_path, changed(REVERSE, *WITHOUT, **given))
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value


@pytest.mark.parametrize("files", [("one.model", "one.model"), ("de.model", "en.model")])
def test_models_of_sentencepiece(tmp_path, files):
    values = changed(REVERSE, *WITHOUT)
    for lang, file in zip(("src", "trg"), files, strict=True):
        values["data"][lang] |= {"level": "bpe", "tokenizer_type": "sentencepiece", "voc_file": "vocab.txt"}
        values["data"][lang]["tokenizer_cfg"] = {"model_file": file, "model_type": "unigram", "pretokenizer": "none"}
    subwords = load(tmp_path, values)[0].data.subwords
    if files[0] == files[1]:
        assert (subwords.model_file, subwords.joint) == (files[0], True)
    else:
        assert (subwords.src_model_file, subwords.tgt_model_file, subwords.joint) == (*files, False)
    values["data"]["src"]["tokenizer_cfg"]["alpha"] = 0.1
    assert refusal(tmp_path, values).startswith("data.src.tokenizer_cfg.alpha must be 0 or 0.0, got 0.1")


def test_overrides_have_our_names(tmp_path):
    config, _ = load(tmp_path, changed(REVERSE, *WITHOUT), "training.epochs=7", "data.tgt.lowercase=true")
    assert config.training.epochs == 7 and config.data.tgt.lowercase
    with pytest.raises(ConfigError, match=r"--set testing.beam_size=3: testing is not a setting"):
        load(tmp_path, changed(REVERSE, *WITHOUT), "testing.beam_size=3")


def test_the_command_tells_and_trains(tmp_path):
    """From a config of JoeyNMT to a model whose folder has settings of ours."""
    text = "".join(f"{a} {b} {a}\n" for a in "abcd" for b in "efgh")
    for name in ("train", "dev", "test"):
        for lang in ("src", "trg"):
            (tmp_path / f"{name}.{lang}").write_text(text, encoding="utf-8")
    values = changed(REVERSE, *WITHOUT, "data.src.voc_limit", "data.trg.voc_limit")
    values["data"] |= {name: str(tmp_path / name) for name in ("train", "dev", "test")}
    values["training"] |= {"model_dir": str(tmp_path / "model"), "updates": 2}
    path = tmp_path / "joey.yaml"
    path.write_text(format_yaml(values), encoding="utf-8")
    result = CliRunner().invoke(train, [str(path), "--threads", "1"])
    assert result.exit_code == 0, result.stderr
    assert f"{path}: training.patience: 5 -> training.patience: 6" in result.stderr
    assert "->" not in result.stdout
    saved = load_config(tmp_path / "model" / "config.yaml")
    assert saved == load_config(path)


def paths(values, above=()):
    for key, value in values.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from paths(value, (*above, key))


@pytest.mark.parametrize("wrong", [None, -1, float("nan"), [1], {"a": {"b": [{}]}}], ids=repr)
def test_any_value_anywhere_is_settings_or_one_line(wrong):
    base = changed(REVERSE, *WITHOUT)
    for *way, key in paths(base):
        values = copy.deepcopy(base)
        section = values
        for part in way:
            section = section[part]
        section[key] = wrong
        try:
            if is_joeynmt(values):
                config_from_dict(convert(values, "joey.yaml").values)
        except ConfigError as error:
            assert "\n" not in str(error)
