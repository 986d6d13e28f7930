"""Converts a configuration of JoeyNMT 1 or 2 to our settings.

Meanings and defaults of keys are those of JoeyNMT's config.py, model.py and builders.py (2.3, or 1.x if the config has
the layout of 1.x, in which `data.src` is a language). A key without a counterpart is an error: nothing is ignored
silently.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from nmt.config.complaints import shorten
from nmt.config.joeynmt.keys import KEYS, OURS, Key, keys_of
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
    counterpart, in the order of the file."""
    try:
        keys = keys_of(values)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    reading = _Reading(keys)
    for theirs, key in KEYS.items():
        reading.convert(theirs, key)
    for read in (_vocabularies, _batches, _rates, _stopping, _testing, _first_values, _dropout, _first_states):
        read(reading)
    for theirs in list(reading.left):
        reading.refuse(theirs, "has no counterpart here; remove it to use the default")
    order = {name: number for number, (name, _) in enumerate(keys.values())}
    problems = sorted(reading.problems.items(), key=lambda problem: order.get(problem[0], -1))
    if problems:
        (_, first), *others = problems
        more = [*(name for name, _ in others[:_NAMED]), *(["..."] if len(others) > _NAMED else [])]
        tail = f" (and {len(others)} more: {', '.join(more)})" if others else ""
        raise ConfigError(f"{where}: {first}{tail}")
    return Converted(reading.values, reading.report())


class _Reading:
    """The keys of a configuration during its conversion; `left`: those that are not yet converted."""

    def __init__(self, keys: Mapping[str, tuple[str, Any]]) -> None:
        self._names = {theirs: name for theirs, (name, _) in keys.items()}
        self.left = {theirs: value for theirs, (_, value) in keys.items()}
        self.old = keys.get("data.src.lang", ("", None))[0] == "data.src"  # the layout is that of version 1
        self.values: dict[str, Any] = {}
        self.problems: dict[str, str] = {}
        self.lines: list[str] = []
        self._equal: list[str] = []
        self._free: list[str] = []

    def name(self, theirs: str) -> str:
        """Return the name of a key in the file."""
        return self._names.get(theirs, theirs)

    def take(self, theirs: str, default: Any = None) -> Any:
        """Remove a key from those that are left and return its value; `default`, JoeyNMT's, if it is omitted."""
        return self.left.pop(theirs, default)

    def source(self, theirs: str, default: Any) -> tuple[Any, str]:
        """Take a key; return its value and, as text, where that comes from."""
        text = f"{self.name(theirs)}: {shorten(self.left[theirs])}" if theirs in self.left else f"no {theirs}"
        return self.take(theirs, default), text

    def refuse(self, theirs: str, why: str) -> None:
        """Record a key that is not supported; `why` is appended to its name."""
        self.problems.setdefault(self.name(theirs), f"{self.name(theirs)} {why}")

    def must(self, theirs: str, promise: str, got: Any, advice: str = "") -> None:
        """Record a key whose value is not supported."""
        self.refuse(theirs, f"must be {promise}, got {shorten(got)}" + (f"; {advice}" if advice else ""))

    def convert(self, theirs: str, key: Key, note: str = "") -> None:
        """Convert a key as its row of the table says."""
        default = key.old if self.old and key.old is not OURS else key.default
        if theirs not in self.left and default is OURS:
            return
        value, text = self.source(theirs, default)
        if key.only and not any(_is(value, choice) for choice in key.only):
            self.must(theirs, " or ".join(map(shorten, key.only)), value, key.advice)
        elif not key.ours:
            (self._equal if key.only else self._free).append(self.name(theirs))
        else:
            changed = next((ours for theirs, ours in key.changes.items() if _is(value, theirs)), value)
            if text == f"{key.ours}: {shorten(changed)}" and not note:
                self._equal.append(key.ours)
                text = "equal"
            self.put(key.ours, changed, text, note)

    def drop(self, *names: str) -> None:
        """Ignore keys that have no effect in combination with other keys of the file."""
        for theirs in names:
            self.convert(theirs, Key())

    def put(self, ours: str, value: Any, theirs: str = "", note: str = "") -> None:
        """Set one of our settings. `theirs` is its origin as text: a key and its value, or the omitted key; `equal` for
        a setting that is reported with others of the same name and value."""
        section = self.values
        *way, key = ours.split(".")
        for part in way:
            section = section.setdefault(part, {})
        section[key] = value
        line = f"{theirs} -> {ours}: {shorten(value)}" if theirs else f"{ours}: {shorten(value)}"
        if theirs != "equal":
            self.lines.append(line + (f" ({note})" if note else ""))

    def count(self, theirs: str, default: int) -> tuple[int, str]:
        """Return a whole number of at least 0, and its origin as text."""
        value, text = self.source(theirs, default)
        if type(value) is int and 0 <= value < MOST:
            return value, text
        self.must(theirs, "a whole number of at least 0", value)
        return default, text

    def report(self) -> list[str]:
        """Return the conversions, one line each; keys that are unchanged share one line."""
        lines = [f"as they are: {', '.join(self._equal)}"] if self._equal else []
        lines += self.lines
        return [*lines, f"without effect here: {', '.join(self._free)}"] if self._free else lines


