"""Name what takes the place of features that are removed or renamed, and of the names of other toolkits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STACK = "write layers by rnn_type, such as mamba or rwkv7, with residual: true"
_ALPHA = "tgt_word_dropout helped where it cost 15.2 BLEU (docs/presets.md)"
_CONNECT = "zoneout and dropout helped where this did not (docs/presets.md)"
_GROUPS = "sampling with n_best gives translations that differ more"
_COVERAGE = "length_penalty, word_reward and min_length are against short translations"
_BATCH = "write a number, such as 4096, for batch_size; nmt-train --plan measures the memory that it takes"
_SWEPT = "nmt-train SRC TGT -o DIR --show-config prints settings, which nmt-sweep takes"
_SCHEDULE = "write plateau, or a rate that falls to the end of the run: linear or cosine"
_SPIKE = "an update that is not finite is always skipped; lower learning_rate or clip_grad_norm against leaps"
_STOP = "metric alone decides"
_SAMPLED = "use tgt_word_dropout, which helped where this did not (docs/presets.md)"
_VECTORS = "start from a trained model by load_model, with extend_vocabulary for new words"
_RISK = "train on for the same time, which brings more; decoding.mbr chooses by expected score"
_CURVES = "nmt-report draws the curves, and docs/comparing.md says how metrics.jsonl is sent elsewhere"
_REQUIRED = "--glossary FILE with a high --glossary-bonus puts phrases into translations, and --prefix begins them"
_LANGUAGE = "a library of language models, such as KenLM or transformers, scores and continues texts"
_FUSION = "nmt-backtranslate brings in text of one language, and KenLM or transformers can rank --n-best N --scores"
_DESCRIBED = "describe its tensors in a YAML file, as docs/migration.md shows, and import that"

_SETTINGS: dict[str, tuple[Any, str]] = {
    "data.src.sampling_alpha": (None, _ALPHA),
    "data.tgt.sampling_alpha": (None, _ALPHA),
    "model.encoder.drop_connect": (0.0, _CONNECT),
    "model.decoder.drop_connect": (0.0, _CONNECT),
    "model.decoder.stack": (None, _STACK),
    "model.decoder.stack_sizes": ({}, _STACK),
    "data.alignment": (None, "remove it: training.guided_alignment learns the alignments from the pairs"),
    "data.index": (None, "remove it: the ids of a large text lie in a mapped file of the temporary folder (TMPDIR)"),
    "training.quantization_aware": (0, "train without it and round the result by nmt-quantize"),
    "training.scheduled_sampling": (0.0, _SAMPLED),
    "training.scheduled_sampling_updates": (0, _SAMPLED),
    "training.loss_spikes": ("keep", _SPIKE),
    "training.spike_deviations": (6.0, _SPIKE),
    "training.early_stopping_metrics": ([], _STOP),
    "training.early_stopping_on": ("first", _STOP),
    "training.decay_length": (None, _SCHEDULE),
    "training.minimum_risk": (0, _RISK),
    "training.minimum_risk_metric": ("bleu", _RISK),
    "training.minimum_risk_alpha": (0.005, _RISK),
    "training.minimum_risk_likelihood": (0.0, _RISK),
    "training.coverage_loss": (0.0, "guided_alignment teaches attention"),
    "training.src_embeddings": (None, _VECTORS),
    "training.tgt_embeddings": (None, _VECTORS),
    "decoding.coverage_penalty": (0.0, _COVERAGE),
    "decoding.beam_groups": (1, _GROUPS),
    "decoding.diversity_strength": (0.5, _GROUPS),
    "decoding.word_reward_bounded": (False, "remove it: the reward counts every word, as with false"),
    "training.memory_limit": (None, _BATCH),
    "training.bptt": (64, "remove it: it was for language models"),
    "task": ("translation", f"all models are translators; {_LANGUAGE}"),
    "decoding.lm": (None, _FUSION),
    "decoding.lm_weight": (0.1, _FUSION),
    "training.tensorboard": (False, _CURVES),
    "training.loggers": ([], _CURVES),
}
"""Settings: the value that turned them off, as folders of older versions have it, and what to do instead."""
_OFF = {name: off for name, (off, _) in _SETTINGS.items()}

REMOVED: dict[str, str] = {
    **{name: text for name, (_, text) in _SETTINGS.items()},
    "training.batch_size: auto": _BATCH,
    "training.scheduling: noam": "write inverse_square_root, whose learning_rate is the peak",
    "training.scheduling: warmupinversesquareroot": "write inverse_square_root",
    "training.scheduling: exponential": _SCHEDULE,
    "training.scheduling: decaying": _SCHEDULE,
    "training.scheduling: warmupexponentialdecay": _SCHEDULE,
    "training.optimizer: lamb": "write adam with learning_rate_scaling: sqrt",
    "training.optimizer: adafactor": "write adam",
    "training.patience": "write lower_after, of the plateau schedule, or stop_after, which ends training",
    "joeynmt": "write our settings by the table of docs/migration.md, Settings of JoeyNMT",
    "export_cell": "let Python step the cell by Scan.forward, or export a translation model by nmt-export --to c",
    "wheel": "unpack it and import the model's file in it",
    "nmt-import --from e2k": _DESCRIBED,
    "nmt-import --from g2p-en": _DESCRIBED,
    "nmt-translate --constraints": _REQUIRED,
    "nmt-translate --constraint-text": _REQUIRED,
    "nmt-generate": _LANGUAGE,
    "nmt.Generator": _LANGUAGE,
    "nmt.LanguageScorer": _LANGUAGE,
    "nmt-score --independent": _LANGUAGE,
    **{
        f"nmt-{name} --{option}": _FUSION
        for name in ("translate", "evaluate", "score")
        for option in ("lm", "lm-weight")
    },
    "nmt-translate --coverage-penalty": _COVERAGE,
    "nmt-translate --beam-groups": _GROUPS,
    "nmt-translate --diversity-strength": _GROUPS,
    "nmt-translate --word-reward-bounded": "leave it out: the reward counts every word",
    "nmt-train --seeds": "nmt-sweep CONFIG.yaml --seeds N trains with several seeds",
    "nmt-evaluate --compare": "sacrebleu REF -i A B -m bleu chrf ter --paired-bs -f text tests B against A",
    "nmt-evaluate --differences": "compare-mt shows the sentences that differ most",
    "nmt-evaluate --test-set": "sacrebleu -t NAME -l PAIR --echo src (or ref) writes the text for --src or --ref",
    "nmt-evaluate --buckets": "compare-mt compares by length and by word frequency",
    "nmt-evaluate --frequencies": "compare-mt compares by length and by word frequency",
    "nmt-sweep --dev": _SWEPT,
    "nmt-sweep --preset": _SWEPT,
    "nmt-train --check-resume": "a run that resumes has the same bits, which the tests of nmt check",
    "nmt-train --profile": "--plan measures speed and memory, and a sampling profiler such as py-spy shows Python",
    "nmt-train --ranks": "mpiexec -n N nmt-train ... --set training.max_minutes=2 measures N ranks",
    "nmt-import --from nematus": "save it by Marian, which reads it as type nematus, or describe its tensors in YAML",
    "nmt-import --from transformers": "use such a language model with the library transformers itself",
}
"""Names as they were written, each with what to do instead."""

RENAMED = {
    "training.passes": "auto_epochs",
    "training.patience": "lower_after",
    "training.early_stopping_patience": "stop_after",
    "training.early_stopping_metric": "metric",
}
"""Former names of settings, each with the present one in the same section."""
_USUAL = {"training.scheduling": "constant", "training.optimizer": "adam", "training.batch_size": 4096}
"""Values that stand for removed ones where a trained model is read."""


def instead(name: str) -> str | None:
    """Return a sentence about something that is removed and its replacement; None if the name is not of it."""
    if name in REMOVED:
        return f"is not there any more; {REMOVED[name]}"
    return f"is called {RENAMED[name]} now" if name in RENAMED else None


def drop_removed(values: Mapping[str, Any], above: str = "", *, trained: bool = False) -> dict[str, Any]:
    """Return settings without removed ones that are turned off; those of a trained model also without those of its
    training and its texts, and with present names."""
    left: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{above}{key}"
        key = RENAMED.get(name, key) if trained else key
        is_past = trained and (name.startswith(("training.", "data.", "decoding.")) or name.endswith(".drop_connect"))
        if isinstance(value, Mapping) and name not in _OFF:
            left[key] = drop_removed(value, f"{name}.", trained=trained)
        elif name not in _OFF or not (is_past or value == _OFF[name]):
            left[key] = _USUAL[name] if is_past and f"{name}: {value}" in REMOVED else value
    return left


_BOTH = "model.encoder.{0} or model.decoder.{0}"

_NAMES: dict[str, str] = {
    "tgt": "trg",
    "decoding": "testing",
    "device": "gpu gpus gpuid gpu_ranks use_cuda cuda cpu",
    "compute_dtype": "fp16 bf16 int8 precision quantize",
    "model_dir": "save_dir save_model output_dir",
    "data.train": "train_sets train_set training_data",
    "data.dev": "valid valid_sets validation devset",
    "data.subwords.vocab_size": "dim_vocabs voc_limit src_vocab_size tgt_vocab_size",
    "data.subwords.joint": "share_vocab joined_dictionary",
    "data.subwords": "bpe bpe_codes vocab vocabs src_vocab tgt_vocab tokenizer",
    "model.tied_embeddings": "share_embeddings share_all_embeddings tied_embeddings_all tied_softmax",
    _BOTH.format("rnn_type"): "cell cell_type arch",
    _BOTH.format("hidden_size"): "rnn_size hidden_dim dim_rnn d_model encoder_hidden_size decoder_hidden_size",
    _BOTH.format("num_layers"): "layers n_layers encoder_layers decoder_layers enc_layers dec_layers",
    _BOTH.format("embeddings.embedding_dim"): "word_vec_size embed_dim dim_emb encoder_embed_dim decoder_embed_dim",
    "training.load_model": "train_from restore_file pretrained_model",
    "training.optimizer": "optim",
    "training.learning_rate": "lr",
    "training.learning_rate_warmup": "warmup warmup_steps warmup_updates",
    "training.scheduling": "lr_scheduler decay_method",
    "training.clip_grad_norm": "clip_norm max_grad_norm",
    "training.batch_size": "max_tokens mini_batch",
    "training.batch_multiplier": "accum_count update_freq gradient_accumulation_steps optimizer_delay",
    "training.epochs": "max_epoch max_epochs num_epochs num_train_epochs",
    "training.updates": "max_steps max_update train_steps after_batches",
    "training.validation_freq": "valid_steps valid_freq eval_steps save_steps",
    "training.stop_after": "patience early_stopping",
    "decoding.beam_size": "beam num_beams",
    "decoding.no_repeat_ngram_size": "block_ngram_repeat",
    "decoding.n_best": "nbest num_return_sequences",
    "decoding.length_penalty": "lenpen alpha decoding.normalize",
    "decoding.max_length_ratio": "max_len_a max_new_tokens decoding.max_length",
    "decoding.max_length_extra": "max_len_b",
    "decoding.sampling_temperature": "temperature",
    "decoding.sampling_topk": "top_k topk",
    "decoding.sampling_topp": "top_p topp",
}
"""Names elsewhere for settings here. `decoding.NAME` is meant in that section alone."""

FOREIGN: dict[str, str] = {name: ours for ours, names in _NAMES.items() for name in names.split()}
"""Names elsewhere, each with what to write here."""


def ours(name: str, section: str = "") -> str | None:
    """Return what to write here for a name from another toolkit, or None if it is not known. `name`: the name as
    written, such as `num_beams` or `mini-batch`; `section`: the section it stands in, such as `decoding`."""
    plain = name.lower().replace("-", "_")
    return FOREIGN.get(f"{section}.{plain}") or FOREIGN.get(plain)
