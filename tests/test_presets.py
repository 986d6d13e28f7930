"""Settings to start from by name."""

import re
from copy import deepcopy
from pathlib import Path

import pytest

from nmt import Translator
from nmt.cli.commands.train import train
from nmt.cli.front import load_command
from nmt.cli.options.foreign_options import _ARGUMENTS, _NEEDLESS, _OPTIONS, resolved
from nmt.config import config_from_dict, config_schema, dump_config, load_config
from nmt.config.presets import NAMES, merged, preset_values, settings_of_preset
from nmt.config.removed import _NAMES, _OFF, FOREIGN, REMOVED, RENAMED
from nmt.config.yaml_text import format_yaml, parse_yaml
from nmt.errors import CheckpointError, ConfigError, NMTError
from nmt.exporting.c.cell import export_cell
from nmt.importing.sources import import_model
from nmt.train.tasks.plain_texts import FEW_PAIRS, LEAST_GAIN, SHARE_OF_WORDS, Survey
from tests.cli.test_cli_models import call
from tests.refusals import refused
from tests.saved_models import write_folder
from tests.settings import changed, leaves
from tests.test_config import MINIMAL
from tests.test_docs import options_of, schema_paths


@pytest.mark.parametrize("name", NAMES)
def test_texts_and_a_preset_are_a_configuration(name: str, tmp_path: Path) -> None:
    config = config_from_dict({**MINIMAL, "preset": name})
    values = leaves(config.to_dict())
    for key, value in leaves(preset_values(name)).items():
        assert values[key] == value, key
    plain = leaves(config_from_dict(MINIMAL).to_dict())
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
    sections = ("data", "model", "training", "decoding")
    assert [line.split(": ")[:2] for line in lines] == [["preset captions", section] for section in sections]
    said = " ".join(lines)
    assert "decoder.embeddings.dropout 0.2" in said
    assert not any(key in said for key in ("encoder.embeddings.dropout 0.4", "updates auto", "batch_size", " 70"))
    assert "encoder.embeddings.dropout" not in said


def test_merging() -> None:
    preset = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert merged(preset, {"a": {"c": {"f": 4}}, "e": None}) == {"a": {"b": 1, "c": {"d": 2, "f": 4}}, "e": None}
    assert merged(preset, {"a": 5}) == {"a": 5, "e": 3}
    assert preset == {"a": {"b": 1, "c": {"d": 2}}, "e": 3}


def test_the_command_shows_all_settings_and_trains_nothing(tmp_path: Path) -> None:
    file, folder = tmp_path / "own.yaml", tmp_path / "model"
    file.write_text(f"model_dir: {folder}\ndata: {{train: a, dev: b, src: {{lang: de}}, tgt: {{lang: en}}}}\n")
    done = call(train, file, "--preset", "tiny", "--show-config", "--seed", "7")
    shown = tmp_path / "shown.yaml"
    shown.write_text(done.stdout)
    assert load_config(shown) == load_config(file, ["preset=tiny", "seed=7"])
    assert "preset tiny:" not in done.stderr
    assert not folder.exists()


def test_the_page_says_how_a_preset_is_chosen() -> None:
    page = (Path(__file__).parent.parent / "docs" / "presets.md").read_text("utf-8")
    rows = dict(line.strip("| ").split(" | ", 1) for line in page.splitlines() if line.endswith(("` |", "text |")))
    assert SHARE_OF_WORDS == 0.9 and Survey(10, 9, []).preset == "character"
    assert rows["nine of ten source lines are a single word"] == "`character`"
    numbers = [f"{number * 7919 % 65521:b}" for number in range(200)]
    assert Survey(200, 200, list(zip(numbers, numbers, strict=True))).preset == "edits"
    assert rows["nine of ten are a single word, and edits of it explain the target"] == "`edits`"
    assert LEAST_GAIN == 5 and "at least five bits" in " ".join(page.split())
    assert rows[f"fewer than {FEW_PAIRS:,} pairs"].startswith(f"`{Survey(FEW_PAIRS - 1, 0, []).preset}`")
    assert rows[f"{FEW_PAIRS:,} pairs or more"].startswith(f"`{Survey(FEW_PAIRS, 0, []).preset}`")


