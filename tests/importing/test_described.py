"""Models that YAML files describe, beside NumPy, and what is wrong with descriptions and files."""

from functools import partial

import numpy as np
import pytest

from nmt import Translator
from nmt.config import config_from_dict
from nmt.errors import CheckpointError
from nmt.importing.sources import import_model
from nmt.importing.writing import save_imported
from nmt.storage.model_folder import load_folder_config
from nmt.storage.saved_model import load_saved_model, save_bundle, save_quantised
from nmt.train.run.trainer import Trainer
from tests.importing.checks import imported
from tests.importing.packages import (
    KANA,
    SPELLING,
    WORDS,
    G2pEn,
    e2k_arrays,
    e2k_logits,
    e2k_predict,
    g2p_en_arrays,
    g2p_en_description,
    save_e2k,
    save_g2p_en,
)
from tests.importing.test_toolkits import PAIRS, Joey, OpenNMT
from tests.importing.witness import doubles, log_prob
from tests.refusals import refused, refused_of_damaged


@pytest.fixture
def written(tmp_path):
    return partial(save_g2p_en, tmp_path)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("g2p")
    return imported(save_g2p_en(folder), folder / "model"), G2pEn(g2p_en_arrays())


@pytest.fixture(scope="module")
def katakana(tmp_path_factory):
    folder = tmp_path_factory.mktemp("e2k")
    return imported(save_e2k(folder), folder / "model"), doubles(e2k_arrays())


SPELT = ["a", "hello", "it's", "a--b", "ZEBRA", "x" * 40]


def test_words_sound_as_in_the_package(sounds):
    translator, package = sounds
    assert translator.translate(SPELT) == [package.predict(word.lower()) for word in SPELT]
    assert translator.translate(SPELT, batch_size=2) == translator.translate(SPELT)


def test_a_list_of_units_may_come_from_windows(sounds, written, tmp_path):
    description = written()
    units = tmp_path / "phonemes.txt"
    units.write_bytes(units.read_text().replace("\n", "\r\n").encode())
    assert imported(description, tmp_path / "model").translate(SPELT) == sounds[0].translate(SPELT)


def test_log_probabilities_of_sounds_are_the_packages(sounds):
    translator, package = sounds
    targets = ["AH0", "HH AH0 L OW1", "IH1 T S", "B", "", "Z IY1 B R AH0"]
    for detail, word, target in zip(translator.score(SPELT, targets), SPELT, targets, strict=True):
        np.testing.assert_allclose(detail.log_probs, package.score(word.lower(), target), atol=1e-5)
        assert detail.alignment == [] and detail.warnings == []


def test_words_come_out_as_in_the_package(katakana):
    translator, w = katakana
    assert translator.translate(WORDS) == [e2k_predict(w, word.lower()) for word in WORDS]


def test_log_probabilities_are_the_packages(katakana):
    translator, w = katakana
    for word, target in zip(WORDS, ["アイ", "", "ー", "ウエオ", "ア"], strict=True):
        ids = [KANA.index(c) for c in target]
        want = [log_prob(e2k_logits(w, word.lower(), ids[:n]), [*ids, 2][n]) for n in range(len(ids) + 1)]
        (detail,) = translator.score([word], [target])
        np.testing.assert_allclose(detail.log_probs, want, atol=1e-5)
        # Words and the end of the source share all attention; what <sos> gets is the end's.
        np.testing.assert_allclose(detail.attention.sum(1), 1, atol=1e-5)
        assert detail.attention.shape[1] == sum(c in SPELLING for c in word.lower()) + 1


def test_tensors_are_put_together(written):
    tensors = g2p_en_description()["tensors"]
    tensors["encoder.0.forward.b"] = "enc_b_ih[0:6] | enc_b_ih[6:18]"
    tensors["encoder.0.forward.b_h"] = "enc_b_hh + enc_b_hh"
    found = import_model(written(tensors=tensors)).params
    np.testing.assert_array_equal(found["encoder.0.forward.b"], g2p_en_arrays()["enc_b_ih"])
    np.testing.assert_array_equal(found["encoder.0.forward.b_h"], 2 * g2p_en_arrays()["enc_b_hh"])


def without(name):
    return {k: v for k, v in g2p_en_description()["tensors"].items() if k != name}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"tensors": without("output.b")}, "'fc_b', which has no counterpart here; name the parameter .* or list it"),
        ({"tensors": without("output.b") | {"output.b": "fc_c"}}, "must contain the tensor fc_c"),
        ({"tensors": without("output.b") | {"output.b": "fc_b +"}}, "must be made of NAME"),
        ({"tensors": without("output.b") | {"output.b": "fc_b + enc_b_ih"}}, "must have one shape"),
        ({"tensors": without("output.W") | {"output.W": "fc_w"}}, "output.W must have 74 columns"),
        ({"tensors": 3}, "tensors must have an expression for each"),
        ({"weights": 1}, "weights is unknown"),
        ({"file": 1}, "file must be a path"),
        ({"below": "model/state"}, "must contain tensors by name below model/state"),
        ({"source": {"units": ["a"], "special": {"unk": 9}}}, "source.special must be numbers of units"),
        ({"target": {"units": "missing.txt", "special": {}}}, "target.units must be a list, or a file"),
        ({"source": {"special": {}}}, "source.units must be given"),
    ],
)
def test_mistakes_are_one_line(written, changes, line):
    refused(CheckpointError, line, import_model, written(**changes))


