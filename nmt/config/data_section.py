"""The `data` section: files, cleaning and subwords."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nmt.config.corpora import Corpora, CorpusConfig
from nmt.config.section import FilePath, PositiveInt, Section, Text, WholeOrAuto

VocabSize = Annotated[int | Literal["auto"], WholeOrAuto(5, 1_000_000)]


class SideConfig(Section):
    """One language of the pair."""

    lang: Text = Field(
        description="Language code: the files of this side are PREFIX.LANG or PREFIX.LANG.gz.",
    )
    max_length: PositiveInt = Field(
        default=100,
        description="Longest sentence to learn from, in subwords. A training pair with a longer "
        "side is "
        "left out and counted. Validation and translation are not limited by this, nor is the text of a language "
        "model.",
    )
    lowercase: bool = Field(
        default=False,
        description="Lower-case the text. On the target side translations come out lower-cased.",
    )
    normalize: Literal["none", "nfc", "nfkc", "pieces"] = Field(
        default="nfc",
        description="Unicode normalisation. nfc joins accents with their letters and loses "
        "nothing a reader "
        "can see; nfkc also turns ligatures and full-width forms into plain letters. none and pieces change nothing; "
        "with pieces sentencepiece's sign for a space is text, for imported models whose texts are split already.",
    )
    sampling_alpha: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="Split the sentences of the training text differently each time they are read: with bpe a merge is "
        "skipped with this probability (BPE-dropout, Provilkov et al. 2020: 0.1), with unigram a split is drawn by its "
        "probability to the power of this (Kudo 2018: 0.1 to 0.5; less is more random). null: always the best split.",
    )


class SubwordsConfig(Section):
    """Split words into subwords (sentencepiece)."""

    type: Literal["auto", "unigram", "bpe", "char", "word"] = Field(
        default="auto",
        description="Kind of subword. auto is unigram, or bpe where a small text does not have as many unigram pieces "
        "as vocab_size asks for. word takes what stands between spaces as it is.",
    )
    vocab_size: VocabSize = Field(
        default="auto",
        description="Units in the vocabulary, with the four special ones (padding, unknown, begin, end). "
        "Exact for unigram and bpe; for char and word the most there may be. auto goes by the running words of the "
        "training text, of both languages with joint: true: 1000 subwords, from 100,000 words on 2000, from 250,000 "
        "4000, from 500,000 8000, from 4 million 16000, from 40 million 32000; fewer where the text does not have so "
        "many, more where it has many characters; with char and word all there are.",
    )
    joint: bool = Field(
        default=True,
        description="One vocabulary for both languages (true) or one for each (false).",
    )
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = Field(
        default=1.0,
        description="Share of the characters of the training text that get a subword of their own. "
        "0.9995 for "
        "scripts of thousands of characters; the rest become unknown.",
    )
    model_file: FilePath | None = Field(
        default=None,
        description="A sentencepiece model to use as it is, for both languages (needs joint: "
        "true): "
        "none is trained then, and type, vocab_size and character_coverage have no effect.",
    )
    src_model_file: FilePath | None = Field(
        default=None,
        description="As model_file, for the source language alone (needs joint: false).",
    )
    tgt_model_file: FilePath | None = Field(
        default=None,
        description="As model_file, for the target language alone (needs joint: false).",
    )

    @model_validator(mode="after")
    def _check_files(self) -> "SubwordsConfig":
        """Raise ValueError if the subword model files do not match `joint`."""
        if self.model_file and not self.joint:
            raise ValueError(
                "model_file must be null with joint: false, got a file; "
                "name it src_model_file and tgt_model_file, or set joint: true"
            )
        for key in ("src_model_file", "tgt_model_file"):
            if getattr(self, key) and self.joint:
                raise ValueError(
                    f"{key} must be null with joint: true, got a file; name it model_file, or set joint: false"
                )
        return self


class FilterConfig(Section):
    """Training pairs to skip, by rule; the log has the count of each rule. Validation and test texts are kept whole."""

    duplicates: bool = Field(default=False, description="Of equal pairs keep the first.")
    same: bool = Field(default=False, description="Leave out pairs whose two sides are equal.")
    max_length_ratio: Annotated[float, Field(gt=1, le=1000)] | None = Field(
        default=None,
        description="Leave out pairs of which one side has more than this many times the characters that the other "
        "makes expect, by the ratio of the sides in the first 16,384 pairs. Pairs of less than 20 characters stay.",
    )
    markup: bool = Field(default=False, description="Leave out pairs with tags or entities of HTML or XML.")
    encoding: bool = Field(
        default=False,
        description="Leave out pairs with letters that a wrong encoding has broken: U+FFFD, or UTF-8 read as Latin-1.",
    )
    control: bool = Field(default=False, description="Leave out pairs with control characters other than tabs.")
    script: bool = Field(
        default=False,
        description="Leave out pairs of which a side has more than half of its letters in another script than the "
        "first 16,384 lines of its text.",
    )
    overlap: Literal["none", "exact", "near"] = Field(
        default="none",
        description="Leave out pairs whose source is a source of data.dev or data.test: letter for letter (exact), or "
        "also but for case, punctuation and spaces or with 0.8 of all pieces of four letters in common (near).",
    )

    @property
    def is_on(self) -> bool:
        """Return whether any rule is set."""
        return self != FilterConfig()


class DataConfig(Section):
    """Where the text is. Relative paths start at the folder the command is run in."""

    train: Corpora = Field(
        description="Prefix of the training files: data/train stands for data/train.de and data/train.en, or the same "
        "with .gz or .zst. One sentence a line; line n of one file translates line n of the other. Or a list of "
        "corpora, each with its path, format, weight and tag (docs/data.md).",
        examples=["data/train"],
    )
    dev: Corpora = Field(
        description="Prefix of the validation files, which choose the best checkpoint; or corpora, as in train.",
        examples=["data/dev"],
    )
    test: Corpora | None = Field(
        default=None, description="The same of the test text, scored once when training has ended."
    )
    index: FilePath | None = Field(
        default=None,
        description="Folder of indexes of the training text, which are made once and used by every run with the same "
        "files, subwords and settings of text. null: text of more than 1 GiB gets one in the folder index next to "
        "model_dir, smaller text is read by each run. An indexed text of more than 2 million pairs stays on disk and "
        "is dealt to batches by windows (docs/data.md). No effect with task: lm.",
    )
    src: SideConfig = Field(
        default=SideConfig(lang="src"),
        description="The language to translate from: must be given with task: translation, means nothing to task: lm.",
    )
    tgt: SideConfig = Field(
        description="The language to translate into; with task: lm the one language there is.",
        examples=[{"lang": "en"}],
    )
    alignment: FilePath | None = Field(
        default=None,
        description="File of word alignments of the training pairs, for training.guided_alignment: line n for pair n, "
        "as fast_align writes them (0-0 1-2: source word, target word, from 0). Words are what stands between spaces.",
    )
    src_factors: tuple[Text, ...] = Field(
        default=(),
        strict=False,
        description="Names of the factors that stand behind each word of the source, such as [pos, number] for "
        "house|NOUN|sg, in all its texts and in what is translated (Sennrich & Haddow 2016). model.encoder.factors has "
        "the sizes of their vectors.",
    )
    factor_separator: Text = Field(default="|", description="What stands before each factor.")
    subwords: SubwordsConfig = Field(default_factory=SubwordsConfig, description="How words are split into subwords.")
    check: bool = Field(
        default=True,
        description="Look at the texts before the first update: what cannot work is refused, what may be wrong is "
        "reported once and written to data_check.json in model_dir. Of the training text the first million lines, in "
        "half a minute; nmt-train --check-data looks at all of it.",
    )
    filter: FilterConfig = Field(default_factory=FilterConfig, description="Training pairs to leave out, by rule.")

    @property
    def held_out(self) -> list[str | tuple[CorpusConfig, ...]]:
        """Return the texts of dev and test that are set."""
        return [corpora for corpora in (self.dev, self.test) if corpora is not None]

    @model_validator(mode="after")
    def _check_corpora(self) -> "DataConfig":
        """Raise ValueError if a list of corpora is empty, or if a validation or test corpus has a weight."""
        for key in ("train", "dev", "test"):
            if getattr(self, key) == ():
                raise ValueError(f"{key} must contain at least one corpus, got an empty list")
        for key in ("dev", "test"):
            for number, corpus in enumerate(value if isinstance(value := getattr(self, key), tuple) else ()):
                if corpus.weight != 1:
                    raise ValueError(
                        f"{key}[{number}].weight must be 1, got {corpus.weight:g}; only data.train has weights"
                    )
        return self

    @model_validator(mode="after")
    def _check_languages(self) -> "DataConfig":
        """Raise ValueError if both sides have the same language, and so the same file."""
        if self.src.lang == self.tgt.lang:
            raise ValueError(
                f"tgt.lang must be another one than data.src.lang, got {self.tgt.lang!r} for both; "
                "the two sides would be the same file"
            )
        return self
