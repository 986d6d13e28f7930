"""Tables of JoeyNMT's keys that need no special treatment: keys of version 1, keys with an equivalent here, and keys of
which one value is supported.

Keys of a network or language are listed for both networks or languages. Names are those of JoeyNMT 2.3 (its config.py
and configs).
"""

from typing import Any

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

SAME = {
    **{key: key for key in ("name", "model_dir", "data.train", "data.dev", "data.test")},
    "random_seed": "seed",
    **{
        f"training.{key}": f"training.{key}"
        for key in (
            *("adam_betas", "weight_decay", "label_smoothing", "batch_multiplier", "updates", "shuffle"),
            "print_valid_sents",
        )
    },
    "testing.n_best": "decoding.n_best",
    "testing.generate_unk": "decoding.generate_unk",
}
"""Keys with the same meaning here, with our name; if omitted, our default applies, which equals JoeyNMT's."""

FREE = frozenset(
    {
        *("joeynmt_version", "fp16", "num_workers", "model.decoder.emb_scale", "testing.eval_metric"),
        *(f"training.reset_{what}" for what in ("best_ckpt", "scheduler", "optimizer", "iter_state")),
        *(f"data.special_symbols.{name}_{what}" for name in ("unk", "pad", "bos", "eos") for what in ("token", "id")),
        *("data.src.tokenizer_cfg.num_merges", "data.trg.tokenizer_cfg.num_merges"),
    }
)
"""Keys that are ignored because they do not affect the model: how it is computed, and names and numbers of special
symbols."""

_NO_SUBSET = "all of the text is used"
_IN_THE_FILE = "ours are read from pairs of files"

ONLY: dict[str, tuple[tuple[Any, ...], str]] = {
    "data.dataset_type": (("plain",), _IN_THE_FILE),
    "data.sample_train_subset": ((-1,), _NO_SUBSET),
    "data.sample_dev_subset": ((-1,), _NO_SUBSET),
    **{f"data.{side}.min_length": ((1, 0, -1), "leave shorter ones out of the text") for side in _SIDES},
    **{f"data.{side}.has_prompt": ((False,), "prompts are not supported") for side in _SIDES},
    **{f"data.{side}.tokenizer_cfg.pretokenizer": (("none",), "tokenize the text first") for side in _SIDES},
    **{
        f"data.{side}.tokenizer_cfg.alpha": ((0, 0.0), "take it out and see data.src.sampling_alpha") for side in _SIDES
    },
    **{
        f"data.{side}.tokenizer_cfg.dropout": ((0, 0.0), "take it out and see data.src.sampling_alpha")
        for side in _SIDES
    },
    "training.loss": (("crossentropy",), ""),
    "training.overwrite": ((False,), "remove the folder yourself, or name another model_dir"),
    "testing.return_prob": (("none",), "nmt-translate prints them when it is asked to"),
    "testing.return_attention": ((False,), "nmt-translate prints it when it is asked to"),
    "testing.sacrebleu_cfg.tokenize": (("13a",), "nmt-evaluate measures in other ways"),
    "testing.sacrebleu_cfg.whitespace": ((False,), "nmt-evaluate measures in other ways"),
    "testing.sacrebleu_cfg.lowercase": ((False,), "nmt-evaluate measures in other ways"),
    "model.init_gain": ((1, 1.0), ""),
    "model.bias_initializer": (("zeros",), "take bias_init_weight out as well"),
    "model.init_rnn_orthogonal": ((False,), ""),
    **{f"model.{part}.type": (("recurrent",), "a transformer is not to be had here") for part in _PARTS},
    **{
        f"model.{part}.freeze": ((False,), "take it out and name the parameters in training.freeze by --set")
        for part in _PARTS
    },
    **{
        f"model.{part}.embeddings.freeze": ((False,), "take it out and name the parameters in training.freeze by --set")
        for part in _PARTS
    },
    **{f"model.{part}.activation": (("tanh",), "") for part in _PARTS},
}
"""For each key the only values supported, which mean what nmt does anyway, and advice for other values."""