SETTINGS = list(_OFF)


@pytest.mark.parametrize("name", [*SETTINGS, *(name for name in REMOVED if ": " in name)])
def test_a_removed_setting_or_value_names_its_replacement(name):
    key, _, value = name.partition(": ")
    told = refused(ConfigError, "", config_from_dict, changed(MINIMAL, [(key, value or "used")]))
    assert told.partition(" (and ")[0] == f"config: {name} is not there any more; {REMOVED[name]}"


@pytest.mark.parametrize("name", SETTINGS)
def test_a_folder_of_an_older_version_that_does_not_use_it_is_read(name):
    assert config_from_dict(changed(MINIMAL, [(name, _OFF[name])])) == config_from_dict(deepcopy(MINIMAL))


def test_renamed_settings_say_so_and_a_trained_model_may_have_them(tmp_path):
    for name, now in RENAMED.items():
        refused(ConfigError, f"^config: {name} is .*{now}", config_from_dict, changed(MINIMAL, [(name, 3)]))
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
        ("data", "index", "ids", "data.index is not there any more; remove it: .*TMPDIR"),
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
    refused(ConfigError, told, load_config, path)


def test_a_library_for_c_of_a_cell_names_its_replacement(tmp_path):
    with pytest.raises(NMTError, match="^export_cell is not there any more; let Python step the cell"):
        export_cell(object(), {}, tmp_path / "cell")


@pytest.mark.parametrize(
    "values", [{"joeynmt_version": "2.3.0"}, {"data": {"src": "de", "trg": "en"}, "testing": {"beam_size": 5}}], ids=str
)
def test_settings_of_joeynmt_name_the_table(tmp_path, values):
    path = tmp_path / "joey.yaml"
    path.write_text(format_yaml(values))
    told = call(load_command("train"), path, code=1).output
    assert "Settings of JoeyNMT" in told and told.count("\n") == 1
    assert "\n## Settings of JoeyNMT\n" in (Path(__file__).parents[1] / "docs" / "migration.md").read_text("utf-8")


def test_a_wheel_is_to_be_unpacked(tmp_path):
    wheel = tmp_path / "package-1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    refused(CheckpointError, "got a wheel, whose import is not there any more; unpack it", import_model, wheel)


@pytest.mark.parametrize("kind", [name.split()[-1] for name in REMOVED if name.startswith("nmt-import --from")])
def test_a_removed_format_names_its_replacement(kind, tmp_path):
    refused(ConfigError, f"^from: {kind} is not there any more; [^\n]*$", import_model, tmp_path, kind)


LEAST = """\
model_dir: runs/x
data: {train: a, dev: b, src: {lang: de}, tgt: {lang: en}}
"""


def test_every_name_leads_to_settings_that_exist_and_is_listed_once():
    schema = config_schema()
    known = set(schema_paths(schema, schema))
    for name, meant in FOREIGN.items():
        for path in meant.split(" or "):
            assert path in known or (name, path) == ("trg", "tgt"), name
    assert len(FOREIGN) == sum(len(names.split()) for names in _NAMES.values())


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("training.lr=0.1", "training.learning_rate"),
        ("training.warmup-updates=4000", "training.learning_rate_warmup"),
        ("train_steps=100", "training.updates"),
        ("model.dim-rnn=512", "model.encoder.hidden_size or model.decoder.hidden_size"),
        ("training.encoder-layers=3", "model.encoder.num_layers or model.decoder.num_layers"),
        ("decoding.max-len-b=20", "decoding.max_length_extra"),
        ("decoding.normalize=0.6", "decoding.length_penalty"),
        ("decoding.max_length=100", "decoding.max_length_ratio"),
        ("training.max_length=100", "data.src.max_length or data.tgt.max_length"),
        ("training.seed=1", "seed"),
        ("data.bpe_codes=x", "data.subwords"),
        ("training.learning_rat=1", "training.learning_rate"),
    ],
)
def test_a_setting_under_its_name_elsewhere(tmp_path, setting, meant):
    path = tmp_path / "c.yaml"
    path.write_text(LEAST)
    told = call(load_command("train"), path, "--show-config", "--set", setting, code=1).output
    assert f"is not a setting; did you mean {meant}?" in told


