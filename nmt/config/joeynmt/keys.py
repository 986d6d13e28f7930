"""Table of JoeyNMT's keys: what each is called here, its defaults, and the values that are supported.

Names are those of JoeyNMT 2.3 (its config.py and configs). Keys that depend on one another are converted in
`settings.py`. `nmt.importing.joeynmt` reads the settings next to a checkpoint by the same table.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from nmt.config.section import MOST

_SIDES = ("src", "trg")
_PARTS = ("encoder", "decoder")

MOVED: dict[str, tuple[str, ...]] = {
    **{f"training.{key}": (key,) for key in ("model_dir", "random_seed", "use_cuda", "fp16", "num_workers")},
    "data.random_train_subset": ("data.sample_train_subset",),
    "data.random_dev_subset": ("data.sample_dev_subset",),
    "training.max_output_length": ("testing.max_output_length",),
    "training.keep_last_ckpts": ("training.keep_best_ckpts",),
    "testing.alpha": ("testing.beam_alpha",),
    "testing.sacrebleu.tokenize": ("testing.sacrebleu_cfg.tokenize",),
    "data.max_sent_length": tuple(f"data.{side}.max_length" for side in _SIDES),
    **{f"data.{key}": tuple(f"data.{side}.{key}" for side in _SIDES) for key in ("level", "lowercase")},
    **{f"data.{side}": (f"data.{side}.lang",) for side in _SIDES},
    **{f"data.{side}_vocab": (f"data.{side}.voc_file",) for side in _SIDES},
    **{f"data.{side}_{key}": (f"data.{side}.{key}",) for side in _SIDES for key in ("voc_limit", "voc_min_freq")},
}
"""Keys of version 1, with their names in version 2."""

OURS = object()
"""The default of a key that sets nothing if it is omitted: our own default applies, and equals JoeyNMT's."""


class Key(NamedTuple):
    """A key of JoeyNMT.

    ours: Our setting; empty if the key sets nothing here. default: JoeyNMT's default; old: that of version 1, if it is
    another. changes: Values with another form here. only: The supported values, the default first; empty for any, or,
    if `ours` is empty too, for a key that does not affect the model. advice: How to do without other values.
    """

    ours: str = ""
    default: Any = OURS
    old: Any = OURS
    changes: Mapping[Any, Any] = {}
    only: tuple[Any, ...] = ()
    advice: str = ""


def _part(where: str) -> dict[str, Key]:
    """Return the keys of the encoder or the decoder."""
    freeze = Key(only=(False,), advice="remove it and name the parameters in training.freeze by --set")
    return {
        f"{where}.type": Key(only=("recurrent",), advice="a transformer is not supported"),
        f"{where}.rnn_type": Key(f"{where}.rnn_type", "gru"),
        f"{where}.num_layers": Key(f"{where}.num_layers", 1),
        f"{where}.embeddings.embedding_dim": Key(f"{where}.embeddings.embedding_dim", 64),
        f"{where}.embeddings.scale": Key(f"{where}.embeddings.scale", False),
        f"{where}.activation": Key(only=("tanh",)),
        f"{where}.freeze": freeze,
        f"{where}.embeddings.freeze": freeze,
    }


def _side(theirs: str, ours: str) -> dict[str, Key]:
    """Return the keys of a language that are independent of its vocabulary."""
    without = Key(only=(0, 0.0), advice="remove it and see data.src.sampling_alpha")
    return {
        f"{theirs}.lang": Key(f"{ours}.lang", None),
        f"{theirs}.max_length": Key(f"{ours}.max_length", -1, changes={-1: MOST}),
        f"{theirs}.min_length": Key(only=(1, 0, -1), advice="leave shorter ones out of the text"),
        f"{theirs}.lowercase": Key(f"{ours}.lowercase", False),
        f"{theirs}.normalize": Key(only=(False,), advice="normalise the text before"),
        f"{theirs}.has_prompt": Key(only=(False,), advice="there are no prompts here"),
        f"{theirs}.tokenizer_cfg.pretokenizer": Key(only=("none",), advice="split the text before"),
        f"{theirs}.tokenizer_cfg.alpha": without,
        f"{theirs}.tokenizer_cfg.dropout": without,
        f"{theirs}.tokenizer_cfg.num_merges": Key(),
    }


_SUBSET = Key(only=(-1,), advice="all of the text is used")
_MEASURES = "nmt-evaluate measures in other ways"

