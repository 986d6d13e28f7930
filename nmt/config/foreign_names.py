"""Names of settings in other toolkits, for "did you mean": OpenNMT-py, fairseq, Marian, Sockeye, JoeyNMT, Hugging Face.

Options of commands are looked up here as well. docs/migration.md compares the toolkits.
"""

from __future__ import annotations

_BOTH = "model.encoder.{0} or model.decoder.{0}"

_NAMES: dict[str, str] = {
    # What is where.
    "tgt": "trg",
    "decoding": "testing generation generation_config",
    "seed": "random_seed manual_seed",
    "threads": "cpu_threads num_threads nthreads num_workers",
    "device": "gpu gpus gpu_ranks gpuid use_cuda no_cuda world_size devices use_cpu",
    "compute_dtype: bfloat16": "fp16 bf16 amp",
    "compute_dtype": "precision model_dtype data_type dtype apex_opt_level",
    "model_dir": "save_dir output_dir save_model save_path checkpoint_dir output",
    # data
    "data.train": "train_sets train_set train_file train_files trainpref training_data prepared_data data_bin",
    "data.dev": (
        "valid valid_data valid_src valid_tgt valid_set valid_sets validation validation_file validation_source "
        "validation_target validpref devset"
    ),
    "data.test": "testpref test_file test_set",
    "data.src.lang": "src_lang source_lang source_language",
    "data.tgt.lang": "tgt_lang trg_lang target_lang target_language",
    "data.src.max_length": "src_seq_length max_sent_length max_source_length max_source_positions max_seq_len",
    "data.tgt.max_length": "tgt_seq_length max_target_length max_target_positions",
    "data.src.lowercase and data.tgt.lowercase": "lower do_lower_case",
    "data.src.sampling_alpha": "bpe_dropout sentencepiece_alphas src_subword_alpha spm_alpha",
    "data.alignment": "path_align align_file alignment_file",
    "data.subwords": "tokenizer tokenizer_cfg tokenizer_type transforms bpe",
    "data.subwords.type": "level model_type src_subword_type subword_type",
    "data.subwords.vocab_size": (
        "voc_limit dim_vocabs src_vocab_size tgt_vocab_size num_words nwordssrc nwordstgt num_merges"
    ),
    "data.subwords.joint": "share_vocab shared_vocab joined_dictionary",
    "data.subwords.model_file": "src_subword_model sentencepiece_model spm_model",
    # model
    "model.tied_embeddings: softmax": (
        "tied_softmax tie_word_embeddings share_decoder_embeddings share_decoder_input_output_embed"
    ),
    "model.tied_embeddings: all": "share_embeddings share_all_embeddings tied_embeddings_all weight_tying_type",
    "model.initializer": "param_init_glorot glorot xavier weight_init",
    "model.init_weight": "param_init init_range initializer_range",
    "model.forget_bias": "lstm_forget_gate rnn_forget_bias",
    _BOTH.format("rnn_type"): "cell cell_type rnn_cell rnn_cell_type arch",
    "model.encoder.rnn_type": "enc_cell encoder_type",
    "model.decoder.rnn_type": "dec_cell decoder_type",
    _BOTH.format("hidden_size"): "rnn_size hidden_dim hid_dim dim_rnn d_model num_units rnn_num_hidden",
    "model.encoder.hidden_size": "enc_rnn_size enc_hid_size encoder_hidden_size",
    "model.decoder.hidden_size": "dec_rnn_size dec_hid_size decoder_hidden_size",
    _BOTH.format("num_layers"): "layers n_layers num_hidden_layers rnn_num_layers",
    "model.encoder.num_layers": "enc_layers enc_depth encoder_layers num_encoder_layers",
    "model.decoder.num_layers": "dec_layers dec_depth decoder_layers num_decoder_layers",
    _BOTH.format("embeddings.embedding_dim"): "word_vec_size embed_dim emb_dim dim_emb embedding_size num_embed",
    "model.encoder.embeddings.embedding_dim": "src_word_vec_size encoder_embed_dim",
    "model.decoder.embeddings.embedding_dim": "tgt_word_vec_size decoder_embed_dim",
    _BOTH.format("dropout"): "dropout_rate dropout_rnn rnn_dropout hidden_dropout_prob attention_dropout",
    _BOTH.format("embeddings.dropout"): "embed_dropout emb_dropout embedding_dropout",
    _BOTH.format("residual"): "skip residual_connections",
    "model.encoder.bidirectional": "brnn encoder_bidirectional",
    "model.decoder.attention": "global_attention attention_type attn_type rnn_attention_type",
    "model.decoder.input_feeding": "input_feed",
    # training
    "training.load_model": (
        "train_from restore_file finetune_from_model pretrained_model model_name_or_path resume_from_checkpoint params"
    ),
    "training.freeze": "freeze_word_vecs_enc freeze_word_vecs_dec fixed_param_names freeze_params",
    "training.src_embeddings": "pre_word_vecs_enc encoder_embed_path",
    "training.tgt_embeddings": "pre_word_vecs_dec decoder_embed_path",
    "training.optimizer": "optim optimiser optimizer_type",
    "training.learning_rate": "lr learn_rate initial_lr initial_learning_rate peak_lr base_lr",
    "training.learning_rate_min": "min_lr stop_min_lr lr_min min_learning_rate",
    "training.learning_rate_warmup": "warmup warmup_steps warmup_updates num_warmup_steps lr_warmup warmup_ratio",
    "training.scheduling": (
        "lr_scheduler lr_scheduler_type scheduler decay_method lr_decay_strategy learning_rate_scheduler_type"
    ),
    "training.decrease_factor": ("lr_decay lr_shrink learning_rate_decay decay_factor learning_rate_reduce_factor"),
    "training.decay_length": "decay_steps start_decay_steps lr_decay_freq",
    "training.adam_betas": "betas adam_beta1 adam_beta2 beta1 beta2 optimizer_params",
    "training.adam_eps": "adam_epsilon eps epsilon",
    "training.clip_grad_norm": (
        "clip_norm max_grad_norm grad_clip clip_gradient gradient_clipping gradient_clipping_threshold"
    ),
    "training.label_smoothing": "smoothing label_smoothing_factor",
    "training.batch_size": (
        "max_tokens mini_batch mini_batch_words train_batch_size per_device_train_batch_size batch"
    ),
    "training.batch_multiplier": (
        "accum_count gradient_accumulation_steps update_freq update_interval optimizer_delay accumulate_grad_batches"
    ),
    "training.memory_limit": "workspace",
    "training.epochs": "max_epoch max_epochs num_epochs n_epochs num_train_epochs after_epochs max_num_epochs",
    "training.updates": "max_steps max_update max_updates train_steps num_updates after_batches total_num_update",
    "training.max_minutes": "stop_time_hours max_seconds max_time",
    "training.validation_freq": (
        "valid_steps valid_freq eval_steps validate_interval validate_interval_updates checkpoint_interval "
        "save_checkpoint_steps save_interval save_interval_updates save_freq save_steps"
    ),
    "training.logging_freq": "report_every disp_freq log_interval logging_steps log_every",
    "training.stop_after": ("patience early_stop early_stopping early_stopping_steps max_num_checkpoint_not_improved"),
    "training.metric": (
        "eval_metric valid_metrics best_checkpoint_metric metric_for_best_model optimized_metric "
        "early_stopping_criteria"
    ),
    "training.keep_best_ckpts": "keep_best keep_best_checkpoints",
    "training.keep_last_ckpts": "keep_checkpoint keep_last_epochs keep_last_params save_total_limit",
    "training.ema_decay": "exponential_smoothing average_decay",
    "training.shuffle": "no_shuffle data_shuffle",
    "training.loggers": "report_to log_with",
    "training.loggers: [tensorboard]": "tensorboard tensorboard_logdir tensorboard_log_dir",
    "training.loggers: [wandb]": "wandb wandb_project",
    "training.loggers: [mlflow]": "mlflow mlflow_experiment",
    "training.src_word_dropout": "word_dropout dropout_src",
    "training.tgt_word_dropout": "dropout_trg",
    "training.guided_alignment": "guided_alignment_weight lambda_align",
    "training.minimum_risk": "mrt",
    "training.r_drop": "rdrop reg_alpha rdrop_alpha",
    "training.scheduled_sampling": "teacher_forcing_ratio",
    # decoding
    "decoding.beam_size": "beam beams num_beams beam_width",
    "decoding.beam_size: 1": "greedy greedy_search use_greedy",
    "decoding.n_best": "nbest nbest_size num_return_sequences num_hypotheses",
    "decoding.length_penalty": "lenpen alpha beam_alpha length_penalty_alpha decoding.normalize",
    "decoding.coverage_penalty": "beta stepwise_penalty",
    "decoding.max_length_ratio": (
        "max_output_length max_len max_len_a max_new_tokens max_decoding_length max_length_factor decoding.max_length"
    ),
    "decoding.max_length_extra": "max_len_b",
    "decoding.min_length": "min_len min_new_tokens min_decoding_length",
    "decoding.no_repeat_ngram_size": "block_ngram_repeat no_repeat_ngram",
    "decoding.sampling": "do_sample sample random_sampling output_sampling",
    "decoding.sampling_temperature": "temperature random_sampling_temp sampling_temp softmax_temperature",
    "decoding.sampling_topk": "top_k topk random_sampling_topk",
    "decoding.sampling_topp": "top_p topp random_sampling_topp",
    "decoding.beam_groups": "num_beam_groups diverse_beam_groups",
    "decoding.diversity_strength": "diversity_penalty diverse_beam_strength",
    "decoding.generate_unk": "allow_unk ban_unk_token",
    "decoding.batch_size": "eval_batch_size per_device_eval_batch_size",
    "decoding.lm": "lm_path lm_model",
}
"""Names elsewhere for each setting here, or for what to write here. `decoding.NAME` is meant in that section alone."""

FOREIGN: dict[str, str] = {name: ours for ours, names in _NAMES.items() for name in names.split()}
"""Names elsewhere, each with what to write here."""

NOT_HERE: dict[str, str] = dict.fromkeys(
    "bpe_codes vocab vocabs src_vocab tgt_vocab srcdict tgtdict".split(),
    "leave it out: nmt learns its subwords from plain text; a model of sentencepiece can be given as "
    "data.subwords.model_file",
) | dict.fromkeys(
    "swa swa_start swa_lr checkpoint_averaging average_checkpoints avg_checkpoints checkpoints".split(),
    "leave it out: nmt-average averages the checkpoints that training.keep_last_ckpts keeps; training.ema_decay "
    "averages during training",
)
"""Names elsewhere of what has no counterpart here, each with what to do."""


def ours(name: str, section: str = "") -> str | None:
    """Return what to write here for a name from another toolkit, or None if it is not known. `name`: the name as
    written, such as `num_beams` or `mini-batch`; `section`: the section it stands in, such as `decoding`."""
    plain = name.lower().replace("-", "_")
    return FOREIGN.get(f"{section}.{plain}") or FOREIGN.get(plain)
