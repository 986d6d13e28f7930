"""Language models in the layouts of transformers and fla, beside their equations, and beside transformers itself where
it is installed."""

import json
import struct

import numpy as np
import pytest
from click.testing import CliRunner

from nmt import Generator
from nmt.cli.commands.import_model import import_model as command
from nmt.errors import CheckpointError
from nmt.importing.sources import import_model
from nmt.importing.writing import save_imported
from nmt.storage.quantised_model import save_quantised
from nmt.storage.saved_model import load_saved_model, save_bundle
from tests.importing.hub_models import MODELS, ROWS, byte_level, mamba
from tests.importing.witness import doubles

LINES = ["the cat sat on the mat", "it's 12 cats, naïve", "", "ω 猫  x"]


def generator(source, out):
    """The model at `source`, by way of a folder."""
    save_imported(out, import_model(source))
    return Generator.load(out, threads=1)


def theirs(model, line):
    """The tokens of a line in the numbers of the model, with the end."""
    return [max(0, n - 3) for n in model.subwords.encode([line])[0]] + [0]


@pytest.mark.parametrize("name", MODELS)
def test_every_token_has_the_probability_that_their_equations_give(tmp_path, name):
    model = MODELS[name]()
    got = generator(model.save(tmp_path / "theirs"), tmp_path / "ours")
    w = doubles(model.state)
    lines = [" ".join(line.split()) for line in LINES if line]
    for line, scored in zip(lines, got.score(lines, carry=False), strict=True):
        np.testing.assert_allclose(scored.log_probs, model.log_probs_of(w, theirs(got, line)), atol=2e-5, rtol=0)
    # A line after others continues their states.
    tokens = [token for line in lines for token in theirs(got, line)]
    carried = np.concatenate([one.log_probs for one in got.score(lines)])
    np.testing.assert_allclose(carried, model.log_probs_of(w, tokens), atol=2e-5, rtol=0)


@pytest.mark.parametrize("name", ["mamba", "rwkv7", "gated deltanet"])
def test_a_search_takes_the_best_tokens_and_bundles_and_int8_are_the_same_model(tmp_path, name):
    model = MODELS[name]()
    got = generator(model.save(tmp_path / "theirs"), tmp_path / "ours")
    w, prompt = doubles(model.state), theirs(got, "the cat")[:-1]
    tokens = list(prompt)
    for _ in range(5):
        tokens.append(int(np.argmax([model.log_probs_of(w, [*tokens, n])[-1] for n in range(ROWS)])))
        if tokens[-1] == 0:
            break
    options = {"sampling": False, "beam_size": 1, "max_length": 5}
    expected = got.generate(["the cat"], **options)
    assert expected[0][0].text == got.subwords.decode([[n + 3 for n in tokens if n]])[0].rstrip(" ")
    saved = load_saved_model(tmp_path / "ours")
    save_bundle(tmp_path / "one.nmt", saved)
    assert Generator.load(tmp_path / "one.nmt", threads=1).generate(["the cat"], **options) == expected
    save_quantised(tmp_path / "int8", saved)
    small = Generator.load(tmp_path / "int8", threads=1)
    losses = [-np.mean(np.concatenate([one.log_probs for one in g.score(LINES[:2])])) for g in (small, got)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05) and losses[0] != losses[1]


def test_bfloat16_is_widened(tmp_path):
    model = MODELS["mamba"]()
    folder = model.save(tmp_path / "theirs")
    names, content = {}, b""
    for name, array in model.state.items():
        upper = (array.view(np.uint32) >> 16).astype("<u2")
        model.state[name] = (upper.astype(np.uint32) << 16).view(np.float32)
        ends = [len(content), len(content) + upper.nbytes]
        names[name] = {"dtype": "BF16", "shape": array.shape, "data_offsets": ends}
        content += upper.tobytes()
    header = json.dumps(names).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + content)
    got = generator(folder, tmp_path / "ours")
    (scored,) = got.score(LINES[:1])
    expected = mamba(doubles(model.state), theirs(got, LINES[0]))
    np.testing.assert_allclose(scored.log_probs, expected, atol=2e-5, rtol=0)


def without(name):
    return lambda model: model.state.pop(name)


def with_array(name, *shape):
    return lambda model: model.state.update({name: np.zeros(shape, np.float32)})


def with_setting(**values):
    return lambda model: model.config.update(values)


