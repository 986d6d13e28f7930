import json
from argparse import Namespace
from pathlib import Path

import pytest

from nmt.config import load_config
from nmt.config.model_section import RNN_TYPES
from nmt.model.parts.cells import recurrent_cell
from nmt.model.parts.own_cells import import_cell


@pytest.mark.parametrize("cell", [*RNN_TYPES, "conv_s2s"])
def test_every_cell_has_a_recipe_that_differs_in_the_cell_alone(cell: str, tmp_path: Path) -> None:
    from cells import settings

    args = Namespace(work=tmp_path, data=tmp_path, threads=1, dtype="float32")
    model = load_config(*settings(cell, args)).to_dict()["model"]
    assert model["encoder"]["type"] == ("conv" if cell == "conv_s2s" else "recurrent")
    if cell != "conv_s2s":
        lstm = load_config(*settings("lstm", args)).to_dict()["model"]
        for side in ("encoder", "decoder"):
            assert model[side]["rnn_type"] == cell
            lstm[side]["rnn_type"] = cell
        assert model == lstm


@pytest.mark.parametrize("name", ["zoneout_lstm", "drop_connect_lstm", "recurrent_dropout_lstm"])
def test_an_lstm_with_noise_has_the_parameters_and_states_of_one_without(name: str, tmp_path: Path) -> None:
    from cells import settings

    model = load_config(*settings(name, Namespace(work=tmp_path, data=tmp_path, threads=1, dtype="float32"))).model
    for path in {model.encoder.rnn_type, model.decoder.rnn_type}:
        import_cell(path)
        cell, lstm = recurrent_cell(path, 5, 7), recurrent_cell("lstm", 5, 7)
        assert {n: p.shape for n, p in cell.params().items()} == {n: p.shape for n, p in lstm.params().items()}
        assert cell.states() == lstm.states() and type(cell) is not type(lstm)


def test_the_table_has_the_best_first_and_leaves_speeds_alone(tmp_path: Path) -> None:
    from cells import table

    machine = {"threads": 1, "cpu": "some CPU"}
    for cell, bleu in {"gru": 30.25, "lstm": 31.0}.items():
        row = {"tokens_per_second": 1234.5, "seconds_per_update": 1.5, "parameters": 7_246_656}
        (tmp_path / f"{cell}.speed.json").write_text(json.dumps(row))
        row |= {"updates": 400, "bleu": bleu, "signature": "sig", "minutes": 10.0, "dtype": "float32"}
        (tmp_path / f"{cell}.json").write_text(json.dumps(row | {"machine": machine}))
    (tmp_path / "sru.speed.json").write_text("{}")  # timed, not yet trained
    lines = table(tmp_path).splitlines()
    assert lines[2:4] == ["| lstm | 31.0 | 1,234 | 400 | 7.2 M |", "| gru | 30.2 | 1,234 | 400 | 7.2 M |"]
    assert "10 minutes, float32, 1 thread(s), some CPU" in lines


def test_a_table_of_nothing_is_said(tmp_path: Path) -> None:
    from cells import table

    with pytest.raises(SystemExit, match="got none"):
        table(tmp_path)
