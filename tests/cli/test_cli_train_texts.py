"""nmt-train without a config: two files or a table, and what is chosen for them."""

import json
from pathlib import Path

import pytest
import yaml

from nmt.config import config_from_dict
from nmt.errors import CheckpointError, DataError
from nmt.train.tasks.plain_texts import Texts, settings_of
from tests.cli.conftest import Run
from tests.processes import python
from tests.refusals import refused
from tests.train import fake_model

SMALL = ["--set", "training.metric=loss", "--set", "data.subwords.vocab_size=auto"]


def _lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def _pair(folder: Path, count: int, names: tuple[str, str] = ("a.de", "a.en")) -> tuple[str, str]:
    sides = [[f"{word} {number} times" for number in range(count)] for word in ("quelle", "target")]
    return tuple(str(_lines(folder / name, side)) for name, side in zip(names, sides, strict=True))


def test_the_next_command_allows_the_cells_of_the_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_model.write_corpus(tmp_path, "train", 60, seed=1)
    (tmp_path / "cells_of_mine.py").write_text("from nmt.rnn import GRUCell as Mine\n")
    monkeypatch.chdir(tmp_path)
    cell = "model.encoder.rnn_type=cells_of_mine.Mine"
    files = [tmp_path / "train.xx", tmp_path / "train.yy", "-o", tmp_path / "m", "--set", "training.updates=50"]
    result = run("nmt-train", *files, "--set", cell)
    assert result.err.endswith(f"Try it: nmt-translate {tmp_path / 'm'} --cells cells_of_mine\n")


def test_a_program_of_an_archive_names_itself() -> None:
    program = "import runpy; runpy.run_module('nmt', run_name='__main__', alter_sys=True)"
    done = python(program, "train", "--nonsense", code=2, NMT_PROGRAM="./nmt")
    assert done.stderr.endswith(" See ./nmt train --help.\n")


def test_two_files_train_a_model(run: Run, tmp_path: Path) -> None:
    fake_model.write_corpus(tmp_path, "train", 60, seed=1)
    model = tmp_path / "model"
    arguments = ["nmt-train", tmp_path / "train.xx", tmp_path / "train.yy", "-o", model, "--set", "training.updates=50"]
    result = run(*arguments)
    assert "60 pairs of sentences: preset low-resource" in result.err
    assert f"3 pairs held out for validation, in {model}/dev.xx and {model}/dev.yy" in result.err
    assert result.lines[0].startswith(f"best\t{model}/best.safetensors\tupdate ")
    assert result.err.endswith(f"Try it: nmt-translate {model}\n")
    assert f"\nsettings: {model}/config.yaml\n" in result.err, "not each of them"
    assert "3 held out for validation" in result.err and "preset low-resource: " not in result.err
    log = (model / "train.log").read_text()
    assert "preset low-resource: training: " in log and "  preset low-resource: model: " in log
    held_out = (model / "dev.xx").read_bytes()

    run("nmt-train", model / "config.yaml")
    assert "this run was finished before: 50 updates (training.updates); nothing is" in run(*arguments).err
    assert (model / "dev.xx").read_bytes() == held_out


def test_languages_and_prefix_by_the_names_of_files() -> None:
    assert Texts(("data/t.de.gz", "data/t.en.gz")).langs == ("de", "en")
    assert Texts(("data/t.de.gz", "data/t.en.gz")).setting() == str(Path("data/t"))
    assert Texts(("de.txt", "t-en.txt")).langs == ("de", "en") and Texts(("a.txt", "en.txt")).langs == ("src", "tgt")
    assert Texts(("de.txt", "en.txt")).setting() == [{"path": "de.txt", "tgt_path": "en.txt"}]
    assert Texts(("a.pt-BR", "b.en")).setting() == [{"path": "a.pt-BR", "tgt_path": "b.en"}]
    assert Texts(("words.tsv",)).setting() == [{"path": "words.tsv"}]