KEYS: dict[str, Key] = {
    "joeynmt_version": Key(),
    **{key: Key(key) for key in ("name", "model_dir", "data.train", "data.dev", "data.test")},
    "random_seed": Key("seed"),
    "use_cuda": Key("device", changes={True: "auto", False: "cpu"}),
    "fp16": Key(),
    "num_workers": Key(),
    "data.dataset_type": Key(only=("plain",), advice="ours are read from pairs of files"),
    "data.sample_train_subset": _SUBSET,
    "data.sample_dev_subset": _SUBSET,
    **{
        f"data.special_symbols.{name}_{what}": Key()
        for name in ("unk", "pad", "bos", "eos")
        for what in ("token", "id")
    },
    **_side("data.src", "data.src"),
    **_side("data.trg", "data.tgt"),
    "training.loss": Key(only=("crossentropy",)),
    "training.overwrite": Key(only=(False,), advice="remove the folder yourself, or name another model_dir"),
    **{f"training.reset_{what}": Key() for what in ("best_ckpt", "scheduler", "optimizer", "iter_state")},
    **{
        f"training.{key}": Key(f"training.{key}")
        for key in (
            *("adam_betas", "weight_decay", "label_smoothing", "batch_multiplier", "updates", "shuffle"),
            "print_valid_sents",
        )
    },
    "training.batch_type": Key("training.batch_type", "sentence"),
    "training.learning_rate": Key("training.learning_rate", 5e-3, old=3e-4),
    "training.learning_rate_min": Key("training.learning_rate_min", 1e-4, old=1e-8),
    "training.clip_grad_norm": Key("training.clip_grad_norm", None),
    "training.epochs": Key("training.epochs", 3),
    "training.validation_freq": Key("training.validation_freq", 1000),
    "training.logging_freq": Key("training.logging_freq", 100),
    "training.keep_best_ckpts": Key("training.keep_best_ckpts", 5, changes={-1: MOST}),
    "testing.n_best": Key("decoding.n_best"),
    "testing.generate_unk": Key("decoding.generate_unk"),
    "testing.beam_size": Key("decoding.beam_size", 1, changes={0: 1}),
    "testing.beam_alpha": Key("decoding.length_penalty", -1, changes={-1: "none"}),
    "testing.min_output_length": Key("decoding.min_length", 1, old=0),
    "testing.no_repeat_ngram_size": Key("decoding.no_repeat_ngram_size", -1, changes={-1: 0}),
    "testing.repetition_penalty": Key("decoding.repetition_penalty", -1, changes={-1: 1.0}),
    "testing.eval_metric": Key(),
    "testing.return_prob": Key(only=("none",), advice="nmt-translate prints them when it is asked to"),
    "testing.return_attention": Key(only=(False,), advice="nmt-translate prints it when it is asked to"),
    "testing.sacrebleu_cfg.tokenize": Key(only=("13a",), advice=_MEASURES),
    "testing.sacrebleu_cfg.whitespace": Key(only=(False,), advice=_MEASURES),
    "testing.sacrebleu_cfg.lowercase": Key(only=(False,), advice=_MEASURES),
    "model.init_gain": Key(only=(1, 1.0)),
    "model.bias_initializer": Key(only=("zeros",), advice="take bias_init_weight out as well"),
    "model.init_rnn_orthogonal": Key(only=(False,)),
    **_part("model.encoder"),
    "model.encoder.bidirectional": Key("model.encoder.bidirectional", True),
    **_part("model.decoder"),
    "model.decoder.emb_scale": Key(),
    "model.decoder.hidden_dropout": Key("model.decoder.hidden_dropout", 0.0),
    "model.decoder.input_feeding": Key("model.decoder.input_feeding", True),
    "model.decoder.attention": Key("model.decoder.attention", "bahdanau"),
}
"""All keys that are converted independently of one another, by their names in version 2."""


def keys_of(values: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Return the keys of a configuration by their names in version 2, as dotted paths: the name in the file, and the
    value. Raises ValueError, which begins with a key's name, if two keys mean the same."""
    found: dict[str, tuple[str, Any]] = {}
    for name, value in _flat(values).items():
        for new in MOVED.get(name, (name,)):
            if new in found:
                raise ValueError(f"{name} is given as {found[new][0]}, too; take one of them out")
            found[new] = name, value
    return found


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return keys as dotted paths. An empty or null section has no keys; a null value counts as omitted."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{key}.")
        elif value is not None:
            found[f"{above}{key}"] = value
    return found
