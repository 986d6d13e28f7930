"""The location of texts: the prefix of two files, or several corpora with formats, weights and tags."""

from dataclasses import dataclass
from os.path import expanduser
from pathlib import PurePath
from typing import Annotated, Any

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from nmt.config.section import FilePath, PositiveInt, Section, Text


@dataclass(frozen=True)
class TextOr:
    """Annotation for a type that is either `other` or non-empty text. It is a single validator, because pydantic would
    report an error once for each alternative of a union and name the alternatives in its path."""

    other: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the validation schema for pydantic."""
        return core_schema.no_info_wrap_validator_function(
            lambda value, inner: value if isinstance(value, str) and value else inner(value),
            handler.generate_schema(self.other),
            serialization=core_schema.plain_serializer_function_ser_schema(_plain),
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema for pydantic."""
        return {"anyOf": [{"type": "string", "minLength": 1}, handler(schema)]}


def _plain(value: Any) -> Any:
    """Return a value of such a setting in the form of JSON."""
    return [corpus.to_dict() for corpus in value] if isinstance(value, tuple) else value


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

    @model_validator(mode="after")
    def _check_tag(self) -> "CorpusConfig":
        """Raise ValueError if a tag is not a single word."""
        if self.tag is not None and len(self.tag.split()) != 1:
            raise ValueError(f"tag must be one word without spaces, got {self.tag!r}")
        return self

    @model_validator(mode="after")
    def _check_files(self) -> "CorpusConfig":
        """Raise ValueError if settings of a table are given for two files."""
        if self.tgt_path is not None and (self.src_column is not None or self.tgt_column is not None):
            raise ValueError(
                "tgt_path is for two files with one sentence per line, src_column and tgt_column for a table"
            )
        if self.features_column is not None and ".tsv" not in PurePath(self.path).suffixes[-2:]:
            raise ValueError(
                f"features_column must be null for all but .tsv, got {self.features_column} of {self.path}"
            )
        return self


_Several = Annotated[tuple[CorpusConfig, ...], Field(strict=False)]
Corpora = Annotated[
    str | tuple[CorpusConfig, ...],
    TextOr(_Several),
    AfterValidator(lambda value: expanduser(value) if isinstance(value, str) else value),
]
"""The prefix of two files, or a list of corpora."""
