"""Settings: the reference tells the truth, a mistake is one line, files come back as they went."""

import json
from pathlib import Path

import numpy as np
import pytest

from docs.reference import reference_yaml
from nmt.config import Config, ModelConfig, config_from_dict, config_schema, dump_config, load_config
from nmt.config.complaints import lookup
from nmt.config.presets import expectation, measured
from nmt.config.section import Section
from nmt.config.yaml_text import format_yaml, parse_written_pairs, parse_yaml
from nmt.errors import ConfigError
from tests.refusals import refused
from tests.settings import changed, leaves

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = ROOT / "configs"
MINIMAL = {"model_dir": "runs/x", "data": {"train": "t", "dev": "d", "src": {"lang": "de"}, "tgt": {"lang": "en"}}}


def write(tmp_path, text, name="run.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def complaint(*overrides, values=MINIMAL):
    """The line a mistake gives, for a file of the given values."""
    line = refused(ConfigError, "", config_from_dict, changed(values, overrides), where="run.yaml")
    assert line.startswith("run.yaml: ")
    return line.removeprefix("run.yaml: ")


# The reference and the schema


def test_schema_file_is_the_schema():
    assert json.loads((CONFIGS / "schema.json").read_text()) == config_schema()


def test_reference_file_is_the_one_written_from_the_schema():
    assert (CONFIGS / "reference.yaml").read_text(encoding="utf-8") == reference_yaml()


def test_reference_loads_and_gives_every_key_its_default():
    loaded = load_config(CONFIGS / "reference.yaml")
    written = leaves(parse_yaml((CONFIGS / "reference.yaml").read_text()))
    assert written == leaves(loaded.to_dict()), "a key is missing from the reference, or too much"
    required = {key: value for key, value in written.items() if key in REQUIRED}
    assert set(required) == REQUIRED
    assert config_from_dict(changed({}, required.items())) == loaded, "a value in the reference is not the default"


REQUIRED = {"model_dir", "data.train", "data.dev", "data.src.lang", "data.tgt.lang"}


def test_every_key_has_a_meaning_in_the_reference():
    lines = (CONFIGS / "reference.yaml").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if ":" in line and not line.lstrip().startswith("#"):
            assert lines[number - 1].lstrip().startswith("#"), line
    for path in leaves(load_config(CONFIGS / "reference.yaml").to_dict()):
        assert lookup(config_schema(), path.split("."))["description"].endswith((".", "...")), path


def choices():
    schema = config_schema()
    for path in leaves(load_config(CONFIGS / "reference.yaml").to_dict()):
        node = lookup(schema, path.split("."))
        for option in [node, *node.get("anyOf", [])]:
            for value in option.get("enum", []):
                yield path, value


@pytest.mark.parametrize(("name", "value"), list(choices()))
def test_every_documented_choice_is_accepted(name, value):
    extra = {
        "training.scheduling": [("training.learning_rate_warmup", 10), ("training.updates", 100)],
        "model.tied_embeddings": [("model.decoder.embeddings.embedding_dim", 512)],
    }.get(name, [])
    if value == "all":
        extra = [*extra, ("model.encoder.embeddings.embedding_dim", 512)]
    got = load_config(CONFIGS / "reference.yaml", [f"{key}={setting}" for key, setting in [(name, value), *extra]])
    for part in name.split("."):
        got = getattr(got, part)
    assert got == {"luong": "general"}.get(value, value)


def test_peers_config_is_the_measured_set_up():
    config = load_config(CONFIGS / "multi30k_en_de_peers.yaml")
    assert (config.data.src.lang, config.data.tgt.lang) == ("en", "de")
    assert not config.data.src.lowercase and not config.data.tgt.lowercase
    assert (config.data.subwords.type, config.data.subwords.vocab_size) == ("bpe", 8000)
    assert not any(value for path, value in leaves(config.model.to_dict()).items() if "dropout" in path)
    assert (config.training.batch_size, config.training.max_minutes) == (3350, 7.5)


# Mistakes: one line each


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("model.encoder.hiden_size", 3, "is not a setting; did you mean model.encoder.hidden_size?"),
        ("model_dirr", "x", "is not a setting; did you mean model_dir?"),
        ("data.trg", {"lang": "en"}, "is not a setting; did you mean tgt?"),
        ("testing", {}, "is not a setting; did you mean decoding?"),
        ("hidden_size", 3, "is not a setting; did you mean model.encoder.hidden_size or model.decoder.hidden_size?"),
        ("decoding.zzz", 1, "is not a setting; known here: beam_size, length_penalty, max_length_ratio, "),
        ("training.optimizer", "adma", "must be one of adam, adamw, sgd, got 'adma'; did you mean adam?"),
        ("training.batch_size", "4096", "must be a whole number of at least 1 and of at most 10,000,000, got '4096'"),
        ("training.updates", 1e5, "must be a whole number of at least 1, or auto, or null, got 100000.0"),
        ("seed", True, "must be a whole number of at least 0, got true"),
        ("threads", "None", "must be a whole number of at least 1 and of at most 1,024, or null, got 'None'; did you"),
        ("model.encoder.dropout", 1.0, "must be a number of at least 0 and below 1, got 1.0"),
        ("training.learning_rate", float("nan"), "must be a number above"),
        ("training.adam_betas", [0.9, 2], "[1] must be a number of at least 0 and below 1, got 2"),
        ("training.adam_betas", [0.9], "[1] must be given"),
        ("data.src.lowercase", "yes", "must be true or false, got 'yes'"),
        ("name", 2024, 'must be text that is not empty, got 2024; put it into quotes: "2024"'),
        ("data.src.lang", True, 'must be text that is not empty, got true; put it into quotes: "true"'),
        (
            "training.print_valid_sents",
            "1,2",
            "must be a list of values, each a whole number of at least 0, got '1,2'; write print_valid_sents: [1,2]",
        ),
        (
            "preset",
            "caption",
            "must be one of tiny, low-resource, character, edits, captions, or null, got 'caption'; "
            "did you mean captions?",
        ),
        ("data.train", "", "must be text that is not empty, or a list of values, each a section of keys and values"),
        ("data", 4, "must be a section of keys and values, got 4"),
        ("model.encoder", None, "must be a section of keys and values, got null"),
        ("decoding.length_penalty", "avrage", "must be one of none, average, or a number of at least 0 and of at most"),
        ("decoding.length_penalty", float("inf"), "must be one of none"),
        ("decoding.length_penalty", True, "must be one of none"),
        ("data.subwords.character_coverage", 0.5, "must be a"),
    ],
)
def test_a_mistake_is_one_line(name, value, line):
    assert complaint((name, value)).startswith(name + ("" if line[0] == "[" else " ") + line)


