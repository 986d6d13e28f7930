"""Translators with a language model, from folders and files to scores and one-line errors."""

import json

import pytest
import yaml

from nmt import LanguageScorer, Translator
from nmt.cli.commands.evaluate import evaluate
from nmt.cli.commands.score import score
from nmt.cli.commands.translate import translate
from nmt.errors import CheckpointError, ConfigError
from nmt.inference.translation import Constraints
from nmt.storage.saved_model import load_saved_model, save_bundle, save_quantised
from tests.cli.test_cli_models import call
from tests.refusals import refused
from tests.saved_models import sentences, write_folder, write_language_folder

LINES = ["", *sentences(12, seed=5)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A translator and a language model over its target's subwords."""
    where = tmp_path_factory.mktemp("fusion")
    folder = write_folder(where / "model", joint=False)
    return folder, write_language_folder(where / "lm", load_saved_model(folder).tgt_subwords)


@pytest.fixture(scope="module")
def fused(folders):
    return Translator.load(folders[0], lm=folders[1], threads=1)


def numbers(found):
    return [[(t.text, t.score, t.log_prob) for t in some] for some in found]


def test_scores_are_those_of_forced_decoding_and_of_both_models(folders, fused):
    found = fused.translate_nbest(LINES, n_best=2, lm_weight=0.5, details=True)
    plain, prior = Translator.load(folders[0], threads=1), LanguageScorer.load(folders[1], threads=1)
    assert numbers(found) != numbers(plain.translate_nbest(LINES, n_best=2))
    compared = 0
    for line, translations in zip(LINES[1:], found[1:], strict=True):
        for t in translations:
            assert sum(t.detail.log_probs) == pytest.approx(t.log_prob, abs=1e-4)
            if not t.text or t.detail.tokens != fused.score([line], [t.text])[0].tokens:
                continue  # a language model leaves out blank lines; text may be cut in another way than the search took
            ours, both = (m.score([line], [t.text], **w)[0] for m, w in ((plain, {}), (fused, {"lm_weight": 0.5})))
            (theirs,) = prior.score([t.text], carry=False)
            expected = [a + 0.5 * b for a, b in zip(ours.log_probs, theirs.log_probs, strict=True)]
            assert both.log_probs == pytest.approx(expected, abs=1e-5)
            assert t.log_prob == pytest.approx(sum(expected), abs=1e-4)
            compared += 1
    assert compared >= 5


def test_a_weight_of_nothing_is_the_translator_alone(folders, fused):
    plain = Translator.load(folders[0], threads=1)
    assert fused.translate_nbest(LINES, lm_weight=0.0) == plain.translate_nbest(LINES)
    assert plain.translate_nbest(LINES, lm_weight=0.0) == plain.translate_nbest(LINES)


def test_settings_name_the_model_and_its_weight(folders, fused, tmp_path):
    settings = yaml.safe_load((folders[0] / "config.yaml").read_text())
    settings["decoding"] |= {"lm": str(folders[1]), "lm_weight": 0.5}
    (tmp_path / "m").mkdir()
    for path in folders[0].iterdir():
        (tmp_path / "m" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "m" / "config.yaml").write_text(yaml.safe_dump(settings))
    configured = Translator.load(tmp_path / "m", threads=1)
    assert configured.translate_nbest(LINES) == fused.translate_nbest(LINES, lm_weight=0.5)
    assert Translator.load(tmp_path / "m", threads=1, lm=False).language_model is None
    save_bundle(tmp_path / "m.nmt", load_saved_model(tmp_path / "m"))
    assert Translator.load(tmp_path / "m.nmt", threads=1).language_model is None, "a file names no other one"


def test_bundles_and_other_dtypes(folders, fused, tmp_path):
    for n, folder in enumerate(folders):
        save_bundle(tmp_path / f"{n}.nmt", load_saved_model(folder))
        save_quantised(tmp_path / f"{n}", load_saved_model(folder))
    bundled = Translator.load(tmp_path / "0.nmt", lm=tmp_path / "1.nmt", threads=1)
    assert bundled.translate_nbest(LINES) == fused.translate_nbest(LINES)
    quantised = Translator.load(tmp_path / "0", lm=tmp_path / "1", threads=1)
    rounded = Translator.load(folders[0], lm=folders[1], threads=1, compute_dtype="int8")
    assert quantised.translate_nbest(LINES) == rounded.translate_nbest(LINES)


def test_sessions_and_ensembles(folders, fused):
    session = fused.session(LINES[1], lm_weight=0.5)
    for typed in ("", "kara", "kara losu"):
        constraints = Constraints(prefixes=[typed])
        assert session.complete(typed) == fused.translate_nbest(LINES[1:2], constraints=constraints, lm_weight=0.5)[0]
    with pytest.raises(ValueError, match=r"must have no lm_weight, got it; give it to Translator\.session"):
        session.complete(lm_weight=0.2)
    pair = fused.together_with([Translator.load(folders[0], threads=1)], "prob")
    for one, other in zip(pair.translate_nbest(LINES), fused.translate_nbest(LINES), strict=True):
        assert one[0].text == other[0].text and one[0].score == pytest.approx(other[0].score, abs=1e-5)


def test_from_the_command_line(folders, fused, tmp_path):
    (tmp_path / "src").write_text("\n".join(LINES[1:]) + "\n", "utf-8")
    options = ["--lm", folders[1], "--lm-weight", "0.5"]
    shown = call(translate, folders[0], tmp_path / "src", *options, "--output-format", "json")
    assert shown.exit_code == 0, shown.stderr
    best = [json.loads(line)["translations"][0] for line in shown.stdout.splitlines()]
    expected = fused.translate_nbest(LINES[1:], lm_weight=0.5)
    assert [one["text"] for one in best] == [some[0].text for some in expected]
    assert [one["log_prob"] for one in best] == pytest.approx([some[0].log_prob for some in expected], abs=1e-4)
    text = "".join(one["text"] + "\n" for one in best)
    (tmp_path / "tgt").write_text(text, "utf-8")
    sides = ["--src", tmp_path / "src", "--tgt", tmp_path / "tgt"]
    scored = call(score, folders[0], *sides, *options, "--output-format", "json")
    for line, one in zip(scored.stdout.splitlines(), best, strict=True):
        record = json.loads(line)
        if record["tokens"] == one["tokens"]:
            assert record["log_prob"] == pytest.approx(one["log_prob"], abs=1e-4)
    sides = ["--src", tmp_path / "src", "--ref", tmp_path / "tgt", "-o", tmp_path / "out"]
    assert call(evaluate, folders[0], *sides, *options).exit_code == 0
    assert (tmp_path / "out").read_text("utf-8") == text


MISTAKES = {
    "another vocabulary": ("{other}", CheckpointError, "with the target subwords of {model}, 42 of them, got 48 other"),
    "no language model": ("{folder}", CheckpointError, "must contain a language model, got a translator"),
    "nothing there": ("{folder}/nothing", CheckpointError, "no such folder"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_one_line(case, folders, tmp_path):
    name, kind, message = MISTAKES[case]
    other = write_language_folder(tmp_path / "other", load_saved_model(folders[0]).src_subwords)
    lm = name.format(other=other, folder=folders[0])
    told = refused(kind, "", Translator.load, folders[0], lm=lm, threads=1)
    assert message.format(model=folders[0] / "best.safetensors") in told


def test_a_weight_without_a_model_and_below_nothing(folders, fused):
    with pytest.raises(ConfigError, match="must come with a language model, got 0.4 and none; name it by --lm"):
        Translator.load(folders[0], threads=1).translate(LINES, lm_weight=0.4)
    with pytest.raises(ConfigError, match="must be a number of at least 0, got -0.4"):
        fused.translate(LINES, lm_weight=-0.4)
    result = call(score, folders[1], "--tgt", "-", "--lm", folders[1], given="kara\n")
    assert result.exit_code == 2 and "are for translations, which have --src" in result.stderr