def test_held_out_pairs_are_not_learned(tmp_path: Path) -> None:
    """The pairs held out are distinct, are pairs of the corpus, and frequent sources stay in training."""
    pairs = [f"common\tc {number}" for number in range(50)] + [f"rare {number}\tr {number}" for number in range(150)]
    table = str(_lines(tmp_path / "t.tsv", pairs))
    told: list[str] = []
    chosen = settings_of(Texts((table,)), None, tmp_path / "m", None, told.append)
    assert not (tmp_path / "m").exists(), "nothing is written yet"
    chosen.write(told.append)
    values = chosen.values
    held_out = [(tmp_path / "m" / f"dev.{lang}").read_text().splitlines() for lang in ("src", "tgt")]
    rows = ["\t".join(pair) for pair in zip(*held_out, strict=True)]
    assert len(rows) == len(set(held_out[0])) == 10
    assert set(rows) <= set(pairs)
    assert "common" not in held_out[0]
    assert values["data"]["filter"] == {"overlap": "exact"}
    assert values["data"]["dev"] == str(tmp_path / "m" / "dev")
    assert len(told) == 3


@pytest.mark.parametrize(
    ("row", "count", "preset"),
    [
        ("word{0}\tw o r d", 30, "character"),
        ("{0:b}\t{0:b}", 200, "edits"),
        ("{0:b}\t{0:b}{0:b}", 200, "character"),
        ("{0:b} +V +PST\t{0:b}", 200, "edits"),
        ("a line {0}\tb", 30, "low-resource"),
        ("a line {0}\tb", 15_000, "captions"),
    ],
)
def test_preset_by_the_text(tmp_path: Path, row: str, count: int, preset: str) -> None:
    table = str(_lines(tmp_path / "t.tsv", [row.format(number) for number in range(count)]))
    assert settings_of(Texts((table,)), None, tmp_path / "m", None).values["preset"] == preset
    assert settings_of(Texts((table,)), None, tmp_path / "m", "tiny").values["preset"] == "tiny", "a given one stays"


@pytest.mark.parametrize(("count", "size", "passes"), [(200, 192, 50), (3_000, 256, 50), (10_000, 256, 30)])
def test_more_words_get_a_larger_model(tmp_path: Path, count: int, size: int, passes: float) -> None:
    table = str(_lines(tmp_path / "t.tsv", [f"{number:b}\t{number:b}" for number in range(count)]))
    told: list[str] = []
    chosen = settings_of(Texts((table,)), None, tmp_path / "m", None, told.append)
    assert any(
        line.startswith(f"{count:,} pairs of single words, whose targets are edits of the sources: preset edits")
        for line in told
    )
    config = config_from_dict(chosen.values)
    assert (config.model.decoder.hidden_size, config.training.auto_epochs) == (size, passes)
    assert config.model.decoder.edit_actions and config.data.subwords.type == "char"
    again = settings_of(Texts((table,)), None, tmp_path / "m", "edits")
    assert again.values == chosen.values, "as for a run that is resumed"


def test_symbols_of_another_script_than_edits_can_have(tmp_path: Path) -> None:
    rows = [f"{chr(0x4E00 + number)}\t{chr(0x4E00 + number)}" for number in range(4_100)]
    table = str(_lines(tmp_path / "t.tsv", rows))
    assert settings_of(Texts((table,)), None, tmp_path / "m", None).values["preset"] == "character"


@pytest.mark.parametrize(
    ("row", "column", "edits"),
    [
        ("walk{0}\twalked{0}\tV;PST", 3, False),
        ("walk{0:b}\t{0:b}ed\tV;PST", 3, True),
        ("walk{0} on\tV;NOM(3,SG);PST\twalked{0} on", 2, False),
        ("walk{0}\twalked{0}\tsome words", None, False),
        ("walk{0}\twalked{0}\tV;PST\tmore", None, False),
        ("WALK;{0}\tWALKED;{0}", None, False),
    ],
)
def test_tables_of_inflection_are_recognised(tmp_path: Path, row: str, column: int | None, edits: bool) -> None:
    table = str(_lines(tmp_path / "t.tsv", [row.format(number) for number in range(40)]))
    told: list[str] = []
    chosen = settings_of(Texts((table,)), None, tmp_path / "m", None, told.append)
    chosen.write()
    values = chosen.values
    (train,) = values["data"]["train"]
    assert train.get("features_column") == column
    if column is not None:
        assert values["preset"] == ("edits" if edits else "character") and f"features in column {column}" in told[1]
        config = config_from_dict(values)
        assert (config.model.decoder.edit_actions, config.model.decoder.copy_source) == (edits, not edits)
        assert config.data.subwords.joint
        assert config.data.subwords.type == "char", "the rest is the preset's"
        source, form = (read_lines_of(tmp_path / "m" / f"dev.{side}")[0] for side in ("src", "tgt"))
        assert source.startswith("walk") and source.endswith("+PST") and "ed" in form