@pytest.mark.parametrize("value", [["s"], {"path": "s"}, 3, [4]])
def test_a_text_that_is_named_in_another_way_is_answered_by_an_example(value):
    assert (
        "; write train: data/train, the prefix of two files such as data/train.de and data/train.en, or a list of "
        "corpora, train: [{path: data/train}, {path: more.tsv}]"
    ) in complaint(("data.train", value))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("training: {learning_rate: 1,5}", "training must have keys that are text, got 5; remove it (in {a: 1,5} the"),
        ("1: 2", "the file must have keys that are text, got 1; remove it"),
    ],
)
def test_keys_are_text(text, line, tmp_path):
    assert refused(ConfigError, "", load_config, write(tmp_path, text)).partition("run.yaml: ")[2].startswith(line)


def test_the_home_folder_may_be_written_as_in_a_shell(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    files = {"model_dir": "~/m", "data.train": "~/t", "data.dev": [{"path": "~/d"}]}
    config = config_from_dict(changed(MINIMAL, {**files, "training.load_model": "~/l"}.items()))
    assert [config.model_dir, config.data.train, config.data.dev[0].path] == ["/home/me/m", "/home/me/t", "/home/me/d"]
    assert config.training.load_model == "/home/me/l"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ("model.decoder.attention=dot model.decoder.hidden_size=300", "hidden_size must"),
        ("model.decoder.attention=scaled_dot model.encoder.bidirectional=false", "be 256"),
        ("model.decoder.init_hidden=last model.encoder.hidden_size=100", "must be 200"),
        ("model.tied_embeddings=softmax", "embedding_dim must be 512"),
        (
            "model.tied_embeddings=all model.decoder.embeddings.embedding_dim=512",
            "model.encoder.embeddings.embedding_dim must be 512",
        ),
        ("model.tied_embeddings=all model.decoder.hidden_size=256 data.subwords.joint=false", "joint must be true"),
        ("model.decoder.attention=general model.decoder.attention_size=8", "decoder.attention_size must be null"),
        ("model.decoder.attention=luong model.decoder.attention_size=8", "decoder.attention_size must be null"),
        ("training.learning_rate_min=1.0", "training.learning_rate_min must be below"),
        ("training.scheduling=inverse_square_root", "training.learning_rate_warmup must be at least 1"),
        ("training.scheduling=linear", "training.updates must be a number or auto with scheduling: linear, got null"),
        (
            "training.scheduling=linear training.updates=9 training.learning_rate_warmup=9",
            "training.updates must be above learning_rate_warmup (9) with scheduling: linear, got 9",
        ),
        ("training.scheduling=linear training.updates=9 training.cooldown=0.2", "cooldown must be 0 with scheduling:"),
        ("training.scheduling=cosine", "training.updates must be a number or auto with scheduling: cosine, got null"),
        (
            "model.decoder.copy_source=true data.subwords.joint=false",
            "data.subwords.joint must be true with model.decoder.copy_source: true, got false; set it so",
        ),
        ("model.decoder.copy_source=true training.r_drop=1.0", "r_drop must be 0 with model.decoder.copy_source: true"),
        (
            "model.decoder.copy_source=true model.decoder.attention=none",
            "decoder.copy_source must be false with decoder.attention: none, got true",
        ),
        ("model.decoder.copy_source=true model.decoder.type=conv", "must be left at its default, false, with type:"),
        ("training.guided_alignment=1.0 model.decoder.attention=none", "must be 0 for a decoder without attention"),
        ("model.decoder.lexical=true model.decoder.attention=multi_head", "must be false with attention: multi_head"),
        ("model.decoder.lexical=true model.encoder.type=conv", "lexical must be false with encoder.type: conv"),
        ("model.encoder.type=conv model.encoder.zoneout=0.1", "zoneout must be left at its default, 0.0, with"),
        ("training.momentum=0.9", "training.momentum must be 0"),
        ("decoding.n_best=6", "decoding.n_best must be at most beam_size (5), got 6"),
        ("data.subwords.model_file=a.spm data.subwords.joint=false", "data.subwords.model_file must be null"),
        ("data.subwords.src_model_file=a.spm", "data.subwords.src_model_file must be null"),
        ("data.tgt.lang=de", "data.tgt.lang must be another one"),
    ],
)
def test_an_impossible_combination_is_one_line(changes, line):
    overrides = [change.split("=") for change in changes.split()]
    assert line in complaint(*((name, parse_yaml(f"value: {value}")["value"]) for name, value in overrides))


