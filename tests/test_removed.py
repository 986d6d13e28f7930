"""Features that are removed: whoever writes their names gets one line that says what to do, and folders that name them
without using them are read."""

from copy import deepcopy
from pathlib import Path

import pytest
from click.testing import CliRunner

from nmt import Translator
from nmt.cli.front import load_command
from nmt.config import config_from_dict, load_config
from nmt.config.removed import _OFF, REMOVED, RENAMED
from nmt.config.yaml_text import format_yaml, parse_yaml
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.exporting.c.cell import export_cell
from nmt.importing.sources import import_model
from tests.saved_models import write_folder
from tests.test_config import MINIMAL

SETTINGS = list(_OFF)
VALUES = [name for name in REMOVED if ": " in name]


def with_setting(name, value):
    values = deepcopy(MINIMAL)
    *outer, last = name.split(".")
    section = values
    for key in outer:
        section = section.setdefault(key, {})
    section[last] = value
    return values


@pytest.mark.parametrize("name", SETTINGS)
def test_a_removed_setting_names_its_replacement(name):
    with pytest.raises(ConfigError) as raised:
        config_from_dict(with_setting(name, "used"))
    assert str(raised.value) == f"config: {name} is not there any more; {REMOVED[name]}"


@pytest.mark.parametrize("name", VALUES)
def test_a_removed_value_names_its_replacement(name):
    with pytest.raises(ConfigError) as raised:
        config_from_dict(with_setting(*name.split(": ")))
    assert str(raised.value).startswith(f"config: {name} is not there any more; {REMOVED[name]}")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_folder_of_an_older_version_that_does_not_use_it_is_read(name):
    assert config_from_dict(with_setting(name, _OFF[name])) == config_from_dict(deepcopy(MINIMAL))


def test_renamed_settings_say_so_and_a_trained_model_may_have_them(tmp_path):
    for name, now in RENAMED.items():
        with pytest.raises(ConfigError, match=f"^config: {name} is .*{now}"):
            config_from_dict(with_setting(name, 3))
    path = write_folder(tmp_path / "model") / "config.yaml"
    values = parse_yaml(path.read_text("utf-8"))
    former = {"passes": 3.0, "patience": 5, "early_stopping_patience": 7, "early_stopping_metric": "chrf"}
    present = {key: value for key, value in values["training"].items() if key not in RENAMED.values()}
    path.write_text(format_yaml(values | {"training": present | former}))
    read = Translator.load(path.parent, threads=1).config.training.model_dump(mode="json")
    assert {name: read[RENAMED[f"training.{name}"]] for name in former} == former


@pytest.mark.parametrize(
    "section, key, value, told",
    [
        ("training", "quantization_aware", 4, "quantization_aware is not there any more; train without it"),
        ("data", "index", "ids", "data.index is not there any more; remove it"),
        ("training", "loss_spikes", "skip", "loss_spikes is not there any more; an update"),
        ("training", "optimizer", "lamb", "optimizer: lamb is not there any more; write adam"),
        ("training", "scheduling", "noam", "scheduling: noam is not there any more; write inverse_square_root"),
    ],
)
def test_a_model_whose_training_used_what_is_removed_translates(tmp_path, section, key, value, told):
    folder = write_folder(tmp_path / "model")
    before = Translator.load(folder, threads=1).translate("kara losu")
    path = folder / "config.yaml"
    values = parse_yaml(path.read_text("utf-8"))
    values[section][key] = value
    path.write_text(format_yaml(values))
    assert Translator.load(folder, threads=1).translate("kara losu") == before
    with pytest.raises(ConfigError, match=told):
        load_config(path)


def test_a_library_for_c_of_a_cell_names_its_replacement(tmp_path):
    with pytest.raises(NMTError, match="^export_cell is not there any more; let Python step the cell"):
        export_cell(object(), {}, tmp_path / "cell")


@pytest.mark.parametrize(
    "values", [{"joeynmt_version": "2.3.0"}, {"data": {"src": "de", "trg": "en"}, "testing": {"beam_size": 5}}], ids=str
)
def test_settings_of_joeynmt_name_the_table(tmp_path, values):
    path = tmp_path / "joey.yaml"
    path.write_text(format_yaml(values))
    done = CliRunner().invoke(load_command("train"), [str(path)])
    assert done.exit_code == 1 and "Settings of JoeyNMT" in done.output and done.output.count("\n") == 1
    page = (Path(__file__).parents[1] / "docs" / "migration.md").read_text("utf-8")
    assert "\n## Settings of JoeyNMT\n" in page


def test_a_wheel_is_to_be_unpacked(tmp_path):
    wheel = tmp_path / "package-1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="got a wheel, whose import is not there any more; unpack it"):
        import_model(wheel)


@pytest.mark.parametrize("kind", [name.split()[-1] for name in REMOVED if name.startswith("nmt-import --from")])
def test_a_removed_format_names_its_replacement(kind, tmp_path):
    with pytest.raises(ConfigError, match=f"^from: {kind} is not there any more; [^\n]*$"):
        import_model(tmp_path, kind)