MIXER = "backbone.layers.1.mixer"
ERRORS = {
    "another architecture": (
        with_setting(model_type="xlstm"),
        r"model_type must be one of mamba, .*, gated_deltanet, got 'xlstm'",
    ),
    "no architecture": (with_setting(model_type=["a"]), r"config.json: model_type must be one of mamba, .*, got \["),
    "an unknown setting": (with_setting(twist=1), r"config.json: must have only settings of mamba .*got 'twist'"),
    "another activation": (with_setting(hidden_act="relu"), r"config.json: hidden_act must be silu, got 'relu'"),
    "several ends": (
        with_setting(eos_token_id=[0, 1]),
        r"config.json: eos_token_id must be the number of one .*\[0, 1",
    ),
    "a missing tensor": (without(f"{MIXER}.D"), rf"model.safetensors: must contain the tensor {MIXER}.D, got none"),
    "no table": (without("backbone.embeddings.weight"), r"must contain the tensor backbone.embeddings.weight"),
    "another shape": (with_array(f"{MIXER}.D", 7), rf"{MIXER}.D must be \[10\].* got \[7\]"),
    "no matrix": (with_array("backbone.embeddings.weight", 7), r"embeddings.weight must be a matrix, got \[7\]"),
    "a tensor more": (with_array("backbone.gate", 7), r"only what can be represented exactly, got 'backbone.gate'"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_represented_is_an_error_of_one_line_and_nothing_is_written(tmp_path, name):
    change, text = ERRORS[name]
    model = MODELS["mamba"]()
    change(model)
    folder, out = model.save(tmp_path / "theirs"), tmp_path / "ours"
    with pytest.raises(CheckpointError, match=text) as error:
        import_model(folder)
    assert "\n" not in str(error.value)
    result = CliRunner().invoke(command, [str(folder), "-o", str(out)])
    assert result.exit_code != 0
    assert not out.exists()


@pytest.mark.parametrize("shape", [(3,), (0,), (2, 5), (), (20,)])
def test_heads_that_keys_and_values_do_not_consist_of_are_an_error(tmp_path, shape):
    model = MODELS["gla"]()
    with_array("model.layers.0.attn.g_norm_swish_gate.weight", *shape)(model)
    with pytest.raises(CheckpointError, match=r"gate.weight must have the size of a head, which 4 keys and 10 values"):
        import_model(model.save(tmp_path / "theirs"))


BPE = byte_level()["model"]
SPACES = {"id": 1, "content": "x", "special": True, "lstrip": True, "rstrip": False, "single_word": False}
TOKENIZERS = {
    "of pieces": ({"model": {"type": "Unigram"}}, r"tokenizer.json: model must be BPE, got 'Unigram'"),
    "of no words": ({"pre_tokenizer": None}, r"pre_tokenizer must be ByteLevel, got None"),
    "of other words": (
        {"pre_tokenizer": {"type": "ByteLevel", "use_regex": False}},
        r"use_regex must be true, got False",
    ),
    "in lower case": ({"normalizer": {"type": "Lowercase"}}, r"normalizer must be NFC, got 'Lowercase'"),
    "without merges": ({"model": BPE | {"merges": None}}, r"must have vocab, merges and added_tokens"),
    "with half a character": ({"model": BPE | {"vocab": {"\ud800": 1}}}, r"must have vocab, merges and added_tokens"),
    "with an endless number": ({"model": BPE | {"vocab": {"a": 1e999}}}, r"must have vocab, merges and added_tokens"),
    "with words first": ({"model": BPE | {"ignore_merges": True}}, r"ignore_merges must be false, got True"),
    "with too many tokens": ({"model": BPE | {"vocab": {"a": ROWS}}}, r"must have tokens 0 to 299, .* got 300"),
    "with a token twice": ({"model": BPE | {"vocab": {**BPE["vocab"], "mat": 9}}}, r"every unit once, got 'mat' twice"),
    "that takes spaces": ({"added_tokens": [SPACES]}, r"added_tokens must not take spaces around them, got 'x'"),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_other_tokenizers_are_an_error_of_one_line(tmp_path, name):
    changes, text = TOKENIZERS[name]
    folder = MODELS["mamba"]().save(tmp_path / "theirs")
    (folder / "tokenizer.json").write_text(json.dumps(byte_level(**changes)))
    with pytest.raises(CheckpointError, match=text) as error:
        import_model(folder)
    assert "\n" not in str(error.value)


def test_a_list_that_is_none_of_rwkv_is_an_error(tmp_path):
    folder = MODELS["rwkv7"]().save(tmp_path / "theirs")
    path = folder / "rwkv_vocab_v20230424.txt"
    path.write_text("1 'a' 1\n2 open('x') 1\n")
    with pytest.raises(CheckpointError, match=r"v20230424.txt:2: must be a number, a token as Python writes it"):
        import_model(folder)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"tokenizer.json: must be the settings next to the model"):
        import_model(folder)


def test_transformers_itself_gives_these_probabilities(tmp_path):
    torch = pytest.importorskip("torch", reason="a witness by others needs torch")
    transformers = pytest.importorskip("transformers", reason="a witness by others needs transformers")
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=ROWS, hidden_size=16, state_size=4, num_hidden_layers=3)
    model = transformers.MambaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith(("A_log", "dt_proj.bias")):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    folder = tmp_path / "theirs"
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(byte_level()))
    got = generator(folder, tmp_path / "ours")
    lines = [" ".join(LINES[:2] * 12), LINES[1]]
    for line, scored in zip(lines, got.score(lines, carry=False), strict=True):
        tokens = theirs(got, line)
        with torch.no_grad():
            logits = model(torch.tensor([[0, *tokens][:-1]])).logits.double().log_softmax(-1)[0]
        expected = [float(logits[n, token]) for n, token in enumerate(tokens)]
        np.testing.assert_allclose(scored.log_probs, expected, atol=2e-5, rtol=0)