def _is(value: Any, choice: Any) -> bool:
    """Return whether a value is this one; 1 and 1.0 are the same number, 1 and true are not."""
    return bool(value == choice) and type(value) in (type(choice), int, float)


def _vocabularies(reading: _Reading) -> None:
    """Convert the vocabularies: one for each side for words and characters, or the model of sentencepiece."""
    for side in ("src", "tgt"):
        reading.put(f"data.{side}.normalize", "none", note="JoeyNMT leaves letters as they are")
    levels = [reading.take(f"data.{side}.level", "word") for side in ("src", "trg")]
    kinds = [reading.take(f"data.{side}.tokenizer_type", "subword-nmt") for side in ("src", "trg")]
    if levels[0] != levels[1]:
        reading.must("data.trg.level", f"as data.src.level, {shorten(levels[0])}", levels[1])
        _take_vocabularies(reading)
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
        _take_vocabularies(reading)
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
        if reading.count(f"data.{side}.voc_min_freq", 1)[0] > 1:
            reading.refuse(f"data.{side}.voc_min_freq", "must be 1 or 0; voc_limit says how many there may be")


def _pieces(reading: _Reading) -> None:
    """Convert the models of sentencepiece, which also contain the vocabulary."""
    files = _take_vocabularies(reading)
    for side, file in zip(("src", "trg"), files, strict=True):
        if file is None:
            reading.refuse(f"data.{side}.tokenizer_cfg.model_file", "must be given: a model of sentencepiece")
    note = "vocabulary and kind of pieces are its own"
    if files[0] == files[1]:
        reading.put("data.subwords.model_file", files[0], "model_file of src and trg", note)
        return
    reading.put("data.subwords.joint", False, note="a vocabulary for each language")
    for ours, file in zip(("src", "tgt"), files, strict=True):
        reading.put(f"data.subwords.{ours}_model_file", file, "model_file", note)


def _take_vocabularies(reading: _Reading) -> list[Any]:
    """Take the keys of the vocabularies and return the files of sentencepiece models of both sides."""
    for side in ("src", "trg"):
        for key in ("voc_limit", "voc_min_freq", "voc_file"):
            reading.take(f"data.{side}.{key}")
        for key in ("model_type", "nbest_size", "character_coverage"):
            reading.take(f"data.{side}.tokenizer_cfg.{key}")
    return [reading.take(f"data.{side}.tokenizer_cfg.model_file") for side in ("src", "trg")]