@pytest.mark.parametrize(
    ("name", "text", "advice"),
    [
        ("encoder.0.forward.W_x", "enc_w_ih", "got enc_w_ih, which is .*; write enc_w_ih.T"),
        ("decoder.cell.0.W_x", "dec_w_ih[0:6] | dec_w_ih[0:6]", "which the settings require"),
        ("encoder.0.forward.W_x", "enc_w_ih + enc_w_ih", "write each name with .T"),
    ],
)
def test_a_matrix_that_is_turned_is_named_with_what_to_write(written, tmp_path, name, text, advice):
    found = import_model(written(tensors=g2p_en_description()["tensors"] | {name: text}))
    refused(CheckpointError, advice, save_imported, tmp_path / "out", found)


def test_a_description_is_no_model_of_another_system(written):
    with pytest.raises(CheckpointError, match=r"must be a file of parameters with --from marian, got YAML"):
        import_model(written(), "marian")


def test_what_is_ignored_is_named(written):
    assert "output.b" not in import_model(written(tensors=without("output.b"), ignore=["fc_b"])).params


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({k: v for k, v in g2p_en_arrays().items() if k != "enc_b_ih"}, "must contain the tensor enc_b_ih"),
        (g2p_en_arrays() | {"coverage": np.zeros(3)}, "'coverage', which has no counterpart here"),
        (g2p_en_arrays() | {"fc_b": np.zeros(73, np.float32)}, r"output.b must have 74 columns"),
        (g2p_en_arrays() | {"fc_b": np.full(74, np.nan, np.float32)}, "fc_b must contain finite numbers"),
        (g2p_en_arrays() | {"more": np.array([{}], object)}, "Python objects, which are never loaded"),
        ({"zeros": np.zeros(10_000_000)}, "unpacks to 80,000,"),
    ],
    ids=["missing", "too much", "another shape", "not finite", "objects", "a bomb"],
)
def test_weights_that_do_not_fit_are_one_line(tmp_path, arrays, line):
    model = save_g2p_en(tmp_path)
    (np.savez_compressed if "zeros" in arrays else np.savez)(tmp_path / "weights.npz", **arrays)
    refused(CheckpointError, line, import_model, model)


def test_changed_bytes_are_one_line_or_a_model(tmp_path):
    model, path = save_g2p_en(tmp_path), tmp_path / "weights.npz"
    np.savez(path, **g2p_en_arrays())
    assert refused_of_damaged(CheckpointError, path, lambda _: import_model(model), 200) > 50


MODELS = {
    "joeynmt": (lambda folder: Joey("bridge").save(folder), PAIRS),
    "opennmt-py": (lambda folder: OpenNMT("mlp").save(folder), PAIRS),
}


def loss(translator, pairs):
    """Mean negative log-probability of a token."""
    details = translator.score([src for src, _ in pairs], [tgt for _, tgt in pairs])
    return -float(np.mean(np.concatenate([detail.log_probs for detail in details])))


@pytest.mark.parametrize("name", MODELS)
def test_more_training_lowers_the_loss(tmp_path, name):
    save_model, pairs = MODELS[name]
    (tmp_path / "theirs").mkdir()
    base = tmp_path / "model"
    before = loss(imported(save_model(tmp_path / "theirs"), base), pairs)
    for lang, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
        (tmp_path / f"text.{lang}").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    values = load_folder_config(base).to_dict()
    values["model_dir"] = str(tmp_path / "tuned")
    values["data"] |= {"train": str(tmp_path / "text"), "dev": str(tmp_path / "text"), "check": False}
    values["training"] |= {"load_model": str(base), "updates": 20, "learning_rate": 0.01, "validation_freq": 20}
    Trainer(config_from_dict(values)).run()
    assert loss(Translator.load(tmp_path / "tuned", threads=1), pairs) < 0.9 * before


@pytest.mark.parametrize("name", MODELS)
def test_int8_and_a_bundle_are_the_same_model(tmp_path, name):
    save_model, pairs = MODELS[name]
    (tmp_path / "theirs").mkdir()
    translator = imported(save_model(tmp_path / "theirs"), tmp_path / "model")
    saved, sources = load_saved_model(tmp_path / "model"), [src for src, _ in pairs]
    save_bundle(tmp_path / "model.nmt", saved)
    assert Translator.load(tmp_path / "model.nmt", threads=1).translate(sources) == translator.translate(sources)
    save_quantised(tmp_path / "int8", saved)
    small = Translator.load(tmp_path / "int8", threads=1)
    assert loss(small, pairs) == pytest.approx(loss(translator, pairs), rel=0.05)
    save_bundle(tmp_path / "int8.nmt", load_saved_model(tmp_path / "int8"))
    assert Translator.load(tmp_path / "int8.nmt", threads=1).translate(sources) == small.translate(sources)
