"""Translating with a trained model: the Python interface in one class.

from nmt import Translator
Translator.load("runs/de-en").translate(["Guten Morgen!"])
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np

from nmt.errors import CheckpointError, ConfigError
from nmt.model_folder import (
    BEST_NAME,
    LAST_NAME,
    PARAMS_PREFIX,
    build_model,
    load_folder_config,
    load_subwords,
    read_checkpoint,
    set_params,
    subwords_digest,
)

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.subwords import Subwords
    from nmt.decode import Ensemble, Forced, Hypothesis, LengthPenalty, SearchOptions
    from nmt.model.translation import TranslationModel

_NEUTRAL = {"repetition_penalty": 1.0}
"""Values that leave a setting out, where that is not 0."""

MAX_SOURCE_SUBWORDS = 1000
"""A line with more is cut, with a warning: what no model learned from is not worth its memory."""

_logger = logging.getLogger("nmt")


class SearchSettings(TypedDict, total=False):
    """What each key means stands in the `decoding` section of configs/reference.yaml; None is the configured value."""

    beam_size: int | None
    length_penalty: LengthPenalty | None
    batch_size: int | None
    max_length_ratio: float | None
    max_length_extra: int | None
    word_reward: float | None
    coverage_penalty: float | None
    min_length: int | None
    generate_unk: bool | None
    no_repeat_ngram_size: int | None
    repetition_penalty: float | None
    beam_groups: int | None
    diversity_strength: float | None
    sampling: bool | None
    sampling_temperature: float | None
    sampling_topk: int | None
    sampling_topp: float | None
    sampling_seed: int | None
    mbr: Literal["none", "chrf", "bleu"] | None
    mbr_samples: int | None
    glossary_bonus: float | None


@dataclass(frozen=True)
class Wishes:
    """What translations are to hold; lists have an entry for each sentence.

    prefixes: text they begin with, in whole words; constraints: phrases they hold; glossary: phrases that are
    preferred; forbidden: words and phrases that no translation holds, as the subwords they are cut into.
    """

    prefixes: Sequence[str] | None = None
    constraints: Sequence[Sequence[str]] | None = None
    glossary: Sequence[Sequence[str]] | None = None
    forbidden: Sequence[str] = ()


@dataclass(frozen=True)
class Detail:
    """How a translation came about: its subwords with log-probabilities, the end `</s>` among them where it ended by
    itself, and their attention [T, S] to the source's subwords and its end. Alignment: pairs of words (source,
    target), counted from 0. Warnings are for people."""

    tokens: list[str]
    log_probs: list[float]
    src_tokens: list[str]
    attention: np.ndarray
    alignment: list[tuple[int, int]]
    warnings: list[str]


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    """Detokenised, without line breaks."""
    score: float
    """What the search ranked by: the log-probability after the length penalty."""
    log_prob: float
    """Sum of the subwords' natural log-probabilities, the end of sentence included."""
    detail: Detail | None = None
    """Where it was asked for."""


