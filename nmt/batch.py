"""Translating columns of tables, batch by batch, in the workers of another engine.

from nmt.batch import BatchTranslator
dataset.map_batches(BatchTranslator("runs/de-en", column="text", threads=1), batch_format="pandas", concurrency=2)

Ray's `map_batches`, Spark's `mapInPandas`, Dask's `map_partitions` and the `map` of Hugging Face's datasets all take
such a callable; none of them is needed here. See docs/many-machines.md.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from nmt.errors import ConfigError, DataError
from nmt.system.paths import named

if TYPE_CHECKING:
    from nmt.inference.pivot import Pivot
    from nmt.inference.translator import Translator
    from nmt.search_settings import SearchSettings

ERRORS_SUFFIX, SCORES_SUFFIX = "_error", "_score"

_CHUNK_BATCHES = 32
"""Batches translated at a time: enough to put lines of like lengths together, and little memory."""
_loaded: dict[tuple[Any, ...], Translator] = {}
"""Models of this process, by what they were loaded with: an engine unpickles a callable for every task."""
_loading = threading.Lock()


@dataclass(frozen=True)
class Rows:
    """Results of rows, one entry each: an error is empty where there is none, and the translation where there is
    one."""

    texts: list[str]
    scores: list[float]
    errors: list[str]


def translate_rows(
    translator: Translator | Pivot,
    values: Iterable[Any],
    *,
    shortlist: bool = False,
    **settings: Unpack[SearchSettings],
) -> Rows:
    """Translate a column. A value that is not text is an error of its row alone.

    Args:
        translator: The model.
        values: Texts; None, NaN and values of other types are errors.
        shortlist, settings: See `Translator.translate_nbest`.

    Raises:
        ConfigError: A setting is not possible.
    """
    given = list(values)
    found = Rows([""] * len(given), [0.0] * len(given), [_mistake(value, translator) for value in given])
    there = [index for index, error in enumerate(found.errors) if not error]
    step = _CHUNK_BATCHES * (settings.get("batch_size") or translator.config.decoding.batch_size)
    for first in range(0, len(there), step):
        chunk = there[first : first + step]
        best = translator.translate_nbest([given[i] for i in chunk], n_best=1, shortlist=shortlist, **settings)
        for index, ranked in zip(chunk, best, strict=True):
            found.texts[index], found.scores[index] = ranked[0].text, ranked[0].score
    return found


class BatchTranslator:
    """A callable from a batch of columns to the same batch with the translations of one of them.

    A batch is a dict of columns (lists or NumPy arrays), a pandas DataFrame, a pyarrow Table, or an iterator over such;
    what comes back is of the same kind. Other columns pass through. It is pickled as its arguments: the model is loaded
    once in a process, when the first batch comes, and mapped into memory, so that workers on a machine share one copy.

    Args:
        model: Folder of nmt-train or file of nmt-bundle, at the same path for every worker.
        column: The column of texts.
        output: The new column of translations.
        errors: The new column that says what is wrong with a row, empty where nothing is; None is `output` with
            `_error`. The translation of such a row is empty.
        scores: A new column of scores (see `Translation.score`), if any.
        threads: Cores for each worker; None takes the configured number, or all. Give 1 where an engine runs a worker
            on every core.
        checkpoint, compute_dtype, device, cells: See `Translator.load`.
        shortlist, settings: See `Translator.translate_nbest`.

    Raises:
        ConfigError: Two columns have one name, or a setting is not what configs/reference.yaml allows.
        TypeError: There is no such setting.
    """

    def __init__(
        self,
        model: str | Path,
        column: str = "text",
        output: str = "translation",
        *,
        errors: str | None = None,
        scores: str | None = None,
        threads: int | None = None,
        checkpoint: str | None = None,
        compute_dtype: str | None = None,
        device: str | None = None,
        cells: Sequence[str] = (),
        shortlist: bool = False,
        **settings: Unpack[SearchSettings],
    ) -> None:
        from nmt.config import DecodingConfig
        from nmt.inference.loading import check_loading
        from nmt.inference.translation import chosen_settings

        self.model, self.column, self.output = os.path.abspath(named(model, "model")), column, output
        self.errors, self.scores = errors or output + ERRORS_SUFFIX, scores
        names = [column, output, self.errors, *([scores] if scores else [])]
        if len(set(names)) < len(names):
            raise ConfigError(f"BatchTranslator: columns must have different names, got {', '.join(names)}")
        check_loading(threads, checkpoint, compute_dtype, device)
        chosen_settings(DecodingConfig(), settings)  # what is wrong shows here, and not in a worker
        self.shortlist, self.settings = shortlist, settings
        self._kind = {
            "threads": threads,
            "checkpoint": checkpoint,
            "compute_dtype": compute_dtype,
            "device": device,
            "cells": tuple(cells),
        }

    def __repr__(self) -> str:
        """Return what it makes of what, with which model."""
        return f"BatchTranslator({self.model!r}, {self.column!r} -> {self.output!r})"

    def __call__(self, batch: Any) -> Any:
        """Return the batch with translations. Raises DataError: It has no such column, or has one of the new ones;
        CheckpointError: the model cannot be loaded."""
        if isinstance(batch, Iterator):
            return map(self, batch)
        names = _names(batch)
        if self.column not in names:
            raise DataError(
                f"BatchTranslator: a batch must have the column {self.column}, got "
                f"{', '.join(map(str, names)) or 'none'}; name another one with column="
            )
        new = [name for name in (self.output, self.errors, self.scores) if name in names]
        if new:
            raise DataError(
                f"BatchTranslator: a batch must not have the column {new[0]} already, got one; name the new one "
                "otherwise"
            )
        values = batch[self.column]
        values = list(values.to_pylist() if hasattr(values, "to_pylist") else values)
        rows = Rows([], [], [])
        if values:  # an engine that asks for the columns gives a batch without rows: no model for that
            rows = translate_rows(self.translator(), values, shortlist=self.shortlist, **self.settings)
        texts = {self.output: rows.texts, self.errors: rows.errors}
        return _with_columns(batch, texts, {self.scores: rows.scores} if self.scores else {})

    def translator(self) -> Translator:
        """Return the model, loaded by the first who asks in this process."""
        from nmt.inference.translator import Translator

        key = (os.getpid(), self.model, *self._kind.values())
        with _loading:
            if key not in _loaded:
                _loaded[key] = Translator.load(self.model, **self._kind)  # type: ignore[arg-type] # by their names
            return _loaded[key]


def _mistake(value: Any, translator: Translator | Pivot) -> str:
    """Return what is wrong with the value of a row, nothing where it is a text that the model can read."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            return f"must be text, got half of a surrogate pair, U+{ord(value[error.start]):04X}"
        from nmt.inference.pipeline import mistake_in

        return mistake_in(translator, value)
    if value is None or value != value:  # NaN, as pandas has it for nothing
        return "must be text, got nothing"
    return f"must be text, got {type(value).__name__}"


