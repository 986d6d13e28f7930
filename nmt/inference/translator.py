"""Translate with a trained model: the Python interface in one class.

from nmt import Translator
Translator.load("runs/de-en").translate("Guten Morgen!")"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Unpack

from nmt.data.tokens.factors import has_features
from nmt.errors import CheckpointError, ConfigError, DataError, checked_texts
from nmt.inference import pipeline, translation
from nmt.inference.pipeline import TranslationPipeline
from nmt.inference.translation import (
    Constraints,
    Detail,
    NotPickled,
    Novelty,
    TranslatesTexts,
    Translation,
    checked_count,
    length_warnings,
)
from nmt.rnn.devices import choose_device
from nmt.search_settings import SearchSettings
from nmt.special_tokens import EOS_ID, UNK_ID, UNKNOWN_FEATURE_ID
from nmt.storage.model_folder import subwords_digest
from nmt.storage.saved_model import BUNDLE_SUFFIX, load_saved_model, save_bundle, save_folder
from nmt.storage.tensor_file import reading_whole
from nmt.system.paths import named


class TypingSession(NotPickled):
    """A sentence to translate interactively; made by `Translator.session`. The source is encoded once. Each call reads
    only the subwords typed since the previous call; memory does not grow with the text."""

    def __init__(self, translator: TranslationPipeline, sentence: str) -> None:
        from nmt.decode import Session

        cut: set[int] = set()
        (src_ids,) = pipeline.source_ids(
            translator, [translation.checked_text("TypingSession", "sentence", sentence)], cut
        )
        self._is_cut = bool(cut)
        self._translator = translator
        self._session = Session(pipeline.search_model(translator), src_ids, translator.num_threads) if src_ids else None
        self._sentence = sentence

    def __repr__(self) -> str:
        return f"TypingSession({self._sentence!r}, {self._translator!r})"

    @property
    def subwords_read(self) -> int:
        """Return the number of typed subwords that the decoder has read in all calls."""
        return self._session.tokens_read if self._session is not None else 0

    def complete(
        self, typed: str = "", *, n_best: int = 1, shortlist: bool = False, **settings: Unpack[SearchSettings]
    ) -> list[Translation]:
        """Return whole translations that begin with the typed text, in whole words; best first, at least one.

        The result is the same as that of `translate_nbest` with `Constraints(prefixes=[typed])` and the same
        `shortlist`. Settings: see `SearchSettings`.

        Raises:
            ConfigError: The given or configured settings include sampling, which sessions
                do not support; or as in `translate_nbest`.
        """
        from nmt.decode.search import check_session

        translator = self._translator
        n_best = checked_count("decoding.n_best", n_best, "n_best")
        chosen = translation.chosen_settings(translator.config.decoding, settings)
        options = translation.search_options(chosen, n_best, **pipeline.learnt_for(translator, shortlist))
        check_session(options)
        (prefix,) = pipeline.target_ids(translator, [translation.checked_text("TypingSession", "typed", typed)])
        if self._session is None:
            return [Translation("", 0.0, 0.0)]
        found = self._session.complete(prefix, options=options)
        translations = pipeline.translations_of(translator, found, self._sentence)
        if chosen.mbr != "none":
            best = pipeline.ranked_by_agreement(translations, chosen.mbr)[:n_best]
        else:
            best = translation.distinct(translations, [one.text for one in translations], n_best)
        lengths = length_warnings(chosen, self._session.src_ids)
        more = (*lengths, *pipeline.lacking_in_target(translator, "the prefix", [typed]))
        whole = translation.with_warnings(best, cut=self._is_cut, more=more)
        return pipeline.with_chances(translator, [self._sentence], [self._session.src_ids], [whole])[0]


class Translator(TranslationPipeline, TranslatesTexts):
    """A model with its subwords and settings.

    Args:
        model: Computes the probabilities of the search; may be an `Ensemble`.
        src_subwords: Splits the source into ids.
        tgt_subwords: Joins ids to text; the same object if both languages share subwords.
        config: How text is cleaned, and the defaults of the search.
        num_threads: Cores to use.
        shortlist: The lexical shortlist for `shortlist=True`.
        calibration: What the validation text has taught about the model's confidence.
    """

    @classmethod
    def load(
        cls,
        model_dir: str | Path,
        *,
        threads: int | None = None,
        checkpoint: str | None = None,
        compute_dtype: str | None = None,
        device: str | None = None,
        cells: Sequence[str] = (),
        share: bool = True,
    ) -> Translator:
        """Load a model from the folder that nmt-train wrote, or from the file that nmt-bundle made of it.

        Parameters are memory-mapped, not read: several processes share one copy. Replace the files of a model in use by
        a rename (`mv`); do not write into them.

        Args:
            model_dir: The folder or file.
            threads: Cores to use; None takes the configured number, or all.
            checkpoint: `best`, `last`, or a numbered one such as `best-600`; None takes the best, or else the last.
            compute_dtype: The type of products: `float32`, `bfloat16` or `int8` (on the processor only), for any model;
                None takes the configured one.
            device: `cpu`, `cuda` or `auto`, for any model; None takes the configured one.
            cells: Names of modules, `my_cells`, including their submodules, whose cells the model may name: their code
                is imported and runs.
            share: False reads the files instead of mapping them, for a long-lived process: later changes of the files
                do not affect the model.

        Raises:
            DeviceError: The device is `cuda` and there is no usable GPU.
            CheckpointError: The folder or a file in it is missing, damaged, or does not fit the rest.
            ConfigError: An argument or config.yaml is invalid, or it names a cell that is not allowed.
        """
        translation.check_loading(threads, checkpoint, compute_dtype, device)
        with nullcontext() if share else reading_whole():
            saved = load_saved_model(model_dir, checkpoint, cells=cells)
            loaded = saved.load(compute_dtype, choose_device(device or saved.config.device))
        found = cls(
            loaded.network,
            loaded.src_subwords,
            loaded.tgt_subwords,
            loaded.config,
            translation.resolve_threads(threads, loaded.config),
            shortlist=loaded.shortlist,
            calibration=loaded.calibration,
        )
        found.place, found.loaded = str(model_dir), (loaded,)
        return found

    def save(self, path: str | Path) -> None:
        """Write the model as one file, if the path ends in `.nmt`, or else as a folder, for `load` and all commands.

        Parameters are those of its files, in their type of numbers; settings and shortlist are the current
        ones.

        Raises:
            CheckpointError: Something is there already, the path cannot be written, the model's file has changed, or
                it is an ensemble or was not loaded from files.
        """
        if len(self.loaded) != 1:
            raise CheckpointError(
                f"Translator.save: must have one model that was loaded from files, got {len(self.loaded)}; save the "
                "models of an ensemble one by one"
            )
        self._check_unchanged()
        (loaded,) = self.loaded
        saved = loaded.reopened(config=self.config, shortlist=self.shortlist)
        place = named(path, "Translator.save")
        save_bundle(place, saved) if place.suffix == BUNDLE_SUFFIX else save_folder(place, saved)

    def translate_nbest(
        self,
        sentences: Iterable[str],
        *,
        n_best: int | None = None,
        on_batch: Callable[[int], None] | None = None,
        constraints: Constraints | None = None,
        details: bool = False,
        replace_unk: bool = False,
        dictionary: Mapping[str, str] | None = None,
        shortlist: bool = False,
        **settings: Unpack[SearchSettings],
    ) -> list[list[Translation]]:
        """Translate sentences; return scores and, with `n_best`, alternatives.

        Args:
            sentences, settings: See `translate`.
            n_best: The maximum number of translations of each sentence, which differ by more than spaces; at most the
                beam size. With sampling: the number of samples, in the order drawn. None takes the configured number.
            on_batch: Called with the number of sentences translated since its last call; may raise to stop.
            constraints: Text that translations must, should or may not contain.
            details: Whether translations have a `detail`, which takes one more pass of the model over each.
            replace_unk: Replace an unknown subword by the source word that it attends to most, ...
            dictionary: ... or by the entry of that word.
            shortlist: Choose among the words of the model's shortlist. Log-probabilities are then those among a
                sentence's candidates; a detail has those of the whole vocabulary.

        Raises:
            CheckpointError: The model's file has been written to.
            ConfigError: A setting is not what configs/reference.yaml allows, the settings do not go together, or the
                model lacks what they need.
            DataError: The number of constraints differs from the number of sentences.
            TypeError: There is no such setting, or a sentence is no text.

        Returns:
            For each sentence its translations, the best first, at least one; `warnings` describe possible problems.
        """
        from nmt.decode import search

        sentences = checked_texts("Translator", "sentences", sentences)
        self._check_unchanged()
        n_best = self.config.decoding.n_best if n_best is None else checked_count("decoding.n_best", n_best, "n_best")
        chosen = translation.chosen_settings(self.config.decoding, settings)
        cut: set[int] = set()
        ids = pipeline.source_ids(self, sentences, cut)
        results: list[list[Translation]] = [[Translation("", 0.0, 0.0)] for _ in sentences]
        if on_batch is not None and (blank := sum(not row for row in ids)):
            on_batch(blank)
        there = [index for index, row in enumerate(ids) if row]
        src_ids = [ids[index] for index in there]
        constraints = (constraints or Constraints()).of(len(sentences))
        learnt = pipeline.learnt_for(self, shortlist)
        options = translation.search_options(chosen, n_best, **self._ids_of_constraints(constraints, there), **learnt)
        found = search(
            pipeline.search_model(self), src_ids, options=options, threads=self.num_threads, on_ended=on_batch
        )
        if n_best > 1 and not chosen.sampling and chosen.mbr == "none":
            found = [
                translation.distinct(h, [t.text for t in pipeline.translations_of(self, h, sentences[i])], n_best)
                for i, h in zip(there, found, strict=True)
            ]
        if replace_unk and not pipeline.attends(self):
            raise ConfigError("replace_unk: must have attention to go by, got a model without; leave it out")
        if details or replace_unk:
            words = (dictionary or {}) if replace_unk else None
            decoded = pipeline.with_details(self, [sentences[i] for i in there], src_ids, found, words)
        else:
            decoded = [pipeline.translations_of(self, h, sentences[i]) for i, h in zip(there, found, strict=True)]
        for index, translations in zip(there, decoded, strict=True):
            if chosen.mbr != "none":
                translations = pipeline.ranked_by_agreement(translations, chosen.mbr)
            unknown = (translation.UNKNOWN,) if {UNK_ID, UNKNOWN_FEATURE_ID} & {*ids[index]} else ()
            if len(sentences[index].strip().splitlines()) > 1:
                unknown = (*unknown, translation.BROKEN)
            if self.config.data.features_columns is not None and not has_features(sentences[index]):
                unknown = (*unknown, translation.FEATURELESS)
            more = (*unknown, *length_warnings(chosen, ids[index]), *self._constraint_warnings(constraints, index))
            results[index] = translation.with_warnings(translations[:n_best], cut=index in cut, more=more)
            if constraints.glossary is not None and (wanted := constraints.glossary[index]):
                results[index] = [
                    replace(one, warnings=(*one.warnings, translation.UNFOLLOWED))
                    if pipeline.phrases_missing(self, wanted, one.text)
                    else one
                    for one in results[index]
                ]
        return pipeline.with_chances(self, sentences, ids, results)

    def novelty(self, sentences: Iterable[str]) -> Novelty | None:
        """Return how much of a text the model's training never had, to know before it is translated whether the model
        knows this kind of text; None for a model that was not calibrated in its training."""
        return pipeline.novelty_of(self, checked_texts("Translator", "sentences", sentences))

    def session(self, sentence: str) -> TypingSession:
        """Encode a sentence once and return a session that completes its translation while a person types."""
        return TypingSession(self, sentence)

    def score(self, sources: Sequence[str], targets: Sequence[str], *, batch_size: int | None = None) -> list[Detail]:
        """Return the scores of given translations: each is split into subwords as in training and put through the
        model.

        Args:
            sources, targets: Lists of the same length. An empty source or target is scored like any other.
            batch_size: The number of sentences in a batch; it changes the speed, not the scores.

        Raises:
            ConfigError: A setting is not what configs/reference.yaml allows.
            DataError: The numbers of sources and targets differ.
            TypeError: One of them is no text.
        """
        from nmt.decode import force

        sources, targets = _checked_pairs(sources, targets)
        cut: set[int] = set()
        src_ids = pipeline.source_ids(self, sources, cut)
        tgt_ids = [[*row, EOS_ID] for row in pipeline.target_ids(self, targets)]
        size = translation.chosen_settings(self.config.decoding, {"batch_size": batch_size}).batch_size
        forced = force(self.model, src_ids, tgt_ids, attention=True, batch_size=size, threads=self.num_threads)
        tokens = pipeline.source_tokens(self, sources, src_ids)
        found = [
            pipeline.detail_of(s, self.tgt_subwords, t, f, True)
            for s, t, f in zip(tokens, tgt_ids, forced, strict=True)
        ]
        for index, detail in enumerate(found):
            detail.warnings.extend(
                [*([translation.CUT] if index in cut else []), *translation.number_warnings(detail.log_probs)]
            )
        return found

    def reading(self, sources: Sequence[str], targets: Sequence[str]) -> Translator:
        """Return this translator as one that reads pairs while translating: a sentence that is among the sources is
        translated as the last of them was, and similar ones are read (nearest-neighbour translation,
        docs/decoding.md). Texts that resemble one another gain, those of the training, too.

        Raises:
            ConfigError: It is on a GPU, an ensemble that copies, or has source factors or edit actions.
            DataError: The numbers of sources and targets differ, or there is no pair that can be read.
            NMTError: rapidfuzz, of the extra [learn], is missing.
            TypeError: One of them is no text.
        """
        return pipeline.reading(self, [*zip(*_checked_pairs(sources, targets), strict=True)], "Translator.reading")

    def together_with(self, others: Sequence[Translator], average: Literal["log_prob", "prob"]) -> Translator:
        """Return an ensemble with the text cleaning and search settings of this translator. Raises CheckpointError if
        the subwords differ, or some models write edit actions and others tokens."""
        from nmt.decode import Ensemble

        for other in others:
            if subwords_digest(other.src_subwords, other.tgt_subwords) != subwords_digest(
                self.src_subwords, self.tgt_subwords
            ):
                raise CheckpointError(
                    f"{other.place}: must have the subwords of the first model of the ensemble, got other "
                    "ones; train its models on the same subwords"
                )
            ours, theirs = (one.config.model.decoder.edit_actions for one in (self, other))
            if ours != theirs:
                raise CheckpointError(
                    f"{other.place}: model.decoder.edit_actions must be as in the first model of the ensemble, "
                    f"{str(ours).lower()}, got {str(theirs).lower()}; choose models of one kind"
                )
        models: list[Any] = [self.model, *(other.model for other in others)]
        found = copy(self)
        found.model, found.recall = Ensemble(models, average), None
        found.loaded = tuple(one for each in (self, *others) for one in each.loaded)
        return found

    def _check_unchanged(self) -> None:
        """Raise CheckpointError if a file whose numbers are in use was written into."""
        for one in self.loaded:
            if one.mapped is not None:
                one.mapped.check_unchanged()

    def _constraint_warnings(self, constraints: Constraints, index: int) -> tuple[str, ...]:
        """Return warnings about text in a sentence's constraints that the vocabulary cannot represent."""
        texts = {
            "the prefix": [constraints.prefixes[index]] if constraints.prefixes is not None else [],
            "a phrase of the glossary": constraints.glossary[index] if constraints.glossary is not None else [],
        }
        return tuple(
            line
            for whose, wanted in texts.items()
            if wanted
            for line in pipeline.lacking_in_target(self, whose, wanted)
        )

    def _ids_of_constraints(self, constraints: Constraints, there: list[int]) -> dict[str, Any]:
        """Return the constraints of the sentences `there` as token ids, by the names of their `SearchOptions`."""
        given: dict[str, Any] = {}
        if constraints.prefixes is not None:
            given["prefixes"] = pipeline.target_ids(self, [constraints.prefixes[i] for i in there])
        if constraints.glossary is not None:
            given["glossary"] = [pipeline.target_ids(self, constraints.glossary[i]) for i in there]
        if constraints.forbidden:
            given["forbidden"] = [row for row in pipeline.target_ids(self, constraints.forbidden) if row]
        return given


def _checked_pairs(sources: Sequence[str], targets: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return lists of texts. Raises TypeError or DataError."""
    found = checked_texts("Translator", "sources", sources), checked_texts("Translator", "targets", targets)
    if len(found[0]) != len(found[1]):
        raise DataError(
            f"Translator: there must be as many sources as targets, got {len(found[0])} and {len(found[1])}; give one "
            "translation for each source"
        )
    return found