class Translator:
    """A model with its subwords and settings.

    Args:
        model: Gives the search its probabilities; an `Ensemble` of several does, too.
        src_subwords: Cut the source into ids.
        tgt_subwords: Join ids into text; the same object where the languages share one model.
        config: How text is cleaned, and the defaults of the search.
        num_threads: Cores to use.
    """

    def __init__(
        self,
        model: TranslationModel | Ensemble,
        src_subwords: Subwords,
        tgt_subwords: Subwords,
        config: Config,
        num_threads: int = 1,
    ) -> None:
        self.model = model
        self.src_subwords = src_subwords
        self.tgt_subwords = tgt_subwords
        self.config = config
        self.num_threads = num_threads

    @classmethod
    def load(
        cls,
        model_dir: str | Path,
        *,
        threads: int | None = None,
        checkpoint: str | None = None,
        compute_dtype: str | None = None,
    ) -> Translator:
        """Load a model from the folder that nmt-train wrote.

        Args:
            model_dir: The folder.
            threads: Cores to use; None takes the configured number, or all.
            checkpoint: `best` or `last`; None takes the best, or the last where there is no best
                yet.
            compute_dtype: `float32` or `bfloat16`, what is multiplied; None takes the configured
                one. Any model runs in either.

        Raises:
            CheckpointError: The folder or a file in it is missing, damaged, or does not fit the
                rest.
            ConfigError: Its config.yaml was changed into something impossible.
        """
        folder = Path(model_dir)
        config = load_folder_config(folder)
        path = find_checkpoint(folder, checkpoint)
        src_subwords, tgt_subwords = load_subwords(folder, joint=config.data.subwords.joint)
        tensors, metadata = read_checkpoint(path, prefix=PARAMS_PREFIX)
        if metadata.get("subwords") != subwords_digest(src_subwords, tgt_subwords):
            raise CheckpointError(
                f"{path}: must have been trained with the subwords beside it, got other ones; "
                "put back the .spm files that belong to it"
            )
        model = build_model(config, src_subwords.vocab_size, tgt_subwords.vocab_size, compute_dtype)
        set_params(model.params, tensors, path)
        model.changed()
        num_threads = resolve_threads(threads, config)
        return cls(model, src_subwords, tgt_subwords, config, num_threads)

    def translate(self, sentences: Sequence[str], **settings: Unpack[SearchSettings]) -> list[str]:
        """Translate sentences.

        Args:
            sentences: One sentence each, as a person writes them. They are cleaned as in training.
            settings: See `SearchSettings`; batch_size changes the speed, not the translations.

        Returns:
            One line for each sentence, in order; a blank sentence gives an empty line.
        """
        return [translations[0].text for translations in self.translate_nbest(sentences, **settings)]

    def translate_nbest(
        self,
        sentences: Sequence[str],
        *,
        n_best: int = 1,
        on_batch: Callable[[int], None] | None = None,
        wishes: Wishes | None = None,
        details: bool = False,
        replace_unk: bool = False,
        **settings: Unpack[SearchSettings],
    ) -> list[list[Translation]]:
        """Translate sentences and keep scores and, with `n_best`, the runners-up.

        Args:
            sentences, settings: See `translate`.
            n_best: Most translations for each sentence; at most the beam size is found. With sampling: samples.
            on_batch: Called with the number of sentences translated since its last call; may raise to stop.
            wishes: What translations are to hold.
            details: Whether translations have a `detail`: one more pass over each.
            replace_unk: Put the source word that it attends to most in the place of an unknown subword.

        Returns:
            For each sentence its translations, the best first, at least one.
        """
        from nmt.decode import search

        if isinstance(sentences, str):
            raise TypeError("Translator: sentences must be a list of strings, got one string")
        chosen = self._chosen(settings)
        ids = self._encode(sentences)
        results: list[list[Translation]] = [[Translation("", 0.0, 0.0)] for _ in sentences]
        if on_batch is not None and (blank := sum(not row for row in ids)):
            on_batch(blank)
        there = [index for index, row in enumerate(ids) if row]
        beam_size, keep = _sizes(chosen, n_best)
        options = self._options(chosen, wishes or Wishes(), there)
        found = search(
            self.model,
            [ids[index] for index in there],
            beam_size=beam_size,
            length_penalty=chosen["length_penalty"],
            n_best=keep,
            max_length_ratio=chosen["max_length_ratio"],
            max_length_extra=chosen["max_length_extra"],
            batch_size=chosen["batch_size"],
            threads=self.num_threads,
            on_ended=on_batch,
            **({} if options is None else {"options": options}),
        )
        if details or replace_unk:
            decoded = self._with_details([sentences[i] for i in there], [ids[i] for i in there], found, replace_unk)
        else:
            decoded = [self._decode(hypotheses) for hypotheses in found]
        for index, translations in zip(there, decoded, strict=True):
            results[index] = self._ranked(translations, chosen["mbr"])[:n_best] or results[index]
        return results

    def score(self, sources: Sequence[str], targets: Sequence[str], *, batch_size: int | None = None) -> list[Detail]:
        """Score given translations: each is cut into subwords as in training and put through the model.

        Args:
            sources, targets: As many of each. An empty source or target is scored like any other.
            batch_size: Sentences together; it changes the speed, not the scores.
        """
        from nmt.decode import force
        from nmt.special_tokens import EOS_ID

        src_ids = self._encode(sources)
        tgt_ids = [[*row, EOS_ID] for row in self._target_ids(targets)]
        size = batch_size or self.config.decoding.batch_size
        forced = force(self.model, src_ids, tgt_ids, attention=True, batch_size=size, threads=self.num_threads)
        return [self._detail(*one, True) for one in zip(sources, src_ids, tgt_ids, forced, strict=True)]

    def together_with(self, others: Sequence[Translator], average: Literal["log_prob", "prob"]) -> Translator:
        """An ensemble that cleans and searches as this one does. Raises CheckpointError if subwords differ."""
        from nmt.decode import Ensemble

        for other in others:
            if subwords_digest(other.src_subwords, other.tgt_subwords) != subwords_digest(
                self.src_subwords, self.tgt_subwords
            ):
                raise CheckpointError(
                    f"{other.config.model_dir}: must have the subwords of the first model of the ensemble, got other "
                    "ones; train its models on the same subwords"
                )
        models: list[Any] = [self.model, *(other.model for other in others)]
        model = Ensemble(models, average)
        return Translator(model, self.src_subwords, self.tgt_subwords, self.config, self.num_threads)

    def phrases_for(self, sentence: str, glossary: Sequence[tuple[str, str]]) -> list[str]:
        """Translations of those phrases of a glossary whose words stand in a sentence side by side."""
        from nmt.data.corpus import clean_line

        side = self.config.data.src

        def spaced(text: str) -> str:
            return f" {clean_line(text, side.lowercase, side.normalize)} "

        whole = spaced(sentence)
        return [target for source, target in glossary if spaced(source) in whole]

    def _chosen(self, settings: SearchSettings) -> dict[str, Any]:
        """Settings for a call; those that are None or left out as configured."""
        decoding = self.config.decoding
        unknown = settings.keys() - SearchSettings.__annotations__.keys()
        if unknown:
            raise TypeError(f"Translator: settings must be those of SearchSettings, got {', '.join(sorted(unknown))}")
        return {
            key: getattr(decoding, key) if settings.get(key) is None else settings.get(key)
            for key in SearchSettings.__annotations__
        }

    def _options(self, chosen: dict[str, Any], wishes: Wishes, there: list[int]) -> SearchOptions | None:
        """What the search is to do beyond the plain one, None for nothing; sentences numbered `there` are searched."""
        given: dict[str, Any] = {
            name: chosen[name]
            for name in ("min_length", "no_repeat_ngram_size", "repetition_penalty", "word_reward", "coverage_penalty")
            if chosen[name] != _NEUTRAL.get(name, 0)
        }
        if not chosen["generate_unk"]:
            given["allow_unk"] = False
        if chosen["beam_groups"] > 1:
            given |= {"groups": chosen["beam_groups"], "diversity_strength": chosen["diversity_strength"]}
        given |= self._wished(wishes, there, chosen["glossary_bonus"])
        if chosen["sampling"]:
            from nmt.decode import Sampling

            names = {"seed": "seed", "temperature": "temperature", "top_k": "topk", "top_p": "topp"}
            given["sampling"] = Sampling(**{name: chosen[f"sampling_{key}"] for name, key in names.items()})
        if not given:
            return None
        _check_together(given, chosen["beam_size"])
        from nmt.decode import SearchOptions

        return SearchOptions(**given)

    def _wished(self, wishes: Wishes, there: list[int], bonus: float) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if wishes.prefixes is not None:
            given["prefixes"] = self._target_ids([wishes.prefixes[i] for i in there])
        if wishes.constraints is not None:
            given["constraints"] = [self._target_ids(wishes.constraints[i]) for i in there]
        if wishes.glossary is not None:
            given |= {"glossary": [self._target_ids(wishes.glossary[i]) for i in there], "glossary_bonus": bonus}
        if wishes.forbidden:
            given["forbidden"] = [row for row in self._target_ids(wishes.forbidden) if row]
        return given

    def _target_ids(self, texts: Sequence[str]) -> list[list[int]]:
        from nmt.data.corpus import clean_line

        side = self.config.data.tgt
        return self.tgt_subwords.encode([clean_line(text, side.lowercase, side.normalize) for text in texts])

    def _ranked(self, translations: list[Translation], mbr: str) -> list[Translation]:
        """In order of expected utility where that was asked for, which then is the score."""
        if mbr == "none" or not translations:
            return translations
        from nmt.decode.consensus import expected_utilities
        from nmt.evaluate import sentence_utility

        utilities = expected_utilities([t.text for t in translations], sentence_utility(mbr))
        ranked = sorted(zip(utilities, translations, strict=True), key=lambda pair: -pair[0])
        distinct = {t.text: replace(t, score=utility) for utility, t in reversed(ranked)}
        return sorted(distinct.values(), key=lambda t: -t.score)

    def _with_details(
        self,
        sentences: Sequence[str],
        src_ids: Sequence[Sequence[int]],
        found: Sequence[Sequence[Hypothesis]],
        replace_unk: bool,
    ) -> list[list[Translation]]:
        """Translations with details, by forcing what the search has found."""
        from nmt.decode import force
        from nmt.special_tokens import EOS_ID

        flat = [(n, h) for n, hypotheses in enumerate(found) for h in hypotheses]
        sources = [src_ids[n] for n, _ in flat]
        targets = [[*h.ids, EOS_ID] if h.finished else list(h.ids) for _, h in flat]
        size = self.config.decoding.batch_size
        forced = force(self.model, sources, targets, attention=True, batch_size=size, threads=self.num_threads)
        results: list[list[Translation]] = [[] for _ in found]
        for (n, h), source, target, one in zip(flat, sources, targets, forced, strict=True):
            detail = self._detail(sentences[n], source, target, one, h.finished)
            text = self._replaced(h.ids, detail, sentences[n]) if replace_unk else self.tgt_subwords.decode([h.ids])[0]
            results[n].append(Translation(text, h.score, h.log_prob, detail))
        return results

    def _detail(
        self, sentence: str, source: Sequence[int], target: Sequence[int], forced: Forced, finished: bool
    ) -> Detail:
        from nmt.data.alignment import hard_alignment, never_attended, words_of

        weights = forced.attention if forced.attention is not None else np.zeros((len(target), len(source) + 1))
        src_tokens = self.src_subwords.cut(self._cleaned([sentence]))[0][: len(source)]
        tokens = self.tgt_subwords.pieces(target)
        src_words, tgt_words = words_of(src_tokens), words_of(tokens[: len(tokens) - finished])
        warnings = [f"source word {n} never attended" for n in never_attended(weights, src_words)]
        if not finished:
            warnings.append("cut at maximum length")
        pairs = hard_alignment(weights, src_words, tgt_words)
        scores = [float(x) for x in forced.log_probs]
        return Detail(tokens, scores, src_tokens, weights, pairs, warnings)

    def _replaced(self, ids: Sequence[int], detail: Detail, sentence: str) -> str:
        from nmt.data.alignment import with_unknown_replaced, words_of
        from nmt.data.corpus import clean_line
        from nmt.special_tokens import UNK_ID

        unknown = [i == UNK_ID for i in ids]
        if not any(unknown):
            return self.tgt_subwords.decode([list(ids)])[0]
        side = self.config.data.src
        source = clean_line(sentence, False, side.normalize)  # names keep their case
        pieces = with_unknown_replaced(
            detail.tokens[: len(ids)], unknown, detail.attention, source, words_of(detail.src_tokens)
        )
        return self.tgt_subwords.join(pieces)

    def _cleaned(self, sentences: Sequence[str]) -> list[str]:
        from nmt.data.corpus import clean_line

        side = self.config.data.src
        return [clean_line(text, side.lowercase, side.normalize) for text in sentences]

    def _encode(self, sentences: Sequence[str]) -> list[list[int]]:
        ids = self.src_subwords.encode(self._cleaned(sentences))
        for index, row in enumerate(ids):
            if len(row) > MAX_SOURCE_SUBWORDS:
                _logger.warning(
                    "warning: a line of %d subwords is cut to %d (it begins %r)",
                    len(row),
                    MAX_SOURCE_SUBWORDS,
                    sentences[index][:40],
                )
                ids[index] = row[:MAX_SOURCE_SUBWORDS]
        return ids

    def _decode(self, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        texts = self.tgt_subwords.decode([list(hypothesis.ids) for hypothesis in hypotheses])
        return [
            Translation(text, hypothesis.score, hypothesis.log_prob)
            for text, hypothesis in zip(texts, hypotheses, strict=True)
        ]


def _sizes(chosen: dict[str, Any], n_best: int) -> tuple[int, int]:
    """The beam or number of samples, and how many of them are kept as candidates."""
    if chosen["sampling"]:
        count = max(n_best, chosen["mbr_samples"]) if chosen["mbr"] != "none" else n_best
        return count, count
    keep = chosen["beam_size"] if chosen["mbr"] != "none" else n_best
    return chosen["beam_size"], min(keep, chosen["beam_size"])


def _check_together(given: dict[str, Any], beam_size: int) -> None:
    """Raise ConfigError for what one search cannot do at the same time."""
    kinds = [name for name in ("sampling", "groups", "constraints") if name in given]
    if len(kinds) > 1:
        raise ConfigError(
            f"decoding: must have one of sampling, groups and constraints, got {' and '.join(kinds)}; choose one"
        )
    if beam_size % given.get("groups", 1):
        raise ConfigError(
            f"decoding: beam_groups must divide beam_size ({beam_size}), got {given['groups']}; change one of them"
        )


def find_checkpoint(folder: Path, checkpoint: str | None = None) -> Path:
    """Return the file to load: the one asked for, or the best, or the last.

    Raises:
        CheckpointError: There is none.
    """
    names = {"best": [BEST_NAME], "last": [LAST_NAME], None: [BEST_NAME, LAST_NAME]}[checkpoint]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise CheckpointError(
        f"{folder}: must hold {' or '.join(names)}, got neither; train it first (nmt-train)"
        if len(names) > 1
        else f"{folder}: must hold {names[0]}, got none; leave out --checkpoint or train further"
    )


def resolve_threads(threads: int | None, config: Config) -> int:
    """Return the number of threads asked for, or configured, or that of the cores."""
    from nmt.rnn.kernels.threads import default_threads

    return threads or config.threads or default_threads()
