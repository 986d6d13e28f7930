"""The names that users of other toolkits write most often, for "did you mean"; docs/migration.md has all of them."""

from __future__ import annotations

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
    _BOTH.format("hidden_size"): "rnn_size hidden_dim dim_rnn d_model",
    _BOTH.format("num_layers"): "layers n_layers",
    _BOTH.format("embeddings.embedding_dim"): "word_vec_size embed_dim dim_emb",
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
    "decoding.n_best": "nbest num_return_sequences",
    "decoding.length_penalty": "lenpen alpha decoding.normalize",
    "decoding.max_length_ratio": "max_len_a max_new_tokens decoding.max_length",
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
