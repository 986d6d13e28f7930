"""Cells by their names in the settings and by dotted path."""

import pytest

from nmt.config.model_section import RNN_TYPES
from nmt.errors import ConfigError
from nmt.model.parts import cells
from nmt.model.translation import TranslationModel
from nmt.rnn import Cell, LSTMCell
from nmt.rnn.cells.by_name import CELLS_BY_NAME
from nmt.rnn.scan.layered import LayeredScan
from tests import small_models
from tests.refusals import refused


@pytest.mark.parametrize("name", RNN_TYPES)
def test_every_name_makes_a_cell_and_a_model(name):
    cell = cells.recurrent_cell(name, 5, 7)
    assert isinstance(cell, Cell) and (cell.input_size, cell.output_size) == (5, 7)
    side = {"rnn_type": name, "num_layers": 2, "residual": True}
    model = TranslationModel(small_models.model_settings(encoder=side, decoder=side), 9, 9)
    model.initialize(0)
    assert set(model.bridge.routes) == {f"{layer}.{state}" for layer in range(2) for state in cell.starts()}
    gains = {k: v for k, v in model.params.items() if "gain_" in k}
    assert bool(gains) == ("layer_norm" in name) and all((v == 1).all() for v in gains.values())


def test_names_of_the_settings_are_those_of_the_model():
    assert set(RNN_TYPES) == set(CELLS_BY_NAME)


def test_an_encoder_of_other_states_hands_over_what_it_has():
    settings = small_models.model_settings(encoder={"rnn_type": "ssru"}, decoder={"rnn_type": "slstm"})
    assert TranslationModel(settings, 9, 9).bridge.routes == {"0.h": (0, "c")}
    settings = small_models.model_settings(encoder={"rnn_type": "convolution"})
    assert TranslationModel(settings, 9, 9).bridge.params() == {}


def test_states_of_other_sizes_cannot_be_handed_over_as_they_are():
    changes = {"encoder": {"rnn_type": "projected_lstm"}, "decoder": {"init_hidden": "last"}}
    with pytest.raises(ConfigError, match="the encoder's c has 12 numbers and the decoder's c 6, got last"):
        TranslationModel(small_models.model_settings(**changes), 9, 9)


def test_a_misspelt_name_is_told_the_nearest():
    for side, name, end in (("encoder", "layernorm_lstm", "did you mean layer_norm_lstm"), ("decoder", 3, "got 3")):
        line = f"model.{side}.rnn_type must be the name of a cell, or a dotted path .*{end}"
        refused(ConfigError, line, small_models.model_settings, **{side: {"rnn_type": name}})


def test_a_disturbed_recurrence_changes_training_alone():
    """Zoneout's expectation stays afterwards; the parameters are the same ones."""
    batch = small_models.batch_of([([4, 5, 6], [5, 6, 7, 8]), ([7, 8], [6])])
    changes = {"encoder": {"hidden_size": 16, "zoneout": 0.4}, "decoder": {"hidden_size": 16, "zoneout": 0.4}}
    plain = {side: {"hidden_size": 16} for side in changes}
    disturbed, model = small_models.build(9, **changes), small_models.build(9, **plain)
    assert disturbed.params.keys() == model.params.keys()
    losses = [
        one.loss_and_gradients(batch, seed=seed, threads=1)[0].nll for one in (disturbed, model) for seed in (1, 2)
    ]
    assert losses[0] != losses[1], "drawn anew"
    assert losses[2] == losses[3] != losses[0]
    assert disturbed.loss(batch, 1).nll != model.loss(batch, 1).nll


def test_a_projection_may_be_wider_than_what_it_reads():
    for attention in ("bahdanau", "general", "multi_head"):
        model = small_models.build(9, encoder={"projection": 16}, decoder={"attention": attention})
        assert model.params["decoder.W_m"].shape == (6, 16)
    small_models.build(9, encoder={"projection": 12}, decoder={"attention": "dot", "hidden_size": 12})
    with pytest.raises(ConfigError, match="encoder.projection must be null with decoder.type: conv, got 8"):
        small_models.model_settings(
            encoder={"projection": 8},
            decoder={"type": "conv", "rnn_type": "lstm", "input_feeding": True, "attention": "general"},
        )


def test_seeds_of_layers_are_their_own():
    """Below 32 layers they are those of former versions."""
    scan = LayeredScan([LSTMCell(2, 2)], directions=("forward", "reverse"))
    seeds = {(s, n, d): scan._seed(s, n, d) for s in range(40) for n in range(200) for d in range(2)}
    assert len(set(seeds.values())) == len(seeds)
    assert all(seed == s * 64 + n * 2 + d for (s, n, d), seed in seeds.items() if n < 32)
