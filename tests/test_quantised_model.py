"""Models in int8: the same translations from a folder that was quantised as from one rounded at load, and one line
where there is none."""

import json
import zlib

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

from nmt.decode import force, search
from nmt.errors import CheckpointError, NMTError
from nmt.inference.pipeline import source_ids
from nmt.inference.translator import Translator
from nmt.model.decoders import narrowed
from nmt.rnn.arrays.weights import blocks_of, quantise
from nmt.rnn.kernels.products.four_bits import quantise_to_4_bits
from nmt.special_tokens import EOS_ID
from nmt.storage import four_bits
from nmt.storage.saved_model import load_saved_model, save_bundle, save_quantised
from nmt.storage.tensor_file import map_tensors, read_foreign_tensors, write_tensors
from tests import small_models
from tests.oracle import compare
from tests.refusals import refused
from tests.saved_models import sentences, write_folder

LINES = sentences(20, seed=5)
KINDS = {
    "plain": {},
    "tied": {"tied": "all"} | {side: {"embeddings": {"embedding_dim": 6}} for side in ("encoder", "decoder")},
    "gru": {"encoder": {"rnn_type": "gru"}, "decoder": {"rnn_type": "gru", "attention": "general"}},
    "lexical": {"decoder": {"lexical": True}},
}


@pytest.fixture(scope="module", params=list(KINDS))
def folders(request, tmp_path_factory):
    """A model folder, and that folder quantised."""
    found = write_folder(tmp_path_factory.mktemp("int8") / "model", **KINDS[request.param])
    save_quantised(found.parent / "int8", load_saved_model(found))
    return found, found.parent / "int8"


def translations(path, compute_dtype=None):
    return Translator.load(path, threads=1, compute_dtype=compute_dtype).translate_nbest(LINES, n_best=2)


def test_a_quantised_folder_translates_as_its_origin_rounded_at_load(folders):
    origin, quantised = folders
    assert translations(quantised) == translations(origin, "int8")
    assert translations(quantised) != translations(origin)


def test_any_model_runs_in_each_dtype(folders):
    _, quantised = folders
    found = [translations(quantised, dtype) for dtype in ("float32", "bfloat16", "int8")]
    near, exact = ([one[0].log_prob for one in kind] for kind in (found[2], found[0]))
    assert near != exact


def test_quantising_twice_changes_nothing(folders):
    origin, quantised = folders
    save_quantised(origin.parent / "again", load_saved_model(quantised))
    one, other = (map_tensors(path / "best.safetensors")[0] for path in (quantised, origin.parent / "again"))
    assert one.keys() == other.keys()
    compare.assert_same_bits(other, one)


def test_matrices_are_numbers_and_scales_and_the_rest_as_it_was(folders):
    origin, quantised = folders
    before, after = (map_tensors(path / "best.safetensors")[0] for path in (origin, quantised))
    for name, tensor in before.items():
        if tensor.ndim == 1:
            np.testing.assert_array_equal(after.pop(name), tensor)
            continue
        numbers, scales = after.pop(name), after.pop(f"{name}#scales")
        assert (numbers.dtype, numbers.shape) == (np.int8, tensor.shape)
        by_rows = name.endswith("embeddings")
        steps = scales[:, None] if by_rows else scales
        assert scales.shape == (tensor.shape[0 if by_rows else 1],)
        assert (np.abs(numbers * steps - tensor) <= 0.5001 * steps).all()
    assert not after


def test_numbers_stay_in_the_map_and_nothing_becomes_float32(folders):
    saved = load_saved_model(folders[1])
    model = saved.build()
    Translator(model, saved.src_subwords, saved.tgt_subwords, saved.config).translate(LINES)
    for name, param in model.shapes.items():
        held = model.weights.quantised(name)
        assert (held is not None) == (len(param.shape) == 2)
        if held is not None:
            assert np.shares_memory(held.numbers, saved.params[f"params/{name}"])
            assert not any(key[:2] == (name, "restored") for key in model.weights._packed)


