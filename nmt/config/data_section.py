"""The `data` section: files, cleaning and subwords."""

from dataclasses import dataclass
from os.path import expanduser
from pathlib import PurePath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from nmt.config.section import FilePath, PositiveInt, Section, Text, WholeOrAuto


@dataclass(frozen=True)
class TextOr:
    """Annotation for a type that is either `other` or non-empty text. It is a single validator, because pydantic would
    report an error once for each alternative of a union and name the alternatives in its path."""

    other: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            lambda value, inner: value if isinstance(value, str) and value else inner(value),
            handler.generate_schema(self.other),
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: [corpus.to_dict() for corpus in value] if isinstance(value, tuple) else value
            ),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(schema)]}


Column = Annotated[int | str, TextOr(PositiveInt)]

UNNAMED = {"src": "source", "tgt": "target"}
"""The codes of languages that neither options nor files name, with names for people; ISO 639-3 gives these codes to
languages of Sardinia and Palawan."""


class CorpusConfig(Section):
    """One corpus of several."""

    path: FilePath
    """Prefix of two files with one sentence per line, as data.train by itself; or a table with one pair per row: a file
    that ends in .tsv, .csv, .xlsx or .ods (extra [tables]), .jsonl or .parquet (extra [parquet]), .tmx, .lift,
    .flextext or .sfm. Text may be compressed, .gz or .zst (extra [zstd]). A pattern such as parts/*.tsv.gz matches
    several files, in the order of their names."""
    tgt_path: FilePath | None = None
    """File of the target sentences, if the two files have no common prefix: path is then the file of the source
    sentences. Two files in USFM (.sfm, .usfm) are paired by verse."""
    src_column: Column | None = None
    """Column of the source in a table: a number from 1, or a name: a heading, a key (a.b for a nested key), or a field
    such as lx or gloss:en. null: the one that the headings, or else the texts, tell; the first if nothing does; in
    .jsonl and .parquet the language code, or translation.CODE."""
    tgt_column: Column | None = None
    """Column of the target; null: as for the source, the second if nothing tells another."""
    header: bool | None = None
    """Whether the first filled row of a table of cells has headings, and is skipped with all above it. null: if its
    words tell so, which is reported."""
    sheet: Text | None = None
    """Sheet of .xlsx or .ods; null: the only one with cells."""
    features_column: PositiveInt | None = None
    """Column of a .tsv with features of the source word, such as V;PST: each becomes one symbol after the word's
    letters, `walk +V +PST`. When translating, write the word, a tab, and its features."""
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """How often each of its pairs is used in an epoch: 2 for twice, 0.25 for a quarter of the pairs in each of four
    epochs."""
    tag: Text | None = None
    """A word without spaces, such as <2en>, that is put before each source sentence of this corpus. New subwords keep
    it in one piece. When translating, write it before the sentence."""

    def _check_corpus(self) -> None:
        """Raise ValueError if a tag is not a single word, or settings of a table are given for two files."""
        if self.tag is not None and len(self.tag.split()) != 1:
            raise ValueError(f"tag must be one word without spaces, got {self.tag!r}")
        if self.tgt_path is not None and (self.src_column is not None or self.tgt_column is not None):
            raise ValueError(
                "tgt_path is for two files with one sentence per line, src_column and tgt_column for a table"
            )
        if self.features_column is not None and ".tsv" not in PurePath(self.path).suffixes[-2:]:
            raise ValueError(
                f"features_column must be null for all but .tsv, got {self.features_column} of {self.path}"
            )


_Several = Annotated[tuple[CorpusConfig, ...], Field(strict=False)]
Corpora = Annotated[
    str | tuple[CorpusConfig, ...],
    TextOr(_Several),
    AfterValidator(lambda value: expanduser(value) if isinstance(value, str) else value),
]
"""The prefix of two files, or a list of corpora."""


VocabSize = Annotated[int | Literal["auto"], WholeOrAuto(5, 1_000_000)]


class SideConfig(Section):
    """One language of the pair."""

    lang: Text
    """Language code: the files of this side are PREFIX.LANG or PREFIX.LANG.gz."""
    max_length: PositiveInt = 100
    """Longest sentence in training, in subwords. A training pair with a longer side is skipped and counted. Does not
    apply to validation or to translation."""
    lowercase: bool = False
    """Lower-case the text, except for Cherokee, alike in all languages: I becomes i in Turkish, too. On the target side
    translations come out lower-cased."""
    normalize: Literal["none", "nfc", "nfkc", "pieces"] = "nfc"
    """Unicode normalisation. nfc composes letters and accents and is lossless to readers; nfkc also turns ligatures and
    full-width forms into plain letters. none and pieces change nothing. With pieces sentencepiece's sign for a space is
    ordinary text, for imported models whose text is already tokenized."""


