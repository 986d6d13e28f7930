"""What may be wrong with a translation is said: in its `warnings`, and by commands once a kind with the lines."""

import json
import pickle
import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from nmt import Translator, errors
from nmt.cli.commands.evaluate import evaluate
from nmt.cli.commands.score import score
from nmt.cli.commands.shortlist import shortlist
from nmt.cli.commands.train import train
from nmt.cli.commands.translate import translate
from nmt.cli.lines.streams import telling_warnings
from nmt.config import Config
from nmt.data.tokens.factors import FactorError
from nmt.data.tokens.subwords import VocabularyError
from nmt.decode import SearchOptions
from nmt.errors import ConfigError, NMTError, NMTWarning
from nmt.inference import translation
from nmt.inference.pipeline import source_ids
from nmt.inference.translation import CUT, EMPTY, LENGTHENED, UNFOLLOWED, UNKNOWN, Constraints
from nmt.storage.saved_model import load_saved_model
from nmt.storage.tensor_file import map_tensors, write_tensors
from nmt.system.notices import Notices
from nmt.train.log.progress import LOG_NAME, TrainingLog
from tests.cli.test_cli_models import call
from tests.refusals import refused

LONG = "kara " * 1200
TEXT = f"kara losu\n\n{LONG}\nmiti\n\u200b\n"


@pytest.fixture(scope="module")
def broken(folder, tmp_path_factory):
    """The same model with a bias that is no number."""
    other = shutil.copytree(folder, tmp_path_factory.mktemp("broken") / "model")
    tensors, content = map_tensors(folder / "best.safetensors")
    tensors["params/output.b"][:] = np.nan
    write_tensors(other / "best.safetensors", tensors, content)
    return other


def copied(path: Path) -> Path:
    """Return a copy: no text is a translation of itself."""
    return Path(shutil.copy(path, path.with_name(f"{path.name}-copy")))


def test_a_source_that_is_cut(folder):
    translator = Translator.load(folder)
    short, blank, long = translator.translate_nbest(["kara losu", "", LONG], n_best=2, min_length=1)
    assert [one.warnings for one in (*short, *blank)] == [()] * 3
    assert [one.warnings for one in long] == [(CUT,)] * 2
    assert translator.session(LONG).complete(min_length=1)[0].warnings == (CUT,)
    assert CUT in translator.score([LONG], ["kara"])[0].warnings
    assert CUT not in translator.score(["kara"], [LONG])[0].warnings


SETTINGS = {"min_length": 6, "max_length_ratio": 1.0, "max_length_extra": 0}


@pytest.mark.parametrize("constraints", [None, Constraints(prefixes="kara losu miti nura kara losu miti")])
def test_a_least_length_that_the_source_does_not_allow(constraints, folder):
    """Of each sentence by itself, whatever stands beside it and however long a prefix is."""
    translator = Translator.load(folder)
    short, blank, long = "kara", "", "kara losu miti " * 4
    assert len(source_ids(translator, [short])[0]) <= 6 < len(source_ids(translator, [long])[0])
    for lines in ([short, blank, long], [short], [long]):
        found = translator.translate_nbest(lines, n_best=2, constraints=constraints, **SETTINGS)
        told = [LENGTHENED in one.warnings for row in found for one in row]
        assert told == [line == short for line, row in zip(lines, found, strict=True) for _ in row]
    assert not any(one.warnings for row in translator.translate_nbest([short], max_length_extra=9) for one in row)
    for line in (short, long):
        (found,) = translator.session(line).complete(**SETTINGS)
        assert (LENGTHENED in found.warnings) == (line == short)


@pytest.mark.parametrize("least", [0, 1, 6])
@pytest.mark.parametrize(("ratio", "extra"), [(1.0, 0), (0.5, 3), (0.001, 6), (0.001, 0)])
def test_the_search_and_the_warning_know_one_most_length(least, ratio, extra):
    for source in ([4] * count for count in range(1, 20)):
        chosen = SearchOptions(min_length=least, max_length_ratio=ratio, max_length_extra=extra)
        limits = [one.limits([source])[0] for one in (chosen, replace(chosen, min_length=0))]
        assert translation.length_warnings(chosen, source) == ((LENGTHENED,) if limits[0] > limits[1] else ())