def _names(batch: Any) -> list[Any]:
    """Return the names of a batch's columns. Raises TypeError: It is none of the kinds of batches."""
    if isinstance(batch, Mapping):
        return list(batch)
    if hasattr(batch, "column_names"):
        return list(batch.column_names)
    if hasattr(batch, "columns") and hasattr(batch, "assign"):
        return list(batch.columns)
    raise TypeError(
        "BatchTranslator: a batch must be a dict of columns, a DataFrame or a pyarrow Table, got "
        f"{type(batch).__name__}"
    )


def _with_columns(batch: Any, texts: Mapping[str, list[str]], numbers: Mapping[str, list[float]]) -> Any:
    """Return a batch of the same kind with further columns."""
    columns: list[tuple[str, list[Any], str]] = [(name, values, "object") for name, values in texts.items()]
    columns += [(name, values, "float64") for name, values in numbers.items()]
    if isinstance(batch, Mapping):
        import numpy as np

        as_arrays = all(isinstance(column, np.ndarray) for column in batch.values())
        return {**batch, **{name: np.array(values, kind) if as_arrays else values for name, values, kind in columns}}
    if hasattr(batch, "append_column"):
        import pyarrow

        for name, values, kind in columns:
            field = pyarrow.float64() if kind == "float64" else pyarrow.string()
            batch = batch.append_column(name, pyarrow.array(values, field))
        return batch
    import pandas

    return batch.assign(**{name: pandas.Series(values, batch.index, dtype=kind) for name, values, kind in columns})
