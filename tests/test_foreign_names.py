"""What users of other toolkits write: each name leads to the setting or option that means it here."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from nmt.cli.front import load_command
from nmt.cli.options.foreign_options import _ANSWERS, _ARGUMENTS, _HINTS, ALIASES, resolved
from nmt.config import config_schema, load_config
from nmt.config.foreign_names import FOREIGN, ours
from nmt.errors import ConfigError

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


def test_every_name_leads_to_settings_that_exist():
    schema = config_schema()
    known = set(paths(schema, schema))
    for name, meant in FOREIGN.items():
        for path in re.split(r" or | and ", meant):
            assert path.partition(":")[0] in known or (name, path) == ("trg", "tgt"), name


def test_no_name_is_listed_twice():
    from nmt.config.foreign_names import _NAMES

    listed = [name for names in _NAMES.values() for name in names.split()]
    assert len(listed) == len(set(listed)) > 200


SETTINGS = [
    ("training.lr=0.1", "training.learning_rate"),
    ("training.warmup_steps=4000", "training.learning_rate_warmup"),
    ("valid_steps=100", "training.validation_freq"),
    ("training.max_tokens=4096", "training.batch_size"),
    ("training.per_device_train_batch_size=8", "training.batch_size"),
    ("training.update_freq=2", "training.batch_multiplier"),
    ("label_smoothing_factor=0.1", "training.label_smoothing"),
    ("training.dropout=0.1", "model.encoder.embeddings.dropout or model.encoder.dropout or model.decoder"),
    ("model.rnn_size=512", "model.encoder.hidden_size or model.decoder.hidden_size"),
    ("model.layers=2", "model.encoder.num_layers or model.decoder.num_layers"),
    ("model.encoder.layers=2", "model.encoder.num_layers or model.decoder.num_layers"),
    ("patience=5", "training.early_stopping_patience"),
    ("decoding.num_beams=5", "decoding.beam_size"),
    ("decoding.normalize=0.6", "decoding.length_penalty"),
    ("decoding.max_length=100", "decoding.max_length_ratio"),
    ("training.max_length=100", "data.src.max_length or data.tgt.max_length"),
    ("fp16=true", "compute_dtype: bfloat16"),
    ("training.wandb=true", "training.loggers: [wandb]"),
    ("data.share_vocab=true", "data.subwords.joint"),
    ("testing.beam_size=3", "decoding"),
]


def answer(command, *words):
    """The exit code of a command, and what it prints."""
    done = CliRunner().invoke(load_command(command), words)
    return done.exit_code, done.output + (str(done.exception) if done.exit_code == 1 else "")


def shown(folder, *settings):
    """The answer to training with other settings, which are only printed."""
    path = folder / "c.yaml"
    path.write_text(MINIMAL)
    return answer("train", str(path), "--show-config", *(word for setting in settings for word in ("--set", setting)))


@pytest.mark.parametrize(("setting", "meant"), SETTINGS)
def test_a_setting_under_its_name_elsewhere(tmp_path, setting, meant):
    code, text = shown(tmp_path, setting)
    assert code == 1 and f"is not a setting; did you mean {meant}" in text


def test_averages_of_checkpoints_are_another_command(tmp_path):
    code, text = shown(tmp_path, "training.swa=true")
    assert code == 1 and "training.swa is not a setting; leave it out: nmt-average averages the checkpoints" in text


@pytest.mark.parametrize("name", ["data.bpe_codes", "data.src_vocab", "src_vocab", "data.vocab"])
def test_a_setting_without_counterpart_says_what_to_do(tmp_path, name):
    code, text = shown(tmp_path, f"{name}=x")
    assert code == 1
    assert f"{name} is not a setting; leave it out: nmt learns its subwords from plain text" in text


MIGRATION = (Path(__file__).parent.parent / "docs" / "migration.md").read_text("utf-8")


def names_elsewhere(title):
    """Our name and another toolkit's, for each name in a table of docs/migration.md."""
    part = MIGRATION.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| `")]
    for ours_, *theirs in rows:
        yield from ((ours_.strip(" `"), name) for cell in theirs for name in re.findall(r"`([^`]+)`", cell))


OTHERWISE = {
    ("model_dir", "model"): "model must be a section of keys and values",  # a section here
    ("training.early_stopping_patience", "patience"): "training:",  # another setting here: the page says so
    ("--ensemble", "-model A B"): "MODEL_DIR without an option",  # and so is a single model given
    ("--ensemble", "--path A:B"): "MODEL_DIR without an option",
    ("--device cuda", "--cpu"): "--device cpu",  # the page: without it
    ("--device cuda", "--use-cpu"): "--device cpu",
}
"""Names of the page that have another answer."""


def test_the_page_names_many():
    assert len({*names_elsewhere("Settings")}) > 120 and len({*names_elsewhere("Search")}) > 50


@pytest.mark.parametrize(("meant", "name"), sorted({*names_elsewhere("Settings")}))
def test_a_setting_of_the_page_leads_where_the_page_says(tmp_path, meant, name):
    section, _, leaf = meant.rpartition(".")
    code, text = shown(tmp_path, ".".join([*section.split(".")[:1], name] if section else [name]) + "=1")
    if (expected := OTHERWISE.get((meant, name))) is not None:
        assert expected in text
    elif "is not a setting" not in text:
        assert name == leaf
    else:
        assert code == 1 and meant in text.partition("is not a setting; did you mean ")[2]


@pytest.mark.parametrize(("meant", "name"), sorted({*names_elsewhere("Search")}))
def test_an_option_of_the_page_leads_where_the_page_says(meant, name):
    typed = name.split()[0].split("=")[0]
    typed = typed if typed.startswith("-") else "--" + typed.replace("_", "-")
    (option,) = resolved([typed], options_of("translate"))
    code, text = answer("translate", "model", typed, "1")
    if option == meant.split()[0]:
        assert "No such option" not in text
    else:
        assert code == 2 and f"did you mean {OTHERWISE.get((meant, name), meant)}" in text


def test_a_slip_of_the_pen_still_names_the_nearest(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(MINIMAL)
    with pytest.raises(ConfigError, match=r"did you mean training.learning_rate\?"):
        load_config(path, ["training.learning_rat=1"])


OPTIONS = [
    ("translate", "--gpu", "--device cuda"),
    ("translate", "--fp16", "--compute-dtype bfloat16"),
    ("translate", "--model", "MODEL_DIR without an option"),
    ("translate", "--input", "INPUT without an option"),
    ("translate", "-b", "--beam-size"),
    ("evaluate", "--metrics", "--metric"),
    ("train", "--config", "CONFIG.yaml without an option"),
    ("train", "--lr", "--set training.learning_rate=..."),
    ("train", "--batch-size", "--set training.batch_size=... or --set decoding.batch_size=..."),
    ("train", "--save-dir", "-o DIR"),
    ("translate", "--load-in-8bit", "--compute-dtype int8"),
    ("bundle", "-o", "MODEL.nmt without an option"),
    ("serve", "--model", "MODEL without an option"),
    ("train", "--train-sets", "SRC TGT without an option"),
    ("train", "--share-all-embeddings", "--set model.tied_embeddings=all"),
    ("train", "--wandb-project", "--set training.loggers=[wandb]"),
    ("train", "--rnn-size", "--set model.encoder.hidden_size=... or --set model.decoder.hidden_size=..."),
]


ANSWERS = [
    ("train", "--resume", "run the same command again: it resumes"),
    ("train", "--train_from", "run the same command again: it resumes; --set training.load_model=DIR starts a new run"),
    ("train", "--ranks", "mpiexec -n N nmt-train"),
    ("train", "--overwrite_output_dir", "choose a new folder: a run is never overwritten"),
    ("train", "--tensorboard", "did you mean --set training.loggers=[tensorboard]?"),
    ("train", "--fp16", "did you mean --set compute_dtype=bfloat16?"),
    ("train", "--src_vocab", "leave it out: nmt learns its subwords from plain text; "),
    ("translate", "--remove-bpe", "leave it out: the output is plain text"),
    ("translate", "-s", "did you mean INPUT without an option?"),
    ("average", "--inputs", "MODEL_DIR is given without an option, and --last or --best"),
    ("export", "--format", "did you mean --to?"),
    ("translate", "--quantization", "did you mean --compute-dtype int8?"),
    ("sweep", "--n-trials", "did you mean --grid KEY=V1,V2?"),
    ("evaluate", "-t", "did you mean --test-set NAME:PAIR?"),
    ("evaluate", "-r", "did you mean --ref?"),
    ("train", "-data", "give SRC TGT, or a CONFIG.yaml that names the texts"),
    ("train", "-verbose", "leave it out: progress is shown, and -q turns it off"),
    ("evaluate", "-b", "--json writes the scores for programs. See"),
    ("evaluate", "--ensemble", "--hyp FILE scores what nmt-translate wrote with an ensemble; nmt-average"),
    ("train", "--checkpoints", "leave it out: nmt-average averages the checkpoints that training.keep_last_ckpts"),
    ("sweep", "--budget", "--set training.max_minutes=... limits each run"),
]


@pytest.mark.parametrize(("command", "option", "meant"), ANSWERS)
def test_what_to_do_instead_of_an_option_of_another_toolkit(command, option, meant):
    if option in options_of(command):
        pytest.skip("an option here")
    code, text = answer(command, option, "1")
    assert code == 2
    assert meant in " ".join(text.partition("No such option ")[2].split())


@pytest.mark.parametrize(
    ("command", "words", "meant"),
    [
        ("evaluate", ("model", "test.de", "test.en"), "--src FILE and --ref FILE name the texts, got test.de test.en"),
        ("score", ("model", "test.de", "test.en"), "--src FILE and --tgt FILE name the texts, got test.de test.en"),
        ("quantize", ("model", "small"), "-o DIR names the output, got small"),
        ("generate", ("model", "prompts", "out"), "-o FILE names the output, got out"),
        ("average", ("model", "small"), "-o DIR names the output, got small"),
    ],
)
def test_files_that_need_an_option_are_answered_by_it(command, words, meant):
    code, text = answer(command, *words)
    assert code == 2
    assert meant in text


@pytest.mark.parametrize(
    ("command", "option", "never"),
    [
        ("translate", "--verbose", "--version"),
        ("evaluate", "--inputs", "--output"),
        ("translate", "--reset", "--resume"),
    ],
)
def test_an_option_with_little_in_common_is_not_suggested(command, option, never):
    code, text = answer(command, option, "1")
    assert code == 2
    said = text.partition("No such option")[2]
    assert option in said
    assert never not in said


@pytest.mark.parametrize(("command", "option", "meant"), OPTIONS)
def test_an_option_under_its_name_elsewhere(command, option, meant):
    done = CliRunner().invoke(load_command(command), [option, "1"])
    assert done.exit_code == 2
    assert f"No such option {option!r}; did you mean {meant}?" in done.output


def test_an_option_that_nobody_knows_is_answered_as_before():
    done = CliRunner().invoke(load_command("translate"), ["--thread", "1"])
    assert done.exit_code == 2 and "'--threads'" in done.output


def options_of(command):
    return {name for param in load_command(command).params for name in (*param.opts, *param.secondary_opts)}


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases_work_and_are_not_listed(alias, monkeypatch):
    command = load_command("translate")
    assert ALIASES[alias] in options_of("translate") and alias not in options_of("translate")
    seen = {}
    monkeypatch.setattr(command, "callback", lambda **given: seen.update(given))
    value = "0.5" if alias.endswith("p") else "3"
    for words in ([alias, value], [f"{alias}={value}"]):
        assert CliRunner().invoke(command, ["model", *words]).exit_code == 0
        key = ALIASES[alias].lstrip("-").replace("-", "_")
        assert float(seen.pop(key)) == float(value)
    twice = CliRunner().invoke(command, ["model", alias, value, ALIASES[alias], value])
    assert twice.exit_code == 2 and "must be given once" in twice.output


@pytest.mark.parametrize(
    ("typed", "option"), [("-beam_size", "--beam-size"), ("-output", "--output"), ("-n_best", "--n-best")]
)
def test_options_with_one_dash_are_those_with_two(typed, option):
    """OpenNMT-py writes them so; `-output x` would otherwise be `-o utput`, and x a text."""
    known = options_of("translate")
    assert resolved([typed, "5"], known) == [option, "5"] and resolved([f"{typed}=5"], known) == [f"{option}=5"]
    assert resolved(["-ofile", "-5", "-o", "-hq", "-x_y"], known) == ["-ofile", "-5", "-o", "-hq", "-x_y"]


def test_words_after_two_dashes_are_no_options(monkeypatch):
    command, seen = load_command("translate"), {}
    monkeypatch.setattr(command, "callback", lambda **given: seen.update(given))
    assert CliRunner().invoke(command, ["model", "--", "--beam"]).exit_code == 0
    assert seen["inputs"] == ("--beam",)


def test_hints_name_options_and_arguments_that_exist():
    names = "translate", "evaluate", "train", "serve", "score", "average", "export", "quantize", "sweep", "bundle"
    every = set().union(*map(options_of, names))
    hints = [hint for one in _HINTS.values() for hint in ((one,) if isinstance(one, str) else one)]
    assert {hint.partition(" ")[0] for hint in hints} <= every
    for command, answers in _ANSWERS.items():
        named = {word for text in answers.values() for word in re.findall(r"--[a-z][a-z-]+", text)}
        assert named <= options_of(command) and not answers.keys() & options_of(command)
    arguments = {
        metavar
        for name in ("train", "translate", "serve", "import", "bundle")
        for param in load_command(name).params
        if param.param_type_name == "argument"
        for metavar in param.metavar.split(" | ")
    }
    assert _ARGUMENTS.keys() <= arguments
    assert ours("--x") is None