def test_commands_tell_of_a_least_length_that_lines_do_not_allow(folder, tmp_path):
    (tmp_path / "s").write_text("kara\n" + "kara losu miti " * 4 + "\nlosu\n")
    told = f"warning: {tmp_path / 's'}: {LENGTHENED} (2 lines: 1, 3)\n"
    options = ["--min-length", 6, "--max-length-ratio", 1, "--max-length-extra", 0]
    assert told in call(translate, folder, tmp_path / "s", *options).stderr
    strict = shutil.copytree(folder, tmp_path / "strict")
    config = (strict / "config.yaml").read_text()
    for name, value in SETTINGS.items():
        config = re.sub(rf"(?m)^  {name}: .*$", f"  {name}: {value}", config)
    (strict / "config.yaml").write_text(config)
    assert told in call(evaluate, strict, "--src", tmp_path / "s", "--ref", copied(tmp_path / "s")).stderr


def test_an_empty_translation(folder):
    found = [one[0] for one in Translator.load(folder).translate_nbest(["kara losu", "", "\u200b"])]
    assert [(one.text, one.warnings) for one in found] == [("", (EMPTY,)), ("", ()), ("", ())]


def test_characters_that_the_model_does_not_know(folder, tmp_path):
    translator = Translator.load(folder)
    found = [UNKNOWN in one[0].warnings for one in translator.translate_nbest(["kara losu", "ᎣᏏᏲ", "kara 中", ""])]
    assert found == [False, True, True, False]
    (tmp_path / "s").write_text("kara\nᎣᏏᏲ\n")
    assert f"{UNKNOWN} (line 2)" in call(translate, folder, tmp_path / "s").stderr


def test_nothing_can_be_said(folder, monkeypatch):
    words = [[i] for i in range(1, load_saved_model(folder).tgt_subwords.vocab_size)]  # each but the first
    monkeypatch.setattr(Translator, "_ids_of_constraints", lambda *given: {"forbidden": words})
    (found,) = Translator.load(folder).translate_nbest(["kara losu"], constraints=Constraints(forbidden=["x"]))
    assert [(one.text, one.warnings) for one in found] == [("", (translation.UNSAYABLE,))]


def test_scores_that_are_no_numbers(broken):
    translator = Translator.load(broken)
    assert translation.NOT_A_NUMBER in translator.translate_nbest(["kara losu"])[0][0].warnings
    assert translator.translate_nbest(["kara losu"], beam_size=1)[0][0].warnings == (translation.UNSAYABLE,)
    assert translation.NOT_A_NUMBER in translator.score(["kara"], ["losu"])[0].warnings


def test_commands_tell_each_kind_once(folder, broken, tmp_path):
    (tmp_path / "s").write_text(TEXT)
    long, empty = f"{CUT} (line 3)", f"{EMPTY} (2 lines: 1, 3)"
    for form in ("text", "json"):
        result = call(translate, folder, tmp_path / "s", "--output-format", form)
        assert result.stderr == f"warning: {tmp_path / 's'}: {empty}\nwarning: {tmp_path / 's'}: {long}\n"
    records = [json.loads(line) for line in result.stdout.splitlines()]
    cut = [CUT in record["translations"][0].get("warnings", []) for record in records]
    assert cut == [False, False, True, False, False]
    result = call(evaluate, folder, "--src", tmp_path / "s", "--ref", copied(tmp_path / "s"))
    assert f"warning: {tmp_path / 's'}: {long}\n" in result.stderr and empty in result.stderr
    result = call(score, folder, "--src", tmp_path / "s", "--tgt", copied(tmp_path / "s"))
    assert result.stderr.count("warning: ") == 1 and long in result.stderr
    result = call(score, broken, "--src", tmp_path / "s", "--tgt", copied(tmp_path / "s"), "--output-format", "json")
    assert f"{translation.NOT_A_NUMBER} (5 lines: 1, 2, 3, 4, 5)" in result.stderr
    assert json.loads(result.stdout.splitlines()[0])["log_prob"] is None


def test_learning_a_shortlist_tells_of_cut_lines(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "s").write_text(f"kara losu\n{LONG}\n")
    (tmp_path / "t").write_text("losu\nmiti\n")
    sides = ["--src", tmp_path / "s", "--tgt", tmp_path / "t"]
    sides += ["--dev-src", tmp_path / "t", "--dev-tgt", copied(tmp_path / "t")]
    assert call(shortlist, other, *sides).stderr == f"warning: {tmp_path / 's'}: {CUT} (line 2)\n"


def test_notices_count_and_name_the_first():
    notices = Notices()
    for number in range(2000):
        notices.add(number, ["a", "a"] if number % 2 else ["b"] * (number == 6))
    assert notices.told() == ["a (1,000 lines: 2, 4, 6, 8, 10, ...)", "b (line 7)"]


