"""nmt.batch: a column of a batch is translated, in whatever kind of batch an engine has."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from nmt import Translator, batch
from nmt.batch import BatchTranslator, translate_rows
from nmt.errors import CheckpointError, ConfigError, DataError
from tests.saved_models import sentences, write_folder

TEXTS = [*sentences(3), "", *sentences(1, seed=3)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("batch") / "model")


@pytest.fixture(scope="module")
def expected(model):
    return Translator.load(model, threads=1).translate(TEXTS)


def test_a_dict_of_lists_and_of_arrays(model, expected):
    translate = BatchTranslator(model, threads=1, scores="score")
    given = {"id": [1, 2, 3, 4, 5], "text": TEXTS}
    found = translate(given)
    assert list(found) == ["id", "text", "translation", "translation_error", "score"] and "translation" not in given
    assert found["translation"] == expected and found["translation_error"] == [""] * 5
    arrays = translate({name: np.array(column) for name, column in given.items()})
    assert arrays["translation"].tolist() == expected and arrays["score"].dtype == np.float64
    assert arrays["score"].tolist() == found["score"]


def test_rows_that_are_no_text_are_told_of_and_the_others_translated(model, expected):
    found = BatchTranslator(model, threads=1)({"text": [TEXTS[0], None, 7, float("nan"), TEXTS[2]]})
    assert found["translation"] == [expected[0], "", "", "", expected[2]]
    nothing = "must be text, got nothing"
    assert found["translation_error"] == ["", nothing, "must be text, got int", nothing, ""]


def test_data_frames_and_iterators_over_them(model, expected):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "id": range(5)}, index=[9, 8, 7, 6, 5])
    translate = BatchTranslator(model, threads=1)
    found = translate(frame)
    assert found["translation"].tolist() == expected and found.index.tolist() == [9, 8, 7, 6, 5]
    assert [one["translation"].tolist() for one in translate(iter([frame, frame]))] == [expected, expected]
    assert list(translate(frame.iloc[:0]).columns) == ["text", "id", "translation", "translation_error"]


def test_arrow_tables(model, expected):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": [*TEXTS, None], "id": range(6)})
    found = BatchTranslator(model, threads=1, scores="score")(table)
    assert found["translation"].to_pylist() == [*expected, ""] and found["id"].to_pylist() == list(range(6))
    empty = BatchTranslator(model, threads=1, scores="score")(table.slice(0, 0))
    assert empty.schema == found.schema


def test_it_is_pickled_as_its_arguments_and_loads_once_in_a_process(model, expected, monkeypatch):
    translate = BatchTranslator(model, threads=1, beam_size=2)
    translate({"text": TEXTS})
    copy = pickle.dumps(translate)
    assert len(copy) < 2000
    monkeypatch.setattr(Translator, "load", None)
    assert pickle.loads(copy).translator() is translate.translator()  # noqa: S301 - our own


def test_an_engine_that_asks_for_columns_loads_no_model(tmp_path):
    found = BatchTranslator(tmp_path / "none", threads=1)({"text": []})
    assert found == {"text": [], "translation": [], "translation_error": []}
    with pytest.raises(CheckpointError, match="none"):
        BatchTranslator(tmp_path / "none", threads=1)({"text": ["a"]})


def test_mistakes_show_where_they_are_made(model):
    with pytest.raises(DataError, match="must have the column text, got line"):
        BatchTranslator(model)({"line": ["a"]})
    with pytest.raises(DataError, match="must not have the column translation already"):
        BatchTranslator(model)({"text": ["a"], "translation": ["b"]})
    with pytest.raises(ConfigError, match="different names, got text, text"):
        BatchTranslator(model, output="text")
    with pytest.raises(ConfigError, match="beam_size"):
        BatchTranslator(model, beam_size=0)
    with pytest.raises(TypeError, match="did you mean beam_size"):
        BatchTranslator(model, beamsize=3)
    with pytest.raises(TypeError, match="a batch must be a dict of columns, .* got list"):
        BatchTranslator(model)(["a"])


def test_many_rows_are_translated_a_piece_at_a_time(model, expected, monkeypatch):
    monkeypatch.setattr(batch, "_CHUNK_BATCHES", 1)
    rows = translate_rows(Translator.load(model, threads=1), TEXTS * 3, batch_size=2)
    assert rows.texts == expected * 3


def test_importing_it_imports_nothing_heavy():
    code = "import sys, nmt.batch; print([m for m in ('numpy', 'numba', 'pandas', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
