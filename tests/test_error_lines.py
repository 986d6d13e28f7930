"""Errors and warnings are one line each, whatever they repeat of what a user gave."""

import pickle
import warnings

import pytest
from click.testing import CliRunner

from nmt import errors
from nmt.cli.commands.train import train
from nmt.cli.commands.translate import translate
from nmt.cli.lines.streams import telling_warnings
from nmt.config import Config
from nmt.data.tokens.factors import FactorError
from nmt.data.tokens.subwords import VocabularyError
from nmt.errors import ConfigError, NMTError, NMTWarning
from nmt.train.log.progress import LOG_NAME, TrainingLog

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
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(values)
    assert is_one_line(str(caught.value))


@pytest.mark.parametrize("change", ["seed=>\n  x", "se\ned", "training.a\nb=1", "=\n"])
def test_a_change_with_line_breaks_is_one_line(tmp_path, change):
    (tmp_path / "own.yaml").write_text("model_dir: x\n")
    done = CliRunner().invoke(train, [str(tmp_path / "own.yaml"), "--set", change])
    assert done.exit_code == 1 and is_one_line(done.stderr)


@pytest.mark.parametrize(
    "options", [["--beam-size", "a\nb"], ["--a\nb"], ["--device", "a\nb"], ["no\nmodel", "no\ntext"]]
)
def test_an_option_with_line_breaks_is_one_line(options):
    done = CliRunner().invoke(translate, options)
    assert done.exit_code in (1, 2) and is_one_line(done.stderr)


def test_a_warning_with_line_breaks_is_one_line(capsys, tmp_path):
    with telling_warnings():
        warnings.warn(BROKEN, NMTWarning, stacklevel=1)
    assert is_one_line(capsys.readouterr().err)
    log = TrainingLog(tmp_path)
    log.line(f"warning: {BROKEN}")
    log.close()
    assert is_one_line((tmp_path / LOG_NAME).read_text("utf-8"))