def test_one_prefix_for_all(folder, tmp_path):
    translator = Translator.load(folder)
    lines = ["kara losu", "", "miti"]
    one = translator.translate_nbest(lines, constraints=Constraints(prefixes="losu nura"))
    assert one == translator.translate_nbest(lines, constraints=Constraints(prefixes=["losu nura"] * 3))
    assert [found[0].text[:9] for found in one] == ["losu nura", "", "losu nura"]
    given = "".join(f"{line}\n" for line in lines)
    (tmp_path / "p").write_text("losu nura\n" * 3)
    ways = ["--prefix-text", "losu nura"], ["--prefix", tmp_path / "p"]
    shown = [call(translate, folder, *way, given=given) for way in ways]
    assert shown[0].stdout == shown[1].stdout == "".join(f"{found[0].text}\n" for found in one)
    result = call(translate, folder, "--prefix-text", "x", "--prefix", tmp_path / "p", given=given, code=2)
    assert "Give --prefix, a text for each line, or --prefix-text" in result.stderr


def test_terms_that_were_not_followed_are_told(folder, tmp_path):
    """The server told them, nmt-translate never did."""
    (tmp_path / "s").write_text("kara losu.\n(Miti) kara\nlosu\n\nkaras\n")
    (tmp_path / "g").write_text("kara = losu miti\nmiti\tzorro\n")
    told = f"warning: {tmp_path / 's'}: {UNFOLLOWED} (2 lines: 1, 2)\n"
    arguments = [folder, tmp_path / "s", "--glossary", tmp_path / "g"]
    unfollowed, plain = call(translate, *arguments, "--glossary-bonus", 0), call(translate, *arguments[:2])
    assert told in unfollowed.stderr and UNFOLLOWED not in plain.stderr and unfollowed.stdout == plain.stdout
    assert told in call(translate, *arguments, "--glossary-bonus", 0, "--format", "text").stderr
    records = call(translate, *arguments, "--glossary-bonus", 0, "--output-format", "json").stdout.splitlines()
    told = [UNFOLLOWED in json.loads(line)["translations"][0].get("warnings", []) for line in records]
    assert told == [True, True, False, False, False]
    (tmp_path / "g").write_text(f"kara = {unfollowed.stdout.split()[0]}\n")
    (tmp_path / "s").write_text("kara losu.\n")
    assert UNFOLLOWED not in call(translate, *arguments, "--glossary-bonus", 0).stderr


BROKEN = "a\nb\r\x0b\x0c\x1b[2J\x85\u2028\u2029c"
KINDS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, NMTError | NMTWarning)]


def is_one_line(text):
    return len(text.splitlines()) == 1 and "\x1b" not in text


@pytest.mark.parametrize("kind", [*KINDS, VocabularyError, lambda text: FactorError(text, 3)])
def test_every_kind_of_error_is_one_line(kind):
    error = kind(f"{BROKEN}: must be")
    assert is_one_line(str(error)) and r"a\nb\r" in str(error)
    assert str(NMTError(f"x: {error}")) == f"x: {error}"  # nothing is escaped twice


def test_an_error_is_the_same_after_pickling():
    assert str(pickle.loads(pickle.dumps(ConfigError(BROKEN)))) == str(ConfigError(BROKEN))


VALUES = [{"training": {name: "a\nb"}} for name in ("freeze", "adam_betas", "print_valid_sents", "seed")]


@pytest.mark.parametrize("values", [*VALUES, {"training": {BROKEN: 1}}, {BROKEN: 1}, {"data": {"src": {BROKEN: 1}}}])
def test_a_setting_with_line_breaks_is_one_line(values):
    assert is_one_line(refused(ConfigError, "", Config.from_dict, values))


WORDS = [(translate, *words) for words in (["--beam-size", "a\nb"], ["--a\nb"], ["--device", "a\nb"], ["a\nb", "c\nd"])]
WORDS += [(train, "own.yaml", "--set", change) for change in ("seed=>\n  x", "se\ned", "training.a\nb=1", "=\n")]


@pytest.mark.parametrize("words", WORDS)
def test_words_with_line_breaks_are_told_in_one_line(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("model_dir: x\n")
    done = CliRunner().invoke(words[0], words[1:])
    assert done.exit_code in ((1, 2) if words[0] is translate else (1,)) and is_one_line(done.stderr)


def test_a_warning_with_line_breaks_is_one_line(capsys, tmp_path):
    with telling_warnings():
        warnings.warn(BROKEN, NMTWarning, stacklevel=1)
    assert is_one_line(capsys.readouterr().err)
    log = TrainingLog(tmp_path)
    log.line(f"warning: {BROKEN}")
    log.close()
    assert is_one_line((tmp_path / LOG_NAME).read_text("utf-8"))