def test_scores_are_those_of_the_loss_and_of_forced_decoding(folders):
    """The output layer's best tokens, its log-probabilities and its loss are one product."""
    translator = Translator.load(folders[1], threads=1)
    model, sources = translator.model, source_ids(translator, LINES)
    options = {"beam_size": 3, "length_penalty": "none", "n_best": 1, "max_length_ratio": 2.0, "max_length_extra": 20}
    found = [hypotheses[0] for hypotheses in search(model, sources, threads=1, **options)]
    targets = [[*best.ids, EOS_ID] if best.finished else list(best.ids) for best in found]
    for best, forced in zip(found, force(model, sources, targets, threads=1), strict=True):
        assert sum(forced.log_probs) == pytest.approx(best.log_prob, abs=1e-4)
    for n in [n for n, best in enumerate(found) if best.finished]:
        nll = model.loss(small_models.batch_of([(sources[n], list(found[n].ids))]), threads=1).nll
        assert found[n].log_prob == pytest.approx(-nll, rel=1e-5)


def test_a_shortlist_narrows_the_numbers_of_the_whole(folders):
    model = load_saved_model(folders[1]).build()
    layer, ids = model.output_layer, np.array([3, 5, 17, 40], np.int32)
    narrow = narrowed(layer, ids)
    outputs = np.random.default_rng(0).standard_normal((7, model.config.decoder.hidden_size)).astype("f4")
    whole, some = (model.device.log_probs(outputs, one, 1) for one in (layer, narrow))
    # The same logits: what differs is a row's sum.
    np.testing.assert_allclose(np.diff(some), np.diff(whole[:, ids]), atol=1e-5)


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (33, 8), (64, 64), (100, 32)])
def test_a_matrix_in_4_bits_is_unpacked_as_it_was(shape, by_rows):
    matrix = np.random.default_rng(shape[0]).standard_normal(shape).astype(np.float32)
    matrix[0] = 0
    made = quantise_to_4_bits(matrix, by_rows=by_rows)
    codes, factors, axis = four_bits.pack(made.numbers)
    assert codes.nbytes + factors.nbytes <= made.numbers.size / 2 + sum(shape) * (1 / 2 + 1 + max(shape) / 32)
    np.testing.assert_array_equal(four_bits.unpack(codes, factors, shape, axis), made.numbers)


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (70, 33), (33, 200), (300, 130)])
def test_a_block_gets_the_factor_of_the_least_squared_error(shape, by_rows):
    matrix = np.random.default_rng(2).standard_t(3, shape).astype(np.float32)
    matrix[0] = 0
    made = quantise_to_4_bits(matrix, by_rows=by_rows)
    for threads in (2, 3):
        other = quantise_to_4_bits(matrix, by_rows=by_rows, threads=threads)
        np.testing.assert_array_equal(other.numbers, made.numbers)
    channels, numbers = (m.astype(np.float64) if by_rows else m.T.astype(np.float64) for m in (matrix, made.numbers))
    scales = np.where(made.scales > 0, made.scales, 1).astype(np.float64)
    np.testing.assert_allclose(made.scales * 126, np.abs(channels).max(1), rtol=1e-6)
    blocks, found = blocks_of(channels / scales[:, None]), blocks_of(numbers)
    errors = [np.square(np.rint(blocks / n).clip(-7, 7) * n - blocks).sum(2) for n in range(1, 19)]
    np.testing.assert_allclose(np.square(found - blocks).sum(2), np.min(errors, 0), rtol=1e-5)
    odd = quantise_to_4_bits(np.array([[np.nan, 1.0], [np.inf, 2.0], [1e-42, 0.0]], np.float32), by_rows=True)
    assert np.isnan(odd.scales[:2]).all() and odd.scales[2] == 0 and not odd.numbers[2].any()


def test_other_matrices_of_int8_do_not_fit_into_4_bits():
    numbers = quantise(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32), by_rows=True).numbers
    assert four_bits.pack(numbers) is None


def test_small_numbers_are_packed_as_they_are_and_only_if_asked_for(tmp_path):
    numbers = np.resize(np.arange(-7, 8, dtype=np.int8), (5, 41))
    codes, factors, axis = four_bits.pack(numbers)
    assert (factors == 1).all()
    np.testing.assert_array_equal(four_bits.unpack(codes, factors, numbers.shape, axis), numbers)
    for odd in ((codes.astype(np.int8), factors), (codes, factors.astype(np.int8)), (codes[1:], factors)):
        refused(ValueError, "codes of another", four_bits.unpack, *odd, numbers.shape, axis)
    assert four_bits.pack(np.where(numbers < 7, numbers, 8)) is None
    for in_4_bits in (None, False, True):
        given = {"a": numbers, "row": numbers[0], "floats": numbers + np.float32(0.5)}
        write_tensors(tmp_path / "x", given, {}, **({} if in_4_bits is None else {"in_4_bits": in_4_bits}))
        compare.assert_same_bits(given, map_tensors(tmp_path / "x")[0])
        assert read_foreign_tensors(tmp_path / "x").keys() - given.keys() == ({"a#factors"} if in_4_bits else set())