def read_lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_table_of_inflection_trains_and_translates_words_with_features(run: Run, tmp_path: Path) -> None:
    rows = [f"{word}\t{word}{end}\tV;{tag}" for word in ("abba", "baba", "aba", "bab") for tag, end in PAST.items()]
    table = _lines(tmp_path / "t.tsv", rows * 3)
    given = _lines(tmp_path / "in.txt", ["abab\tV;PST", "abab +V +PST", "abab\tababed\tV;PST"])
    small = ["--preset", "tiny", "--set", "data.subwords.type=char", "--set", "data.subwords.vocab_size=auto"]
    small += ["--set", "training.updates=3", "--set", "training.metric=loss"]
    run("nmt-train", table, "-o", tmp_path / "m", "--dev", table, *small)
    vocabulary = run("nmt-translate", tmp_path / "m", given, "-o", tmp_path / "out.txt", "--n-best", "1")
    one, *others = (line.split("\t")[2:] for line in read_lines_of(tmp_path / "out.txt"))
    assert [one, one] == others, "a tab, as the model reads it, a row of the task"
    assert "no features" not in vocabulary.err
    bare = run("nmt-translate", tmp_path / "m", _lines(tmp_path / "bare.txt", ["abab"]), "-o", tmp_path / "bare")
    assert "bare.txt: the word has no features; write the word, a tab" in bare.err


PAST = {"PST": "ed", "PRS": "s", "NFIN": ""}


def test_a_folder_that_cannot_be_made_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "disk").symlink_to(tmp_path / "gone")
    for place in ("disk", "disk/m"):
        result = run("nmt-train", *_pair(tmp_path, 30), "-o", tmp_path / place, "--preset", "tiny", code=1)
        assert "must be a folder that can be made and written, got" in result.err
        assert result.err.count("\n") <= 2 and "Traceback" not in result.err


def test_one_file_that_is_no_table_gets_advice(run: Run, tmp_path: Path) -> None:
    for name, text, told in (("w.txt", "a\tb", f"name it {tmp_path}/w.tsv."), ("w.docx", "PK\3\4", "copy its table")):
        result = run("nmt-train", _lines(tmp_path / name, [text]), "-o", tmp_path / "m", code=2)
        assert told in result.err


def test_given_validation_text(tmp_path: Path) -> None:
    train, dev = _pair(tmp_path, 30), _pair(tmp_path, 5, ("d.txt", "e.txt"))
    values = settings_of(Texts(train), Texts(dev), tmp_path / "m", None).values
    assert values["data"]["dev"] == [{"path": dev[0], "tgt_path": dev[1]}]
    assert "filter" not in values["data"]
    assert not (tmp_path / "m").exists()


def test_validation_text_that_is_missing_or_too_few_pairs_end_it_before_anything_is_written(tmp_path: Path) -> None:
    few = r"must have at least 20 pairs .* got 19; name a validation text with --dev"
    unnamed = _pair(tmp_path, 40, ("a.txt", "b.txt"))
    for pair, dev, line in ((_pair(tmp_path, 19), None, few), (unnamed, Texts(("nowhere",)), r"nowhere\.src")):
        refused(DataError, line, settings_of, Texts(pair), dev, tmp_path / "m", None)
    assert not (tmp_path / "m").exists()