class SubwordsConfig(Section):
    """Tokenization into subwords and the vocabulary (sentencepiece)."""

    type: Literal["auto", "unigram", "bpe", "char", "word"] = "auto"
    """Kind of subwords. auto is unigram, or bpe if a small text does not contain as many unigram pieces as vocab_size.
    word takes space-separated words unchanged."""
    vocab_size: VocabSize = "auto"
    """Size of the vocabulary, including the four special tokens (padding, unknown, begin, end). Exact for unigram and
    bpe; a maximum for char and word. auto depends on the running words of the training text (of both languages with
    joint: true): 1000 subwords, from 100,000 words on 2000, from 250,000 4000, from 500,000 8000, from 4 million 16000,
    from 40 million 32000. It takes fewer if the text does not contain so many, more if it has many characters; with
    char and word all of them."""
    joint: bool = True
    """One vocabulary for both languages (true) or one for each (false)."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = 1.0
    """Share of the characters of the training text that are in the vocabulary. 0.9995 for scripts of thousands of
    characters; the rest become unknown."""
    model_file: FilePath | None = None
    """A sentencepiece model, or a .spm file of a model folder, to use as it is, for both languages (needs joint: true):
    none is trained then, and type, vocab_size and character_coverage have no effect."""
    src_model_file: FilePath | None = None
    """As model_file, for the source language alone (needs joint: false)."""
    tgt_model_file: FilePath | None = None
    """As model_file, for the target language alone (needs joint: false)."""

    def _check_files(self) -> None:
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


class FilterConfig(Section):
    """Rules by which training pairs are removed; the number for each rule is printed. Not for validation and test."""

    duplicates: bool = False
    """Of equal pairs keep the first."""
    same: bool = False
    """Remove pairs whose two sides are equal."""
    max_length_ratio: Annotated[float, Field(gt=1, le=1000)] | None = None
    """Remove pairs of which one side has more than this many times the characters expected from the other, by the ratio
    of the sides in the first 16,384 pairs. Pairs of less than 20 characters are kept."""
    markup: bool = False
    """Remove pairs with tags or entities of HTML or XML."""
    encoding: bool = False
    """Remove pairs with characters broken by a wrong encoding: U+FFFD, or UTF-8 read as Latin-1."""
    control: bool = False
    """Remove pairs with control characters other than tabs."""
    script: bool = False
    """Remove pairs of which a side has more than half of its letters in another script than the first 16,384 lines of
    its text."""
    overlap: Literal["none", "exact", "near"] = "none"
    """Remove pairs whose source is a source of data.dev or data.test: identical (exact), or also equal except for case,
    punctuation and spaces, or with a Jaccard similarity of four-letter substrings of 0.8 (near)."""

    @property
    def is_on(self) -> bool:
        """Return whether any rule is set."""
        return self != FilterConfig()


class DataConfig(Section):
    """Texts. Paths are relative to the current folder."""

    train: Corpora = Field(examples=["data/train"])
    """Prefix of the training files: data/train for data/train.de and data/train.en, or the same with .gz or .zst. One
    sentence per line; line n of one file translates line n of the other. Or a list of corpora, each with its path,
    format, weight and tag (docs/data.md)."""
    dev: Corpora = Field(examples=["data/dev"])
    """Prefix of the validation files, which determine the best checkpoint; or corpora, as in train."""
    test: Corpora | None = None
    """Test text, as in dev; scored once at the end of training."""
    src: SideConfig = Field(examples=[{"lang": "de"}])
    """The language to translate from."""
    tgt: SideConfig = Field(examples=[{"lang": "en"}])
    """The language to translate into."""
    src_factors: tuple[Text, ...] = Field(default=(), strict=False)
    """Names of the factors that follow each source word, such as [pos, number] for house|NOUN|sg, in the whole corpus
    and in the input of translation (Sennrich & Haddow 2016). model.encoder.factors has the sizes of their vectors."""
    factor_separator: Text = "|"
    """Separator before each factor."""
    subwords: SubwordsConfig = Field(default_factory=SubwordsConfig)
    """Tokenization into subwords."""
    check: bool = True
    """Check the corpora before the first update: an unusable one is an error; possible problems are printed once and
    written to data_check.json in model_dir. Only the first million lines of the training text are checked, which takes
    half a minute; nmt-train --check-data checks all."""
    filter: FilterConfig = Field(default_factory=FilterConfig)
    """Rules by which training pairs are removed."""

    @property
    def held_out(self) -> list[str | tuple[CorpusConfig, ...]]:
        """Return the texts of dev and test that are set."""
        return [corpora for corpora in (self.dev, self.test) if corpora is not None]

    @property
    def features_columns(self) -> tuple[int, int] | None:
        """Return the columns, from 1, of source words and of their features; None if words have no features."""
        for one in self.train if isinstance(self.train, tuple) else ():
            if one.features_column is not None:
                return (one.src_column if isinstance(one.src_column, int) else 1), one.features_column
        return None

    def _check_texts(self) -> None:
        """Raise ValueError if a list of corpora is empty, a validation or test corpus has a weight, or both sides have
        the same language, and so the same file."""
        for key in ("train", "dev", "test"):
            if getattr(self, key) == ():
                raise ValueError(f"{key} must contain at least one corpus, got an empty list")
        for key in ("dev", "test"):
            for number, corpus in enumerate(value if isinstance(value := getattr(self, key), tuple) else ()):
                if corpus.weight != 1:
                    raise ValueError(
                        f"{key}[{number}].weight must be 1, got {corpus.weight:g}; only data.train has weights"
                    )
        if self.src.lang == self.tgt.lang:
            raise ValueError(
                f"tgt.lang must be another one than data.src.lang, got {self.tgt.lang!r} for both; "
                "the two sides would be the same file"
            )
