"""Settings to start from by name."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nmt.cli.commands.train import train
from nmt.config import config_from_dict, dump_config, load_config
from nmt.config.presets import NAMES, over_preset, preset_values, settings_of_preset
from nmt.errors import ConfigError

TEXTS: dict[str, Any] = {
    "model_dir": "unused",
    "data": {"train": "unused", "dev": "unused", "src": {"lang": "de"}, "tgt": {"lang": "en"}},
}


def leaves(values: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Values by dotted key."""
    found = {}
    for key, value in values.items():
        found |= leaves(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_texts_and_a_preset_are_a_configuration(name: str, tmp_path: Path) -> None:
    config = config_from_dict({**TEXTS, "preset": name})
    values = leaves(config.to_dict())
    for key, value in leaves(preset_values(name)).items():
        assert values[key] == value, key
    plain = leaves(config_from_dict(TEXTS).to_dict())
    assert sum(plain[key] != value for key, value in values.items()) > 5
    saved = tmp_path / "config.yaml"
    saved.write_text(dump_config(config))
    assert load_config(saved) == config, "a model's own file says all, and its preset nothing more"


def test_what_a_file_says_stands_above_it(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(
        "model_dir: unused\npreset: captions\n"
        "data: {train: a, dev: b, src: {lang: de}, tgt: {lang: en}}\n"
        "model: {encoder: {embeddings: {dropout: 0.4}}}\n"
        "training: {updates: 70}\n"
    )
    config = load_config(file, ["training.batch_size=300"])
    lines = settings_of_preset("captions", config.to_dict())
    encoder, training = config.model.encoder, config.training
    assert (encoder.embeddings.dropout, encoder.embeddings.embedding_dim) == (0.4, 384)
    assert (training.updates, training.batch_size, training.learning_rate) == (70, 300, 0.002)
    assert [line.split(": ")[:2] for line in lines] == [
        ["preset captions", section] for section in ("data", "model", "training", "decoding")
    ]
    said = " ".join(lines)
    assert "decoder.embeddings.dropout 0.2" in said
    assert not any(key in said for key in ("encoder.embeddings.dropout 0.4", "updates auto", "batch_size", " 70"))
    assert "encoder.embeddings.dropout" not in said


def test_merging() -> None:
    preset = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert over_preset({"a": {"c": {"f": 4}}, "e": None}, preset) == {"a": {"b": 1, "c": {"d": 2, "f": 4}}, "e": None}
    assert over_preset({"a": 5}, preset) == {"a": 5, "e": 3}
    assert preset == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


def test_an_unknown_one_is_a_line() -> None:
    with pytest.raises(ConfigError, match=r"config: preset must be one of tiny, .*, got 'caption'; did you mean capt"):
        config_from_dict({**TEXTS, "preset": "caption"})


def test_the_command_shows_all_settings_and_trains_nothing(tmp_path: Path) -> None:
    file, folder = tmp_path / "own.yaml", tmp_path / "model"
    file.write_text(f"model_dir: {folder}\ndata: {{train: a, dev: b, src: {{lang: de}}, tgt: {{lang: en}}}}\n")
    done = CliRunner().invoke(train, [str(file), "--preset", "tiny", "--show-config", "--seed", "7"])
    assert done.exit_code == 0, done.output
    shown = tmp_path / "shown.yaml"
    shown.write_text(done.stdout)
    assert load_config(shown) == load_config(file, ["preset=tiny", "seed=7"])
    assert "preset tiny:" not in done.stderr
    assert not folder.exists()
    done = CliRunner().invoke(train, [str(file), "--show-config", "--plan"])
    assert (done.exit_code, "--show-config goes without --plan or --profile." in done.output) == (2, True)
    done = CliRunner().invoke(train, [str(file), "--preset", "huge"])
    assert done.exit_code == 2
    assert "must be one of tiny, low-resource, character, edits, captions" in done.output


def test_the_page_says_how_a_preset_is_chosen() -> None:
    from nmt.train.tasks.plain_texts import FEW_PAIRS, LEAST_GAIN, SHARE_OF_WORDS, Survey

    page = (Path(__file__).parent.parent / "docs" / "presets.md").read_text("utf-8")
    rows = dict(line.strip("| ").split(" | ", 1) for line in page.splitlines() if line.endswith(("` |", "text |")))
    assert SHARE_OF_WORDS == 0.9 and Survey(10, 9, []).preset == "character"
    assert rows["nine of ten source lines are a single word"] == "`character`"
    numbers = [f"{number * 7919 % 65521:b}" for number in range(200)]
    words = list(zip(numbers, numbers, strict=True))
    assert Survey(200, 200, words).preset == "edits"
    assert rows["nine of ten are a single word, and edits of it explain the target"] == "`edits`"
    assert LEAST_GAIN == 5 and "at least five bits" in " ".join(page.split())
    for pairs, condition in (
        (FEW_PAIRS - 1, f"fewer than {FEW_PAIRS:,} pairs"),
        (FEW_PAIRS, f"{FEW_PAIRS:,} pairs or more"),
    ):
        assert rows[condition].startswith(f"`{Survey(pairs, 0, []).preset}`")