def test_show_config_writes_nothing(run: Run, tmp_path: Path) -> None:
    files = _pair(tmp_path, 40)
    result = run("nmt-train", *files, "-o", tmp_path / "m", "--show-config")
    assert yaml.safe_load(result.out)["data"]["train"] == str(tmp_path / "a")
    assert not (tmp_path / "m").exists()
    assert json.loads(run("nmt-train", *files, "-o", tmp_path / "m", "--check-data", "--json").out)


def test_a_folder_may_have_any_name(run: Run, setup: Path, tmp_path: Path) -> None:
    """A name that is another YAML value stays text, and `.` is not the name of a run."""
    assert yaml.safe_load(run("nmt-train", setup / "c.yaml", "-o", "2024", "--show-config").out)["model_dir"] == "2024"
    run("nmt-train", *_pair(tmp_path, 40), "-o", ".", "--show-config")


def test_held_out_text_of_another_corpus_is_refused(tmp_path: Path) -> None:
    """It may be left from a run that did not begin; that of the same corpus is the same."""
    files = _pair(tmp_path, 40)
    settings_of(Texts(files), None, tmp_path / "m", "tiny").write()
    settings_of(Texts(files), None, tmp_path / "m", "tiny").write()
    others = _pair(tmp_path, 60, ("other.de", "other.en"))
    with pytest.raises(CheckpointError, match=r"m[/\\]dev\.de: must be text held out of this training text, got other"):
        settings_of(Texts(others), None, tmp_path / "m", "tiny").write()


@pytest.mark.parametrize("wrong", [["--set", "training.max_steps=5"], ["--budget", "soon"]])
def test_a_refused_command_writes_nothing(run: Run, tmp_path: Path, wrong: list[str]) -> None:
    assert "Error: " in run("nmt-train", *_pair(tmp_path, 40), "-o", tmp_path / "m", *wrong, code=1).err
    assert not (tmp_path / "m").exists()


def test_a_run_without_dev_keeps_the_validation_text_it_began_with(run: Run, tmp_path: Path) -> None:
    """Lines held out now would be lines that it has learned."""
    fake_model.write_setup(tmp_path)
    sides = [str(tmp_path / f"train.{side}") for side in ("xx", "yy")]
    dev = [word for side in ("xx", "yy") for word in ("--dev", str(tmp_path / f"dev.{side}"))]
    model = tmp_path / "m"
    begin = ["nmt-train", *sides, "-o", model, *SMALL]
    run(*begin, "--preset", "tiny", *dev, "--set", "training.updates=4")
    best = (model / "best.safetensors").read_bytes()
    result = run(*begin, "--set", "training.updates=4")
    assert f"validation text: {tmp_path}/dev, that of the run so far" in result.err
    assert "nothing is trained" in result.err and (model / "best.safetensors").read_bytes() == best
    assert "the validation text is another" not in run(*begin, "--set", "training.updates=8").err
    assert not (model / "dev.xx").exists()


def test_a_run_keeps_the_text_that_it_held_out(run: Run, tmp_path: Path) -> None:
    """Also where that text is named, and where the folder has moved."""
    fake_model.write_setup(tmp_path)
    sides = [str(tmp_path / f"train.{side}") for side in ("xx", "yy")]
    small = ["--preset", "tiny", *SMALL, "--set", "training.updates=4"]
    run("nmt-train", *sides, "-o", tmp_path / "m", *small)
    model = (tmp_path / "m").rename(tmp_path / "moved")
    best = (model / "best.safetensors").read_bytes()
    for more in ([], [word for side in ("xx", "yy") for word in ("--dev", model / f"dev.{side}")]):
        result = run("nmt-train", *sides, "-o", model, *small, *more)
        assert "finished" in result.err and (model / "best.safetensors").read_bytes() == best
        assert f"validation text: {model}/dev.xx and {model}/dev.yy, which are there already" in result.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            "--columns 2,1",
            "must stay a model from de to en, as it was begun, got en to de; name another folder with -o",
        ),
        ("-s chr -t en", "got chr to en; name another folder with -o, or train on with its own settings: nmt-train"),
        ("--columns 2,1 -s de -t en", "it was trained on, {0}/t.tsv, got {0}/t.tsv with columns 2,1; choose another"),
        ("--columns 1,2 --set training.updates=5", "validation text: {0}/m/dev.de and {0}/m/dev.en, which are there"),
    ],
)
def test_a_run_in_other_languages_or_columns_is_told(run: Run, tmp_path: Path, options: str, told: str) -> None:
    rows = ["de\ten\tnote", *(f"ein Satz {n}\ta line {n}\tof {n} or so" for n in range(60))]
    table = _lines(tmp_path / "t.tsv", rows)
    begin = ["nmt-train", table, "-o", tmp_path / "m", "--preset", "tiny", *SMALL, "--set", "training.updates=4"]
    run(*begin, "--columns", "1,2")
    assert told.format(tmp_path) in run(*begin, *options.split(), code="are there" not in told).err