def test_possible_neighbours_of_the_impossible_are_accepted():
    for overrides in (
        ["model.decoder.attention=dot"],
        ["model.decoder.init_hidden=last"],
        ["model.tied_embeddings=softmax", "model.decoder.hidden_size=256"],
        ["model.tied_embeddings=all", "model.decoder.hidden_size=256"],
        ["training.optimizer=sgd", "training.momentum=0.9", "training.learning_rate=1"],
        ["data.subwords.joint=false", "data.subwords.src_model_file=a.spm"],
        ["model.decoder.attention_size=64"],
        ["decoding.length_penalty=none"],
        ["decoding.length_penalty=0"],
    ):
        load_config(CONFIGS / "reference.yaml", overrides)


def test_missing_keys_are_named_with_their_meaning():
    with pytest.raises(ConfigError, match=r"model_dir must be given: Folder for the model"):
        config_from_dict({key: value for key, value in MINIMAL.items() if key != "model_dir"})
    misspelt = {"model_dirr": "x", "data": MINIMAL["data"]}
    refused(ConfigError, r"model_dirr is not .* did you mean model_dir\?", config_from_dict, misspelt)
    assert "(and 1 more mistake)" in complaint(("seed", -1), ("threads", -1))


def test_what_is_not_yaml_or_not_a_file_is_one_line(tmp_path):
    def line_of(path):
        text = refused(ConfigError, "", load_config, path)
        assert text.startswith(str(path))
        return text

    assert "no such file" in line_of(tmp_path / "none.yaml")
    assert "got a folder" in line_of(tmp_path)
    assert "got an empty file" in line_of(write(tmp_path, ""))
    assert "got 'hello'" in line_of(write(tmp_path, "hello"))
    assert "line 2: the key 'seed' is given twice" in line_of(write(tmp_path, "seed: 1\nseed: 2\n"))
    assert "must be YAML: line 2" in line_of(write(tmp_path, "a: [1,\n  {"))
    assert line_of(write(tmp_path, "word\tform\nword\tform\n")).endswith("; a table must be named .tsv")
    for content, told in ((b"name: M\xfcller", "UTF-8 text, got the byte 0xfc"), (b"name: a\x00b\n", "YAML")):
        (path := tmp_path / "bytes.yaml").write_bytes(content)
        assert f"must be {told}" in line_of(path)


# Overrides