def _batches(reading: _Reading) -> None:
    """Convert the size of batches and what a loss is a mean over."""
    is_tokens = reading.values["training"]["batch_type"] == "token"
    note = "ours counts target tokens without padding" if is_tokens else ""
    reading.convert("training.batch_size", Key("training.batch_size", None), note)
    value = reading.take("training.normalization")
    if value is None:
        reading.lines.append("no training.normalization: losses here are means over target tokens, not over sentences")
    elif value != "tokens":
        reading.must("training.normalization", "tokens", value, "a loss here is a mean over target tokens")


def _rates(reading: _Reading) -> None:
    """Convert the optimizer and how the learning rate changes."""
    if (value := reading.take("training.optimizer", "sgd" if reading.old else "adam")) not in ("adam", "adamw", "sgd"):
        reading.must("training.optimizer", "adam, adamw or sgd", value)
    reading.put("training.optimizer", value)
    scheduling = reading.take("training.scheduling", "constant")
    if scheduling == "warmupinversesquareroot":
        reading.put("training.scheduling", "inverse_square_root", f"training.scheduling: {scheduling}")
        reading.convert("training.learning_rate_warmup", Key("training.learning_rate_warmup", 4000))
    elif scheduling in ("plateau", "constant"):
        reading.put("training.scheduling", scheduling)
    else:
        advice = "remove it and set training.scheduling and its settings with --set"
        reading.must("training.scheduling", "plateau or warmupinversesquareroot", scheduling, advice)
    if scheduling == "plateau":
        waits, text = reading.count("training.patience", 10 if reading.old else 5)
        reading.put("training.patience", waits + 1, text, "JoeyNMT lowers the rate one validation later")
        reading.convert("training.decrease_factor", Key("training.decrease_factor", 0.5, old=0.1))
    names = ("patience", "decrease_factor", "learning_rate_warmup", "learning_rate_factor")
    reading.drop(*(f"training.{name}" for name in names))


def _stopping(reading: _Reading) -> None:
    """Convert the stopping criterion. JoeyNMT stops only by learning rate, epochs and updates."""
    reading.put("training.early_stopping_patience", None, note="JoeyNMT does not stop so")
    metric = reading.take("training.early_stopping_metric", "eval_metric" if reading.old else "ppl")
    measured = reading.take("training.eval_metric", "bleu")
    key = "training.early_stopping_metric"
    if metric == "eval_metric":
        metric, key = measured, "training.eval_metric"
    if metric not in ("bleu", "chrf", "ppl", "loss"):
        reading.must(key, "bleu, chrf, ppl or loss", metric)
    reading.put("training.early_stopping_metric", metric)


def _testing(reading: _Reading) -> None:
    """Convert the batches and the longest translations of the search, and the metrics."""
    kind, size = reading.take("testing.batch_type", "sentence"), reading.left.get("testing.batch_size", 64)
    if kind == "sentence":
        reading.take("testing.batch_size")
        reading.put("decoding.batch_size", size, f"testing.batch_size: {shorten(size)}")
    elif kind == "token":
        reading.drop("testing.batch_size")
    else:
        reading.take("testing.batch_size")
        reading.must("testing.batch_type", "sentence or token", kind)
    longest = reading.take("testing.max_output_length", -1)
    if longest == -1:
        reading.put("decoding.max_length_ratio", 1.5, "max_output_length: -1", "of the sentence, not of its batch")
        reading.put("decoding.max_length_extra", 0)
    else:
        reading.put("decoding.max_length_ratio", 1e-9, note="the length cannot be predicted from the source")
        reading.put("decoding.max_length_extra", longest, f"max_output_length: {shorten(longest)}")
    metrics, text = reading.source("testing.eval_metrics", [])
    if not isinstance(metrics, list) or not set(map(str, metrics)) <= {"bleu", "chrf", "token_accuracy"}:
        reading.must("testing.eval_metrics", "a list of bleu, chrf and token_accuracy", metrics)
    elif metrics:
        reading.lines.append(f"{text}: all of these are measured in any case")