@pytest.mark.parametrize(
    ("command", "option", "meant"),
    [
        ("translate", "--gpu", "did you mean --device?"),
        ("translate", "--fp16", "did you mean --compute-dtype?"),
        ("translate", "--model", "did you mean MODEL without an option?"),
        ("translate", "-s", "did you mean INPUT without an option?"),
        ("translate", "--num_beams", "did you mean --beam-size?"),
        ("translate", "-n", "did you mean --n-best?"),
        ("evaluate", "-m", "did you mean --metric?"),
        ("train", "--config", "did you mean CONFIG.yaml without an option?"),
        ("train", "--max-tokens", "did you mean --set training.batch_size=...?"),
        ("train", "--batch-size", "did you mean --set training.batch_size=... or --set decoding.batch_size=...?"),
        ("train", "--save-dir", "did you mean -o DIR?"),
        ("train", "-valid_sets", "did you mean --dev?"),
        ("train", "--ranks", "it is not there any more; mpiexec -n N nmt-train"),
        ("translate", "--unkpen", "did you mean --no-unk?"),
        ("translate", "--remove-bpe", "leave it out: translations are plain text, whose subwords are joined"),
        ("translate", "-batch_type", "leave it out: --batch-size counts sentences"),
        ("train", "--batch-type", "did you mean --set training.batch_type=...?"),
        ("translate", "--block-ngram-repeat", "did you mean --no-repeat-ngram-size?"),
        ("translate", "--print-alignment", "did you mean --alignments?"),
        ("translate", "--normalize", "did you mean --length-penalty?"),
        ("train", "--source-lang", "did you mean --src-lang?"),
        ("translate", "--target_lang", "leave it out: a model knows its languages"),
        ("train", "--resume", "leave it out: the same command again resumes a run"),
        ("train", "-src", "did you mean SRC TGT without an option?"),
        ("train", "--time", "did you mean --budget?"),
        ("translate", "--thread", "Did you mean '--threads'?"),
    ],
)
def test_an_option_under_its_name_elsewhere(command, option, meant):
    told = " ".join(call(load_command(command), option, "1", code=2).output.split())
    assert "No such option" in told and meant.lower() in told.lower()


@pytest.mark.parametrize(("option", "never"), [("--reverse", "--version"), ("--reset", "--resume")])
def test_an_option_with_little_in_common_is_not_suggested(option, never):
    said = call(load_command("translate"), option, "1", code=2).output.partition("No such option")[2]
    assert option in said and never not in said


def test_options_with_one_dash_are_those_with_two():
    """OpenNMT-py writes them so; `-output x` would otherwise be `-o utput`, and x a text."""
    known = options_of("translate")
    for typed, option in ("-beam_size", "--beam-size"), ("-output", "--output"), ("-n_best", "--n-best"):
        assert resolved([typed, "5"], known) == [option, "5"] and resolved([f"{typed}=5"], known) == [f"{option}=5"]
    assert resolved(["-ofile", "-5", "-o", "-hq", "-x_y"], known) == ["-ofile", "-5", "-o", "-hq", "-x_y"]
    assert resolved(["--", "-output"], known) == ["--", "-output"]


def test_hints_name_options_and_arguments_that_exist():
    names = "translate", "evaluate", "train", "serve", "score", "import"
    words = {word for text in _NEEDLESS.values() for word in text.split() if word.startswith("--")}
    assert {*_OPTIONS.values(), *words} <= set().union(*map(options_of, names))
    shown = [param.metavar or "" for name in names for param in load_command(name).params]
    assert _ARGUMENTS.keys() <= {part for metavar in shown for part in re.split(r" \| ", metavar)}