def test_overrides_are_yaml_values():
    overrides = ["training.clip_grad_norm=null", "training.adam_betas=[0.9, 0.98]", "name=a=b", "data.src.lang=no"]
    numbers = ["training.learning_rate=1e-4", "training.updates=10", "training.updates=20"]
    config = load_config(CONFIGS / "reference.yaml", [*overrides, *numbers, "model.encoder.bidirectional=false"])
    assert (config.training.clip_grad_norm, config.training.adam_betas) == (None, (0.9, 0.98))
    assert (config.name, config.data.src.lang, config.model.encoder.bidirectional) == ("a=b", "no", False)
    assert (config.training.learning_rate, config.training.updates) == (1e-4, 20)


def test_an_override_reaches_into_a_section_the_file_leaves_out(tmp_path):
    config = load_config(write(tmp_path, format_yaml(MINIMAL)), ["model.decoder.embeddings.dropout=0.5"])
    assert config.model.decoder.embeddings.dropout == 0.5


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("foo", "--set foo: must be KEY.PATH=VALUE"),
        ("=3", "--set =3: must be KEY.PATH=VALUE"),
        ("a..b=3", "--set a..b=3: must be KEY.PATH=VALUE"),
        ("seed.x=1", "--set seed.x=1: seed must be a section of keys and values, got 42"),
        ("seed=[", "--set seed=[: the value must be YAML"),
        ("sed=1", "--set sed=1: sed is not a setting; did you mean seed?"),
        ("seed=one", "--set seed=one: seed must be a whole number of at least 0, got 'one'"),
        ("data.trg.lang=en", "--set data.trg.lang=en: data.trg is not a setting; did you mean tgt"),
    ],
)
def test_a_mistake_in_an_override_names_the_override(override, line):
    assert refused(ConfigError, "", load_config, CONFIGS / "reference.yaml", [override]).startswith(line)


# Values


def test_yaml_follows_the_rules_of_1_2():
    values = parse_yaml("a: 1e-3\nb: no\nc: 010\nd: 2024-01-01\ne: 1_000\nf: 12:30\ng: yes\nh: True\ni: ~\nj:\n")
    assert list(values.values()) == [1e-3, "no", 10, "2024-01-01", 1000, "12:30", "yes", True, None, None]


@pytest.mark.parametrize("name", ["1e-3", "no", "null", "~", "12", "ü 😀", "a: b", " x", "#", "<<"])
def test_odd_text_survives_saving(name, tmp_path):
    config = config_from_dict({**MINIMAL, "name": name, "training": {"learning_rate": 1e-05}})
    loaded = load_config(write(tmp_path, dump_config(config)))
    assert loaded == config and loaded.name == name


def test_a_config_cannot_be_changed():
    config = config_from_dict(MINIMAL)
    with pytest.raises(AttributeError, match="immutable.*with_changes"):
        config.seed = 3  # type: ignore[misc]


def test_sections_stand_alone():
    assert ModelConfig() == config_from_dict(MINIMAL).model


def test_pairs_as_they_are_written():
    text = 'no: 1\n~: 2\n1.5: 3\n"a b": 4\n'
    assert parse_written_pairs(text) == [("no", "1"), ("~", "2"), ("1.5", "3"), ("a b", "4")]


@pytest.mark.parametrize(
    "text", ["a", "a: [1]", "a: {b: 1}", "a: &x 1\nb: *x", "[" * 1_000_000, "{a: " * 100_000, "a: 1\n\tb: 2"]
)
def test_what_is_no_pairs_is_one_line(text):
    refused(ValueError, r"\A[^\n]+\Z", parse_written_pairs, text)


def test_no_version_of_pydantic_warns_of_our_names():
    """Before 2.10 it did at every start, of each setting that begins with `model_`."""
    assert any(name.startswith("model_") for name in Config.model_fields)
    for section in (Section, *Section.__subclasses__()):
        assert section.model_config["protected_namespaces"] == ()


# ---------------------------------------------------------------- from Python


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_settings_come_back_from_changes_and_files(path, tmp_path):
    config = Config.load(path)
    assert config == load_config(path)
    assert config.with_changes({}) == config
    config.save(tmp_path / "saved.yaml")
    assert Config.load(tmp_path / "saved.yaml").to_dict() == config.to_dict()
    assert Config.from_dict(config.to_dict()).to_dict() == config.to_dict()
    # What was not given stays so: the model section of a training that goes on from another model, for one.
    assert config.with_changes({"seed": 7}).model_fields_set == config.model_fields_set | {"seed"}


