"""Converts a configuration of JoeyNMT 1 or 2 to our settings.

Meanings and defaults of keys are those of JoeyNMT's config.py, model.py and builders.py (2.3, or 1.x if the config has
the layout of 1.x, in which `data.src` is a language). A key without a counterpart is an error: nothing is ignored
silently.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from nmt.config.complaints import shorten
from nmt.config.joeynmt.keys import FREE, ONLY, SAME
from nmt.config.joeynmt.reading import Reading
from nmt.config.section import MOST
from nmt.errors import ConfigError

_NAMED = 6
"""Number of keys that an error names besides the first."""


class Converted(NamedTuple):
    """The result of a conversion.

    values: Our settings, not yet validated.
    lines: A description of each conversion, for the user.
    """

    values: dict[str, Any]
    lines: list[str]


def is_joeynmt(values: Mapping[str, Any]) -> bool:
    """Return whether these are settings of JoeyNMT: they contain its version, or the target language is called `trg`
    and there is a section or key that only JoeyNMT has."""
    data, training = (values.get(name) for name in ("data", "training"))
    if "joeynmt_version" in values:
        return True
    if not isinstance(data, dict) or "trg" not in data or "tgt" in data:
        return False
    inside = isinstance(training, dict) and "model_dir" in training
    return "testing" in values or inside or isinstance(data["trg"], str)


def convert(values: Mapping[str, Any], where: str) -> Converted:
    """Return our settings converted from JoeyNMT's. Raises ConfigError, which names `where` and each key without a
    counterpart."""
    reading = Reading.of(values)
    for read in (_sides, _vocabularies, _batches, _rates, _stopping, _testing, _first_values, _encoder, _decoder):
        read(reading)
    for theirs, allowed in ONLY.items():
        reading.only(theirs, allowed)
    for theirs, ours in SAME.items():
        if theirs in reading.left:
            reading.same(theirs, ours, None)
    for theirs in [name for name in reading.left if name in FREE]:
        reading.take(theirs)
        reading.free.append(reading.name(theirs))
    for theirs in list(reading.left):
        reading.take(theirs)
        reading.refuse(theirs, "has no counterpart here; remove it to use the default")
    if reading.problems:
        (_, first), *others = reading.problems.items()
        more = [*list(reading.problems)[1 : 1 + _NAMED], *(["..."] if len(others) > _NAMED else [])]
        tail = f" (and {len(others)} more: {', '.join(more)})" if others else ""
        raise ConfigError(f"{where}: {first}{tail}")
    return Converted(reading.values, reading.told())


def _sides(reading: Reading) -> None:
    """Convert languages, lengths and normalization."""
    for theirs, ours in (("data.src", "data.src"), ("data.trg", "data.tgt")):
        reading.same(f"{theirs}.lang", f"{ours}.lang", None)
        reading.changed(f"{theirs}.max_length", f"{ours}.max_length", -1, lambda n: MOST if n == -1 else n)
        reading.same(f"{theirs}.lowercase", f"{ours}.lowercase", False)
        if reading.take(f"{theirs}.normalize", False) is not False:
            reading.must(f"{theirs}.normalize", "false", True, "normalise the text before")
        reading.put(f"{ours}.normalize", "none", note="JoeyNMT leaves letters as they are")


def _vocabularies(reading: Reading) -> None:
    """Convert the vocabularies: one for each side for words and characters, or the model of sentencepiece."""
    levels = [reading.take(f"data.{side}.level", "word") for side in ("src", "trg")]
    kinds = [reading.take(f"data.{side}.tokenizer_type", "subword-nmt") for side in ("src", "trg")]
    if levels[0] != levels[1]:
        reading.must("data.trg.level", f"as data.src.level, {shorten(levels[0])}", levels[1])
        return
    if levels[0] == "bpe" and not reading.old and kinds == ["sentencepiece"] * 2:
        _pieces(reading)
        return
    if levels[0] not in ("word", "char"):
        reading.must(
            "data.src.level",
            "word or char, or bpe with tokenizer_type sentencepiece on both sides",
            levels[0],
            "give the text as it was before tokenization, and no level, or level: word to have pieces as words",
        )
        return
    reading.put("data.subwords.type", levels[0], f"data.level: {levels[0]}")
    reading.put("data.subwords.joint", False, note="a vocabulary for each language")
    limits = [reading.take(f"data.{side}.voc_limit") for side in ("src", "trg")]
    if limits[0] != limits[1]:
        reading.must("data.trg.voc_limit", f"as that of the source, {shorten(limits[0])}", limits[1])
    elif limits[0] is not None and (type(limits[0]) is not int or limits[0] < 1):
        reading.must("data.src.voc_limit", "a whole number of at least 1", limits[0])
    elif limits[0] is not None:
        note = "with the four special ones"
        reading.put("data.subwords.vocab_size", limits[0] + 4, f"voc_limit: {limits[0]}", note)
    for side in ("src", "trg"):
        if reading.take(f"data.{side}.voc_file") is not None:
            reading.refuse(f"data.{side}.voc_file", "has no counterpart here; without it the training text is counted")
        if reading.whole(f"data.{side}.voc_min_freq", 1)[0] > 1:
            reading.refuse(f"data.{side}.voc_min_freq", "must be 1 or 0; voc_limit limits their number")


def _pieces(reading: Reading) -> None:
    """Convert the models of sentencepiece, which also contain the vocabulary."""
    files = []
    for side in ("src", "trg"):
        for key in ("voc_limit", "voc_min_freq", "voc_file", "tokenizer_cfg.model_type", "tokenizer_cfg.nbest_size"):
            reading.take(f"data.{side}.{key}")
        reading.take(f"data.{side}.tokenizer_cfg.character_coverage")
        file = f"data.{side}.tokenizer_cfg.model_file"
        files.append(reading.take(file))
        if files[-1] is None:
            reading.refuse(file, "must be given: a model of sentencepiece")
    note = "vocabulary and kind of pieces are its own"
    if files[0] == files[1]:
        reading.put("data.subwords.model_file", files[0], "model_file of src and trg", note)
        return
    reading.put("data.subwords.joint", False, note="a vocabulary for each language")
    for ours, file in zip(("src", "tgt"), files, strict=True):
        reading.put(f"data.subwords.{ours}_model_file", file, "model_file", note)


def _batches(reading: Reading) -> None:
    """Convert the settings of batches, and the device."""
    if "use_cuda" in reading.left:
        reading.changed("use_cuda", "device", None, lambda use: "auto" if use is True else "cpu" if not use else use)
    kind = reading.same("training.batch_type", "training.batch_type", "sentence")
    note = "ours counts target tokens without padding" if kind == "token" else ""
    reading.changed("training.batch_size", "training.batch_size", None, lambda size: size, note)
    given = "training.normalization" in reading.left
    value = reading.take("training.normalization", "batch")
    if given and value != "tokens":
        reading.must("training.normalization", "tokens", value, "a loss here is a mean over target tokens")
    elif not given:
        reading.lines.append("no training.normalization: losses here are means over target tokens, not over sentences")


def _rates(reading: Reading) -> None:
    """Convert the optimizer and the learning rate."""
    old = reading.old
    if (value := reading.take("training.optimizer", "sgd" if old else "adam")) not in ("adam", "adamw", "sgd"):
        reading.must("training.optimizer", "adam, adamw or sgd", value)
    reading.put("training.optimizer", value)
    reading.same("training.learning_rate", "training.learning_rate", 3e-4 if old else 5e-3)
    reading.same("training.learning_rate_min", "training.learning_rate_min", 1e-8 if old else 1e-4)
    reading.same("training.clip_grad_norm", "training.clip_grad_norm", None)
    scheduling = reading.take("training.scheduling", "constant")
    if scheduling == "warmupinversesquareroot":
        reading.put("training.scheduling", "inverse_square_root", f"training.scheduling: {scheduling}")
        reading.same("training.learning_rate_warmup", "training.learning_rate_warmup", 4000)
    elif scheduling in ("plateau", "constant"):
        reading.put("training.scheduling", scheduling)
    else:
        advice = "remove it and set training.scheduling and its settings with --set"
        reading.must("training.scheduling", "plateau or warmupinversesquareroot", scheduling, advice)
    patience, factor = (10, 0.1) if old else (5, 0.5)
    if scheduling == "plateau":
        waits, text = reading.whole("training.patience", patience)
        reading.put("training.patience", waits + 1, text, "JoeyNMT lowers the rate one validation later")
        reading.same("training.decrease_factor", "training.decrease_factor", factor)
    names = ("patience", "decrease_factor", "learning_rate_warmup", "learning_rate_factor")
    reading.drop(*(f"training.{name}" for name in names))


def _stopping(reading: Reading) -> None:
    """Convert the length of the run, the stopping criterion, and the checkpoints to keep."""
    # JoeyNMT stops only by learning rate, epochs and updates.
    reading.put("training.early_stopping_patience", None, note="JoeyNMT does not stop so")
    reading.same("training.epochs", "training.epochs", 3)
    reading.same("training.validation_freq", "training.validation_freq", 1000)
    reading.same("training.logging_freq", "training.logging_freq", 100)
    metric = reading.take("training.early_stopping_metric", "eval_metric" if reading.old else "ppl")
    measured = reading.take("training.eval_metric", "bleu")
    key = "training.early_stopping_metric"
    if metric == "eval_metric":
        metric, key = measured, "training.eval_metric"
    if metric not in ("bleu", "chrf", "ppl", "loss"):
        reading.must(key, "bleu, chrf, ppl or loss", metric)
    reading.put("training.early_stopping_metric", metric)
    reading.changed(
        "training.keep_best_ckpts", "training.keep_best_ckpts", 5, lambda count: MOST if count == -1 else count
    )


def _testing(reading: Reading) -> None:
    """Convert the settings of the search."""
    reading.changed("testing.beam_size", "decoding.beam_size", 1, lambda size: 1 if size == 0 else size)
    reading.changed("testing.beam_alpha", "decoding.length_penalty", -1, lambda alpha: "none" if alpha == -1 else alpha)
    kind, size = reading.take("testing.batch_type", "sentence"), reading.take("testing.batch_size", 64)
    if kind == "sentence":
        reading.put("decoding.batch_size", size, f"testing.batch_size: {shorten(size)}")
    elif kind != "token":
        reading.must("testing.batch_type", "sentence or token", kind)
    else:
        reading.free.append("testing.batch_size")
    longest = reading.take("testing.max_output_length", -1)
    if longest == -1:
        reading.put("decoding.max_length_ratio", 1.5, "max_output_length: -1", "of the sentence, not of its batch")
        reading.put("decoding.max_length_extra", 0)
    else:
        reading.put("decoding.max_length_ratio", 1e-9, note="the length cannot be predicted from the source")
        reading.put("decoding.max_length_extra", longest, f"max_output_length: {shorten(longest)}")
    reading.same("testing.min_output_length", "decoding.min_length", 0 if reading.old else 1)
    reading.changed("testing.no_repeat_ngram_size", "decoding.no_repeat_ngram_size", -1, lambda n: 0 if n == -1 else n)
    reading.changed("testing.repetition_penalty", "decoding.repetition_penalty", -1, lambda p: 1.0 if p == -1 else p)
    metrics, text = reading.source("testing.eval_metrics", [])
    if not isinstance(metrics, list) or not set(map(str, metrics)) <= {"bleu", "chrf", "token_accuracy"}:
        reading.must("testing.eval_metrics", "a list of bleu, chrf and token_accuracy", metrics)
    elif metrics:
        reading.lines.append(f"{text}: all of these are measured in any case")


def _first_values(reading: Reading) -> None:
    """Convert the initialization of weights, and tied embeddings."""
    kind = reading.take("model.initializer", "xavier_uniform")
    if kind in ("xavier", "xavier_uniform"):
        reading.put("model.initializer", "xavier_uniform")
        reading.drop("model.init_weight")
    elif kind == "uniform":
        reading.put("model.initializer", "uniform")
        reading.same("model.init_weight", "model.init_weight", 0.01)
    else:
        reading.must("model.initializer", "xavier_uniform or uniform", kind)
    if reading.left.get("model.bias_initializer", "zeros") == "zeros":
        reading.drop("model.bias_init_weight")
    if "model.embed_initializer" not in reading.left:
        reading.lines.append("no model.embed_initializer: embeddings begin as ours do, drawn with a deviation of 1")
    forget = reading.take("model.lstm_forget_gate", 1.0)
    if not isinstance(forget, int | float) or isinstance(forget, bool):
        reading.must("model.lstm_forget_gate", "a number", forget)
        return
    reading.put("model.forget_bias", 2.0 * forget, f"lstm_forget_gate: {forget:g}", "JoeyNMT sets two biases to it")
    ties = tuple(reading.take(f"model.{name}", False) for name in ("tied_embeddings", "tied_softmax"))
    kinds = {(False, False): "none", (False, True): "softmax", (True, True): "all"}
    found = [kind for tied, kind in kinds.items() if tied == ties]
    if not found:
        reading.must("model.tied_embeddings", "false, or true together with tied_softmax: true", ties[0])
        return
    reading.put("model.tied_embeddings", found[0])


def _side(reading: Reading, side: str, default: str) -> tuple[Any, Any, Any]:
    """Convert the settings that both networks have; return the number of layers, hidden size and dropout."""
    where = f"model.{side}"
    reading.same(f"{where}.rnn_type", f"{where}.rnn_type", default)
    size = reading.take(f"{where}.hidden_size")
    if size is None:
        reading.refuse(f"{where}.hidden_size", "must be given")
    reading.put(f"{where}.hidden_size", size)
    layers = reading.same(f"{where}.num_layers", f"{where}.num_layers", 1)
    reading.same(f"{where}.embeddings.embedding_dim", f"{where}.embeddings.embedding_dim", 64)
    reading.same(f"{where}.embeddings.scale", f"{where}.embeddings.scale", False)
    dropout, text = reading.source(f"{where}.dropout", 0.0)
    own = reading.take(f"{where}.embeddings.dropout", dropout)
    if own != dropout:
        reading.must(f"{where}.embeddings.dropout", f"as {where}.dropout, {shorten(dropout)}", own)
    reading.put(f"{where}.embeddings.dropout", dropout, text, "the input of layer 1")
    reading.put(f"{where}.dropout", dropout if layers != 1 else 0.0, note="between layers")
    return layers, size, dropout


def _encoder(reading: Reading) -> None:
    """Convert the encoder."""
    _side(reading, "encoder", "gru")
    reading.same("model.encoder.bidirectional", "model.encoder.bidirectional", True)


def _decoder(reading: Reading) -> None:
    """Convert the decoder and its initial state."""
    where = "model.decoder"
    layers, size, dropout = _side(reading, "decoder", "gru")
    if dropout:
        reading.lines.append("model.decoder.dropout: it is not applied to the vector of input feeding here")
    fraction = reading.same(f"{where}.hidden_dropout", f"{where}.hidden_dropout", 0.0)
    if fraction:
        reading.lines.append(
            "model.decoder.hidden_dropout: applied after the layer over state and context, not before it"
        )
    reading.same(f"{where}.input_feeding", f"{where}.input_feeding", True)
    reading.same(f"{where}.attention", f"{where}.attention", "bahdanau")
    begins = reading.take(f"{where}.init_hidden", "bridge")
    encoder = reading.values["model"]["encoder"]
    if begins == "last" and encoder["hidden_size"] == size and encoder["bidirectional"]:
        advice = "hidden_size twice that of the encoder would take all of its last state"
        reading.refuse(f"{where}.init_hidden", f"must be bridge or zero with these sizes, got 'last'; {advice}")
    cells = reading.values["model"]["decoder"]["rnn_type"]
    several = begins == "bridge" and (layers != 1 or cells == "lstm")
    note = "each state has a layer of its own, in JoeyNMT one is for all" if several else ""
    reading.put(f"{where}.init_hidden", begins, note=note)
    reading.put(f"{where}.init_from", "top", note="h of the encoder's last layer")