def test_a_folder_in_4_bits_is_half_as_large_and_survives_bundles(tmp_path):
    sizes = {"encoder": {"hidden_size": 64}, "decoder": {"hidden_size": 64}}
    origin = load_saved_model(write_folder(tmp_path / "model", **sizes))
    for bits in (8, 4):
        save_quantised(tmp_path / str(bits), origin, bits)
    sizes = [(tmp_path / bits / "best.safetensors").stat().st_size for bits in ("8", "4")]
    assert sizes[1] < sizes[0] / 1.5
    saved = load_saved_model(tmp_path / "4")
    assert saved.content["quantization"] == {"numbers": "int4", "layout": 1}, "by which older files are known"
    assert saved.parameters == origin.parameters
    save_bundle(tmp_path / "model.nmt", saved)
    assert (tmp_path / "model.nmt").stat().st_size < sizes[0]
    assert translations(tmp_path / "model.nmt") == translations(tmp_path / "4") != translations(tmp_path / "8")
    assert load_saved_model(tmp_path / "model.nmt").digest == saved.digest


def test_a_model_in_int8_becomes_one_in_4_bits(folder, tmp_path):
    save_quantised(tmp_path / "8", load_saved_model(folder))
    save_quantised(tmp_path / "4", load_saved_model(tmp_path / "8"), 4)
    stored = [load_saved_model(tmp_path / bits).build("float32").params for bits in ("8", "4")]
    for name, matrix in stored[0].items():
        if matrix.ndim == 2:
            assert np.abs(stored[1][name] - matrix).max() < np.abs(matrix).max() / 5


@pytest.mark.parametrize("value", [[], None, 3, {"params/output.W": [1]}, {"params/output.W": [2, 3, 1]}, {"a": None}])
def test_sizes_of_4_bits_that_do_not_fit_are_one_line(folder, tmp_path, value):
    save_quantised(tmp_path / "4", load_saved_model(folder), 4)
    path = tmp_path / "4" / "best.safetensors"
    tensors = read_foreign_tensors(path)
    with safe_open(path, "np") as file:
        content = json.loads(file.metadata()["nmt"]) | {"packed": value}
    text = json.dumps(content)
    checksum = str(zlib.crc32(text.encode()))
    path.write_bytes(save({name: tensors[name] for name in tensors}, {"nmt": text, "nmt_crc32": checksum}))
    refused(CheckpointError, "must have matrices of 4 bits in the sizes that it", load_saved_model, tmp_path / "4")


def damaged(path, change):
    """Change a checkpoint's tensors in place, checksums and all."""
    tensors, content = map_tensors(path / "best.safetensors")
    tensors = {name: tensor.copy() for name, tensor in tensors.items()}
    change(tensors)
    write_tensors(path / "best.safetensors", tensors, content)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("params/output.W#scales"),
        lambda t: t.update({"params/output.W#scales": t["params/output.W#scales"][1:]}),
        lambda t: t.update({"params/output.W#scales": t["params/output.W#scales"].astype("f8")}),
        lambda t: t.update({"params/output.b": t["params/output.b"].astype("i1")}),
        lambda t: t.update({"params/output.W": t["params/output.W"].astype("i4")}),
        lambda t: t.update({"params/output.W": t["params/output.W"][:-1]}),
        lambda t: t.update({"params/other#scales": t["params/output.W#scales"]}),
    ],
)
def test_parts_that_do_not_fit_are_refused_in_one_line(folder, tmp_path, change):
    save_quantised(tmp_path / "int8", load_saved_model(folder))
    damaged(tmp_path / "int8", change)
    assert str(tmp_path / "int8") in refused(CheckpointError, "", Translator.load, tmp_path / "int8")


def test_a_model_refuses_gradients_in_int8(folders):
    model = load_saved_model(folders[1]).build()
    with pytest.raises(NMTError, match="to train, got int8"):
        model.loss_and_gradients(small_models.batch_of([([5, 6], [7])]), seed=0, threads=1)
