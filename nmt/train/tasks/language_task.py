"""Language modelling: streams of text, and perplexity."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nmt.data.batching.batches import StreamBatches
from nmt.data.corpora.prepare import load_text, training_filter
from nmt.data.corpora.readers import TokenRows
from nmt.evaluate import Score
from nmt.storage.model_folder import build_model
from nmt.train.tasks.validation import Validator

if TYPE_CHECKING:
    from nmt.config import Config
    from nmt.data.batching.batches import Segment
    from nmt.data.corpora.corpus import Side
    from nmt.data.corpora.prepare import TextCorpus
    from nmt.data.corpora.readers import Readers
    from nmt.model.language import LanguageModel
    from nmt.rnn.device import Device
    from nmt.train.distributed.ranks import Ranks


class LanguageTask:
    """A language model task (see `Task`); several readers load the text of data.train together."""

    def __init__(self, config: Config, side: Side, same: Side, readers: Readers | None = None) -> None:
        self.config, self._side = config, side
        self.subwords = side.subwords, same.subwords
        rules = training_filter(config.data, (side.config,))
        self.corpus: TextCorpus = load_text(config.data.train, side, rules, readers)
        self._dev: TextCorpus | None = None
        self._test: TextCorpus | None = None

    def held_out(self, notify: Callable[[str], None]) -> LanguageTask:
        """Load the texts of data.dev and data.test as well; return the task itself."""
        data, train = self.config.data, self.corpus
        skipped = f"{train.total - len(train):,} blank ones skipped"
        if train.filtered:
            count = train.total - len(train)
            skipped = f"{count:,} skipped that are blank or removed by data.filter: {train.filtered}"
        self._dev = load_text(data.dev, self._side)
        self._test = load_text(data.test, self._side) if data.test else None
        notify(
            f"data: {len(train):,} training lines of {train.total:,} ({skipped}),"
            f" {train.num_tgt_tokens:,} subwords with the ends of lines; {len(self._dev):,} validation lines"
        )
        return self

    @property
    def fingerprint(self) -> list[int]:
        """Return the numbers of lines and tokens, and their checksum."""
        lines = self.corpus.lines
        return [len(self.corpus), len(lines.tokens), lines.checksum()]

    @property
    def seen(self) -> str:
        """Return nothing: language models are not evaluated on pairs."""
        return ""

    @property
    def dev_fingerprint(self) -> list[int]:
        """Return the number of validation lines and their checksum."""
        dev = self._dev
        return [] if dev is None else [len(dev), dev.lines.checksum()]

    def alignments(self, notify: Callable[[str], None]) -> None:
        """Return None: there are no alignments."""

    def build_model(self, device: Device) -> LanguageModel:
        """Return a new language model."""
        size = self._side.subwords.vocab_size
        model: LanguageModel = build_model(self.config, size, size, device=device)
        model.initialize(self.config.seed, self.corpus.target_counts(size))
        return model

    def batches(self, size: int, parts: int = 1) -> StreamBatches:
        """Return batches of `size` streams if batch_type is sentence; otherwise of as many streams as make `size`
        tokens per batch. An update has `parts` times as many streams."""
        training = self.config.training
        return self._streams(self.corpus, size, training.shuffle, parts)

    def smallest_batch(self) -> Segment:
        """Return a batch of one token."""
        return StreamBatches(TokenRows.from_lists([[4]]), 1, 1).batch(0, 0)

    @property
    def dev_size(self) -> tuple[int, int]:
        """Return zeros: there are no pairs."""
        return 0, 0

    def validator(
        self, model: LanguageModel, size: int, num_threads: int, check: Callable[[], None], ranks: Ranks, pairs: int = 0
    ) -> Validator:
        """Return a `Validator` of the loss; `pairs` has no effect. The text is divided into as many streams as for
        training, times the number of ranks; each begins with a zero state."""
        if self._dev is None:
            raise RuntimeError("only the training text is loaded")
        return Validator(list(self._streams(self._dev, size, False, ranks.size).epoch(0)), check, ranks)

    def test(self, model: LanguageModel, num_threads: int, check: Callable[[], None], ranks: Ranks) -> dict[str, Score]:
        """Return the perplexity of data.test, which every rank reads as one stream."""
        if self._test is None:
            return {}
        steps = max(self.config.training.bptt, _TEST_STEPS)
        segments = list(StreamBatches(self._test.lines, 1, steps).epoch(0))
        found = Validator(segments, check).losses(model, num_threads)
        return {"ppl": Score("perplexity", found["ppl"], f"tokens:{self._test.num_tgt_tokens}|streams:1")}

    def _streams(self, corpus: TextCorpus, size: int, shuffle: bool, parts: int = 1) -> StreamBatches:
        """Return a text as parallel streams; `size` counts them, or the tokens per segment of all."""
        training = self.config.training
        streams = size if training.batch_type == "sentence" else max(1, size // training.bptt)
        return StreamBatches(corpus.lines, streams, training.bptt, self.config.seed, shuffle, parts=parts)


_TEST_STEPS = 512
"""Steps at a time on the one stream: matrix products with that many rows are fast."""