@pytest.mark.parametrize(
    "changes",
    [
        {"training.updates": 100, "training.batch_size": 64, "model_dir": "new"},
        {"training": {"updates": 100, "batch_size": 64}, "model_dir": Path("new")},
        {"training.updates": np.int64(100), "training": {"batch_size": 64}, "model_dir": "new"},
        ["training.updates=100", "training.batch_size=64", "model_dir=new"],
    ],
)
def test_changes_can_be_written_in_several_ways(changes, tmp_path):
    config = Config.from_dict(MINIMAL)
    (tmp_path / "c.yaml").write_text(json.dumps(MINIMAL))
    for found in (config.with_changes(changes), Config.load(tmp_path / "c.yaml", changes)):
        assert (found.training.updates, found.training.batch_size, found.model_dir) == (100, 64, "new")
    assert (config.training.updates, config.model_dir) == (None, "runs/x")
    assert found.data == config.data


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"training.updates": "many"}, "changes: training.updates must be .*, got 'many'"),
        ({"training.update": 3}, "changes: training.update is not a setting; did you mean training.updates"),
        ({"training..updates": 3}, "changes: must be KEY.PATH=VALUE"),
        ({"seed.x": 3}, "changes: seed must be a section of keys and values, got 5"),
        ({"training": 3}, "config: training must be a section"),
        ({"decoding.n_best": 9}, "config: decoding.n_best must be at most beam_size"),
        (
            {"model.encoder.rnn_type": Path},
            r"changes: model.encoder.rnn_type must be .* dotted path .*; write pathlib\S*\.Path",
        ),
        (
            {"model.decoder.rnn_type": type("Mine", (), {"__module__": "__main__"})},
            ".*; write a class .* file, my_cells.py",
        ),
        (["training.updates"], "--set training.updates: must be KEY.PATH=VALUE"),
    ],
)
def test_wrong_changes_are_one_line(changes, line):
    refused(ConfigError, rf"\A{line}[^\n]*\Z", Config.from_dict(MINIMAL | {"seed": 5}).with_changes, changes)


def test_other_kinds_of_changes_and_settings_are_type_errors():
    config = Config.from_dict(MINIMAL)
    for wrong in ("seed=3", 3, None):
        refused(TypeError, "^changes: must be a dict, or a list of texts, got ", config.with_changes, wrong)
    refused(TypeError, "^Config.from_dict: must be given a dict of settings, got str$", Config.from_dict, "config.yaml")
    with pytest.raises(TypeError, match="^Config.load: must be given the path of a settings file, got a section of"):
        Config.load(MINIMAL)
    refused(TypeError, "^Config: must be given settings by name, got a section of keys and", Config, MINIMAL)


def test_files_that_cannot_be_read_or_written(tmp_path):
    refused(ConfigError, "none.yaml: no such file", Config.load, tmp_path / "none.yaml")
    config = Config.from_dict(MINIMAL)
    for place in (tmp_path / "no folder" / "c.yaml", tmp_path):
        refused(ConfigError, r"\A[^\n]*: must be written, got [^\n]*\Z", config.save, place)
    (tmp_path / "c.yaml").write_text("a text of mine\n")
    with pytest.raises(ConfigError, match=r"c.yaml: must be a new file or one of settings, got another file"):
        config.save(str(tmp_path / "c.yaml"))
    assert (tmp_path / "c.yaml").read_text() == "a text of mine\n"
    (tmp_path / "c.yaml").unlink()
    for _ in range(2):
        config.save(str(tmp_path / "c.yaml"))
    assert [one.name for one in tmp_path.iterdir()] == ["c.yaml"] and Config.load(tmp_path / "c.yaml")


def test_several_unknown_settings_are_all_named():
    values = {"training": {"lr": 1, "optim": "adam"}, "data": {"foo": 1}, "seed": -1}
    line = refused(ConfigError, "", config_from_dict, values)
    assert "training.lr is not a setting; did you mean training.learning_rate? And " in line
    assert "training.optim is not a setting; did you mean training.optimizer?" in line
    assert "data.foo is not a setting; known here: " in line
    assert "more mistake" in line


def test_what_to_expect_is_what_was_measured_with_as_much_text():
    assert {one.pairs for one in measured()} >= {1000, 4000}
    for pairs in (950, 1200, 2200):  # the nearest that promises no more
        said = expectation(pairs)
        assert said is not None and said.startswith("expect about ") and " on text like this, and at most " in said
        assert all(f" BLEU (as 1,000 pairs of {kind})" in said for kind in ("captions", "news", "Cherokee"))
    assert expectation(1) is expectation(10**7) is None
    assert all((one.right is None) != (one.bleu is None) for one in measured())
