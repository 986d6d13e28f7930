"""What users of other toolkits write: the usual names lead to the setting or option that means it here."""

import re

import pytest
from click.testing import CliRunner

from nmt.cli.front import load_command
from nmt.cli.options.foreign_options import _ARGUMENTS, _SHORT, resolved
from nmt.config import config_schema
from nmt.config.removed import _NAMES, FOREIGN

MINIMAL = """\
model_dir: runs/x
data: {train: a, dev: b, src: {lang: de}, tgt: {lang: en}}
"""


def paths(node, schema, prefix=""):
    for key, child in node.get("properties", {}).items():
        yield prefix + key
        for part in [child, *child.get("anyOf", []), *child.get("allOf", [])]:
            if "$ref" in part:
                part = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
            yield from paths(part, schema, f"{prefix}{key}.")


def test_every_name_leads_to_settings_that_exist_and_is_listed_once():
    schema = config_schema()
    known = set(paths(schema, schema))
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
    path.write_text(MINIMAL)
    done = CliRunner().invoke(load_command("train"), [str(path), "--show-config", "--set", setting])
    assert done.exit_code == 1 and f"is not a setting; did you mean {meant}?" in done.output


def options_of(command):
    return {name for param in load_command(command).params for name in (*param.opts, *param.secondary_opts)}


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
        ("translate", "--thread", "Did you mean '--threads'?"),
    ],
)
def test_an_option_under_its_name_elsewhere(command, option, meant):
    done = CliRunner().invoke(load_command(command), [option, "1"])
    assert done.exit_code == 2 and "No such option" in done.output
    assert meant.lower() in " ".join(done.output.split()).lower()


@pytest.mark.parametrize(("option", "never"), [("--reverse", "--version"), ("--reset", "--resume")])
def test_an_option_with_little_in_common_is_not_suggested(option, never):
    done = CliRunner().invoke(load_command("translate"), [option, "1"])
    said = done.output.partition("No such option")[2]
    assert done.exit_code == 2 and option in said and never not in said


@pytest.mark.parametrize(
    ("command", "words", "meant"),
    [
        ("evaluate", ("model", "test.de", "test.en"), "--src FILE and --ref FILE name the files, got test.de test.en"),
        ("score", ("model", "test.de", "test.en"), "--src FILE and --tgt FILE name the files, got test.de test.en"),
        ("quantize", ("model", "small"), "-o DIR names the output, got small"),
    ],
)
def test_files_that_need_an_option_are_answered_by_it(command, words, meant):
    done = CliRunner().invoke(load_command(command), words)
    assert done.exit_code == 2 and meant in done.output


def test_options_with_one_dash_are_those_with_two():
    """OpenNMT-py writes them so; `-output x` would otherwise be `-o utput`, and x a text."""
    known = options_of("translate")
    for typed, option in ("-beam_size", "--beam-size"), ("-output", "--output"), ("-n_best", "--n-best"):
        assert resolved([typed, "5"], known) == [option, "5"] and resolved([f"{typed}=5"], known) == [f"{option}=5"]
    assert resolved(["-ofile", "-5", "-o", "-hq", "-x_y"], known) == ["-ofile", "-5", "-o", "-hq", "-x_y"]
    assert resolved(["--", "-output"], known) == ["--", "-output"]


def test_hints_name_options_and_arguments_that_exist():
    names = "translate", "evaluate", "train", "serve", "score", "import"
    assert set(_SHORT.values()) <= set().union(*map(options_of, names))
    shown = [param.metavar or "" for name in names for param in load_command(name).params]
    assert _ARGUMENTS.keys() <= {part for metavar in shown for part in re.split(r" \| ", metavar)}