def _first_values(reading: _Reading) -> None:
    """Convert the initialization of weights, and tied embeddings."""
    kind = reading.take("model.initializer", "xavier_uniform")
    if kind in ("xavier", "xavier_uniform"):
        reading.put("model.initializer", "xavier_uniform")
        reading.drop("model.init_weight")
    elif kind == "uniform":
        reading.put("model.initializer", "uniform")
        reading.convert("model.init_weight", Key("model.init_weight", 0.01))
    else:
        reading.must("model.initializer", "xavier_uniform or uniform", kind)
    if reading.name("model.bias_initializer") not in reading.problems:
        reading.drop("model.bias_init_weight")
    if "model.embed_initializer" not in reading.left:
        reading.lines.append("no model.embed_initializer: embeddings begin as ours do, drawn with a deviation of 1")
    forget = reading.take("model.lstm_forget_gate", 1.0)
    if not isinstance(forget, int | float) or isinstance(forget, bool):
        reading.must("model.lstm_forget_gate", "a number", forget)
    else:
        reading.put("model.forget_bias", 2.0 * forget, f"lstm_forget_gate: {forget:g}", "JoeyNMT sets two biases to it")
    ties = tuple(reading.take(f"model.{name}", False) for name in ("tied_embeddings", "tied_softmax"))
    kinds = {(False, False): "none", (False, True): "softmax", (True, True): "all"}
    found = [kind for tied, kind in kinds.items() if tied == ties]
    if found:
        reading.put("model.tied_embeddings", found[0])
    else:
        reading.must("model.tied_embeddings", "false, or true with tied_softmax: true", ties[0])


def _dropout(reading: _Reading) -> None:
    """Convert the sizes and the dropout of encoder and decoder, which does not follow a single layer here."""
    for where in ("model.encoder", "model.decoder"):
        size = reading.take(f"{where}.hidden_size")
        if size is None:
            reading.refuse(f"{where}.hidden_size", "must be given")
        reading.put(f"{where}.hidden_size", size)
        dropout, text = reading.source(f"{where}.dropout", 0.0)
        own = reading.take(f"{where}.embeddings.dropout", dropout)
        if own != dropout:
            reading.must(f"{where}.embeddings.dropout", f"as {where}.dropout, {shorten(dropout)}", own)
        reading.put(f"{where}.embeddings.dropout", dropout, text, "the input of layer 1")
        layers = reading.values["model"][where.removeprefix("model.")]["num_layers"]
        reading.put(f"{where}.dropout", dropout if layers != 1 else 0.0, note="between layers")
    decoder = reading.values["model"]["decoder"]
    if decoder["embeddings"]["dropout"]:
        reading.lines.append("model.decoder.dropout: it is not applied to the vector of input feeding here")
    if decoder["hidden_dropout"]:
        reading.lines.append("model.decoder.hidden_dropout: behind the layer over state and context, not before it")


def _first_states(reading: _Reading) -> None:
    """Convert the decoder's first states."""
    where, encoder, decoder = "model.decoder", reading.values["model"]["encoder"], reading.values["model"]["decoder"]
    begins = reading.take(f"{where}.init_hidden", "bridge")
    if begins == "last" and encoder["hidden_size"] == decoder["hidden_size"] and encoder["bidirectional"]:
        advice = "hidden_size twice that of the encoder would take all of its last state"
        reading.refuse(f"{where}.init_hidden", f"must be bridge or zero with these sizes, got 'last'; {advice}")
    several = begins == "bridge" and (decoder["num_layers"] != 1 or decoder["rnn_type"] == "lstm")
    note = "each state has a layer of its own, in JoeyNMT one is for all" if several else ""
    reading.put(f"{where}.init_hidden", begins, note=note)
    reading.put(f"{where}.init_from", "top", note="h of the encoder's last layer")
