"""Cells by their names in the settings and by dotted path."""

import pytest

from nmt.config.model_section import RNN_TYPES
from nmt.errors import ConfigError
from nmt.model import TranslationModel, cells
from nmt.rnn import Cell
from tests import small_models


@pytest.mark.parametrize("name", RNN_TYPES)
def test_every_name_makes_a_cell_and_a_model(name):
    cell = cells.recurrent_cell(name, 5, 7)
    assert isinstance(cell, Cell) and (cell.input_size, cell.output_size) == (5, 7)
    side = {"rnn_type": name, "num_layers": 2, "residual": True}
    model = TranslationModel(small_models.model_settings(encoder=side, decoder=side), 9, 9, True)
    model.initialize(0)
    starts = {f"{layer}.{state}" for layer in range(2) for state in cell.starts()}
    assert set(model.bridge.routes) == starts
    gains = {k: v for k, v in model.params.items() if "gain_" in k}
    assert bool(gains) == ("layer_norm" in name) and all((v == 1).all() for v in gains.values())


def test_names_of_the_settings_are_those_of_the_model():
    assert set(RNN_TYPES) == set(cells._CELLS)


def test_an_encoder_of_other_states_hands_over_what_it_has():
    settings = small_models.model_settings(encoder={"rnn_type": "ssru"}, decoder={"rnn_type": "slstm"})
    assert TranslationModel(settings, 9, 9, True).bridge.routes == {"0.h": (0, "c")}
    settings = small_models.model_settings(encoder={"rnn_type": "convolution"})
    assert TranslationModel(settings, 9, 9, True).bridge.params() == {}


def test_states_of_other_sizes_cannot_be_handed_over_as_they_are():
    changes = {"encoder": {"rnn_type": "projected_lstm"}, "decoder": {"init_hidden": "last"}}
    with pytest.raises(ConfigError, match="the encoder's c has 12 numbers and the decoder's c 6, got last"):
        TranslationModel(small_models.model_settings(**changes), 9, 9, True)


OWN = """
from nmt.rnn import LSTMCell

class Own(LSTMCell):
    pass

def twice(input_size, hidden_size):
    return LSTMCell(input_size, 2 * hidden_size)

def nothing(input_size, hidden_size):
    return None

NUMBER = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current folder with a file of cells."""
    (tmp_path / "cells_of_mine.py").write_text(OWN)
    (tmp_path / "broken_cells.py").write_text("def step(:\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dotted_path_is_looked_up_in_the_current_folder(folder):
    assert type(cells.recurrent_cell("cells_of_mine.Own", 3, 4)).__name__ == "Own"
    assert type(cells.recurrent_cell("nmt.rnn.cells.sru.SRUCell", 3, 4)).__name__ == "SRUCell"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_module.Cell", "No module named 'no_such_module'"),
        ("cells_of_mine.Missing", "has no attribute 'Missing'"),
        ("broken_cells.Cell", "invalid syntax"),
        ("cells_of_mine.NUMBER", "must be a cell's class or a function, got int"),
        ("cells_of_mine.nothing", "must make a Cell, got NoneType"),
        ("cells_of_mine.twice", "of input_size 3 and output_size 4, got 3 and 8"),
    ],
)
def test_a_path_to_no_cell_is_one_line(folder, path, words):
    with pytest.raises(ConfigError, match=words) as caught:
        cells.recurrent_cell(path, 3, 4)
    assert str(caught.value).startswith(f"rnn_type: {path} must") and "\n" not in str(caught.value)


def test_a_misspelt_name_is_told_the_nearest():
    with pytest.raises(ConfigError, match="model.encoder.rnn_type must be one of .* did you mean layer_norm_lstm"):
        small_models.model_settings(encoder={"rnn_type": "layernorm_lstm"})
    with pytest.raises(ConfigError, match="model.decoder.rnn_type must be one of lstm, .* or text, got 3"):
        small_models.model_settings(decoder={"rnn_type": 3})