@pytest.mark.parametrize(
    ("name", "options", "langs"),
    [
        ("words.chr-en.tsv", [], ("chr", "en")),
        ("words.tsv", [], ("src", "tgt")),
        ("words.tsv", ["-s", "ka", "-t", "ipa"], ("ka", "ipa")),
        ("words.chr-en.tsv", ["--tgt-lang", "ipa"], ("chr", "ipa")),
        ("words.tsv", ["-s", "Cherokee", "-t", "en"], ("Cherokee", "en")),
        ("words.tsv", ["--set", "data.src.lang=ka", "--set", "data.tgt.lang=ipa"], ("ka", "ipa")),
    ],
)
def test_languages_of_a_table(run: Run, tmp_path: Path, name: str, options: list[str], langs: tuple[str, str]) -> None:
    table = _lines(tmp_path / name, [f"a line {number}\tb {number}" for number in range(40)])
    result = run("nmt-train", table, "-o", tmp_path / "m", "--check-data", *options)
    assert (tmp_path / "m" / f"dev.{langs[0]}").is_file() and (tmp_path / "m" / f"dev.{langs[1]}").is_file(), result.err
    shown = run("nmt-train", table, "-o", tmp_path / "m", "--show-config", *options)
    assert ("Cherokee is kept as the code of a language; programs know it as -s chr" in shown.err) is ("en" in options)
    data = yaml.safe_load(shown.out)["data"]
    assert (data["src"]["lang"], data["tgt"]["lang"]) == langs


def test_languages_of_two_files_may_be_named(tmp_path: Path) -> None:
    assert Texts(("a.de", "a.en"), ("ger", None)).langs == ("ger", "en")
    assert Texts(("a.de", "a.en"), ("ger", None)).setting() == [{"path": "a.de", "tgt_path": "a.en"}]
    assert Texts(("a.de", "a.en"), ("de", "en")).setting() == "a"
    assert Texts(("rows.de-en.jsonl",)).langs == ("de", "en")


def test_the_validation_text_is_named_always(run: Run, tmp_path: Path) -> None:
    """Files of the user's own by the names of those that are held out are used if they are named."""
    files = _pair(tmp_path, 40)
    own = tmp_path / "own"
    own.mkdir()
    _pair(own, 5, ("dev.de", "dev.en"))
    dev = [word for side in ("de", "en") for word in ("--dev", own / f"dev.{side}")]
    result = run("nmt-train", *files, "-o", own, "--check-data", *dev)
    assert f"validation text: {own}/dev.de and {own}/dev.en, which are there already" in result.err
    assert "or this text with --dev" in run("nmt-train", *files, "-o", own, "--check-data", code=1).err
    given = run("nmt-train", *files, "-o", tmp_path / "m", "--check-data", "--dev", files[0], "--dev", files[1])
    assert f"validation text: {files[0]} and {files[1]}" in given.err


def test_a_config_of_something_else_is_refused_before_anything_is_read(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.yaml").write_text("title: my site\n")
    result = run("nmt-train", *_pair(tmp_path, 40), "-o", tmp_path / "m", code=1)
    assert result.err.count("\n") == 1
    assert "model_dir must be new or written by nmt-train, got one with a config.yaml of something else" in result.err
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["config.yaml"]
