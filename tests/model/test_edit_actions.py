"""Edit actions: pointer and loss against loops, gradients against finite differences in float64, the search against all
possible rows of edits, and the edits learned from pairs against brute force."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from nmt.config import config_from_dict
from nmt.data.alignment import edits as edits_module
from nmt.data.alignment.edits import Edits, gain_of_edits
from nmt.data.batching.batches import make_batch
from nmt.data.corpora.readers import TokenRows
from nmt.decode import search
from nmt.decode.ensemble import Ensemble
from nmt.decode.rules.options import SearchOptions
from nmt.decode.search import SearchPath, search_plan
from nmt.decode.session import Session
from nmt.errors import ConfigError, DataError, DeviceError
from nmt.model.copying import EditActions, check_device, means_of_unseen
from nmt.rnn.arrays.weights import Weights
from nmt.rnn.arrays.workspace import Fresh
from nmt.rnn.cells import LinearCell, PointerCell
from nmt.rnn.scan.scan import Scan
from nmt.special_tokens import EOS_ID, PAD_ID, UNK_ID
from tests import small_models
from tests.finite_differences import check_gradients
from tests.refusals import refused

V = 9
COPY, DELETE = V + UNK_ID, V + PAD_ID
SOURCES = [[4, 5, 6, 7, 8], [8, 4], [5, 5, 5], [6]]
# Each moves as often as its source is long: copies, replacements, deletions, insertions before them and at the end.
ACTIONS = [[V + 4, 7, V + 7, DELETE, 5, V + 7, V + 8, 4], [5, V + 8, DELETE], [DELETE, DELETE, DELETE], [V + 4, 6, 6]]


def model_of_actions(dtype=np.float32, seed=0, decoder=None, vocab=V, **options):
    side = {"embeddings": {"embedding_dim": 6}}
    decoder = {"edit_actions": True, "attention": "none", "input_feeding": False, **side, **(decoder or {})}
    model = small_models.build(vocab, dtype=dtype, seed=seed, encoder={**side}, decoder=decoder, **options)
    model.params["tgt_embeddings"][:, -1] = model.actions.moves()
    model.changed()
    return model


def outputs_of(model, source, actions):
    """The input of the output layer at each step, and the source token at the pointer, by the training scan."""
    batch = make_batch([source], [actions], [0])
    encoded = model.encode(batch.src, batch.src_lengths, 1)
    y = model.decoder.forward(
        model.weights.view("decoder"),
        model.embed_sequence("tgt", batch.tgt_in, 1, Fresh(np)),
        encoded.states,
        lengths=batch.tgt_lengths,
        captured={"memory": encoded.memory},
        source_lengths=encoded.lengths,
        threads=1,
    ).y[:, 0]
    return y[:, :-1], y[:, -1].tolist()


def pointed(source, actions, vocab):
    """The source token at the pointer when each action, and the end, is chosen: by a loop."""
    place, found = 0, []
    for action in [*actions, EOS_ID]:
        found.append([*source, EOS_ID][place])
        place += action >= vocab
    return found


def log_probs_of(model, source, actions):
    """The log-probabilities of all actions at each step [T + 1, 2 V], copying not added to anything."""
    logits = outputs_of(model, source, actions)[0].astype(np.float64) @ model.params["output.W"]
    logits += model.params["output.b"]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def score(model, source, actions):
    """The log-probability of a row of edits, with copying added to the replacement by the same token."""
    vocab, total = model.actions.tokens, 0.0
    known = log_probs_of(model, source, actions)
    for row, action, token in zip(known, [*actions, EOS_ID], pointed(source, actions, vocab), strict=True):
        copied = np.exp(row[vocab + UNK_ID]) if action == vocab + token else 0.0
        total += np.log(np.exp(row[action]) + copied)
    return total


@pytest.mark.parametrize(
    "decoder",
    [
        {"num_layers": 2, "rnn_type": "gru"},
        {"attention": "bahdanau", "input_feeding": True, "lexical": True},
        {"embeddings": {"embedding_dim": 6, "dropout": 0.3}, "hidden_dropout": 0.2, "init_hidden": "zero"},
    ],
)
def test_gradients_are_those_of_the_loss(decoder):
    model = model_of_actions(np.float64, decoder=decoder)
    batch = make_batch(SOURCES, ACTIONS, range(len(SOURCES)))
    options = {"seed": 5, "threads": 1, "label_smoothing": 0.1}
    names = [name for name in model.params if name != "tgt_embeddings"]
    _, gradients = check_gradients(model, batch, options, smallest=1e-9, names=names)
    assert not gradients["tgt_embeddings"][:, -1].any()  # the moves are given
    # Through the pointer, to every source token.
    assert np.abs(gradients["src_embeddings"][4:]).max(axis=1).min() > 1e-6


def test_the_cell_reads_the_row_at_the_pointer():
    """Against a loop, with rows of other lengths; a pointer behind its source reads zeros."""
    rng, M, E = np.random.default_rng(2), 3, 2
    cell, steps, lengths = PointerCell(LinearCell(E + M, E + M, bias=False), M), 5, [4, 1, 2]
    memory, x = rng.normal(size=(4, 3, M)), rng.normal(size=(steps, 3, E))
    tokens = rng.integers(1, 600, (4, 3))
    places = np.broadcast_to(np.arange(4.0)[:, None], (4, 3))
    weights, scan = Weights({"W": np.eye(E + M)}), Scan(cell, dtype=np.float64)
    captured = {"memory": np.concatenate([memory, places[..., None], tokens[..., None]], axis=2)}
    y = scan.forward(weights, x, captured=captured, source_lengths=lengths).y
    for b, count in enumerate(lengths):
        at = 0
        for t in range(steps):
            at += x[t, b, -1] > 0
            there = at < count
            assert y[t, b, :E] == pytest.approx(x[t, b], abs=1e-12)
            assert y[t, b, E:-1] == pytest.approx(memory[at, b] if there else np.zeros(M), abs=1e-12)
            assert y[t, b, -1] == (tokens[at, b] if there else 0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_the_pointer_follows_the_moves(dtype):
    """Token ids and positions are exact in coarse types of products, too: ids above 256, and many positions."""
    model = model_of_actions(vocab=900, compute_dtype=dtype)
    source = list(np.arange(40) * 22 + 5)
    actions = [900 + n if n % 3 else n + 5 for n in range(5, 60)] + [900] * 2
    assert outputs_of(model, source, actions)[1] == pointed(source, actions, 900)


def test_the_loss_predicts_copies_and_reads_replacements():
    model = model_of_actions(np.float64)
    batch = make_batch(SOURCES, ACTIONS, range(len(SOURCES)))
    expected = 0.0
    for source, actions in zip(SOURCES, ACTIONS, strict=True):
        known = log_probs_of(model, source, actions)
        for row, action, token in zip(known, [*actions, EOS_ID], pointed(source, actions, V), strict=True):
            expected -= row[COPY if action == V + token else action]
    assert model.loss(batch, threads=1).nll == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("decoder", [{}, {"attention": "bahdanau", "input_feeding": True}])
def test_a_wide_search_finds_the_best_row_of_edits(decoder):
    """All 279 rows of at most four edits of a source of two tokens, scored one by one, over a vocabulary of two."""
    model, source = model_of_actions(vocab=6, decoder=decoder), [5, 4]
    inserts, moving = [4, 5], [6, 10, 11]
    rows = []
    for length in (2, 3, 4):
        for places in itertools.combinations(range(length), 2):
            rows += map(list, itertools.product(*(moving if n in places else inserts for n in range(length))))
    assert len(rows) == 279
    scores = sorted((score(model, source, row) for row in rows), reverse=True)
    options = {"beam_size": 300, "n_best": 5, "length_penalty": "none", "max_length_ratio": 0.0, "generate_unk": False}

    (found,) = search(model, [source], max_length_extra=5, **options)
    assert [one.log_prob for one in found] == pytest.approx(scores[:5], abs=1e-4)
    assert all(one.finished and set(one.ids) <= {4, 5} for one in found)


def test_actions_are_read_without_the_source():
    actions = EditActions(V)
    written, moves = np.array([4, PAD_ID, 7], np.int32), np.array([True, True, False])
    ids = actions.ids(written, moves)
    assert ids.tolist() == [V + 4, DELETE, 7]
    assert actions.written(ids.tolist()) == [4, 7]
    assert actions.written([V + 4, 7, COPY, DELETE, 5, COPY]) == [4, 7, -2, 5, -4]  # unknown ones by their places


@pytest.mark.parametrize("first", [0, V])
def test_what_training_never_has_is_the_mean_of_what_it_has(first):
    """8 is a feature; 4 and 7 are copied."""
    src, written = np.array([4, 5, 7, 8, EOS_ID]), np.array([first + 4, 6, first + 7, EOS_ID])
    found = [(name[:3], row, rows.tolist()) for name, row, rows in means_of_unseen(src, written, [8], first)]
    assert found == [("src", 2, [8]), ("src", UNK_ID, [4, 7]), ("tgt", first + UNK_ID, [first + 4, first + 7])]
    assert [one[1] for one in means_of_unseen(np.append(src, UNK_ID), written, [8], first)] == [2], "it is learned"
    assert means_of_unseen(src[1:2], written, [], first) == []


def test_neighbours_ensembles_and_sessions_find_the_same():
    model, other = model_of_actions(), model_of_actions(seed=3)
    assert search_plan(model, SearchOptions()).path is SearchPath.STEPS
    sources = [*SOURCES, list(np.arange(45) % 5 + 4)]
    together = search(model, sources, beam_size=3)
    assert together == [search(model, [one], beam_size=3)[0] for one in sources]
    assert Session(model, sources[0]).complete(options=SearchOptions(beam_size=3)) == together[0]
    assert search(Ensemble([model, model]), sources, beam_size=3)[1][0].ids == together[1][0].ids
    mixed = search(Ensemble([model, other]), sources, beam_size=3)
    assert all(set(one.ids) <= {*range(4, V)} for found in mixed for one in found)


def every_path(src, tgt):
    """All rows of edits that turn one sequence into another, each edit a source and a target symbol or PAD."""
    if not src and not tgt:
        yield []
    for moves, writes in ((1, 1), (1, 0), (0, 1)):
        if moves <= len(src) and writes <= len(tgt):
            for rest in every_path(src[moves:], tgt[writes:]):
                yield [(src[0] if moves else PAD_ID, tgt[0] if writes else PAD_ID), *rest]


PAIRS = [([4, 5, 6], [4, 6, 7]), ([4], [5, 4, 4]), ([5, 5, 4], []), ([4, 7, 4], [7])]


def test_edits_are_learned_as_by_all_paths():
    """Expected counts of one round, over all rows of edits of each pair."""
    sides = [TokenRows.from_lists([pair[k] for pair in PAIRS]) for k in range(2)]
    before, after = (Edits.learn(*sides, V, rounds) for rounds in (1, 2))
    counts = dict.fromkeys([(a, c) for a in range(V) for c in range(V) if (a, c) != (PAD_ID, PAD_ID)], 1e-3)
    for src, tgt in PAIRS:
        paths = list(every_path(src, tgt))
        weights = np.exp([sum(before.log_prob(*edit) for edit in path) for path in paths])
        for path, share in zip(paths, weights / weights.sum(), strict=True):
            for edit in path:
                counts[edit] += share
    # A pair of PAD and a symbol is no replacement, but has its place in the table of these.
    whole = sum(counts.values()) + 1e-3 * (2 * V + 1)
    for edit in {edit for src, tgt in PAIRS for path in every_path(src, tgt) for edit in path}:
        assert after.log_prob(*edit) == pytest.approx(np.log(counts[edit] / whole), abs=1e-9)


def test_the_edits_of_a_pair_are_the_most_probable_ones():
    sides = [TokenRows.from_lists([pair[k] for pair in PAIRS]) for k in range(2)]
    edits = Edits.learn(*sides, V)
    written, moves = edits.best(*sides)
    for (src, tgt), row, start in zip(PAIRS, written, written.starts, strict=False):
        moved = moves[start : start + len(row)]
        assert [symbol for symbol in row.tolist() if symbol != PAD_ID] == tgt
        assert moved.sum() == len(src)
        places = np.cumsum(moved) - moved
        path = [(src[i] if m else PAD_ID, int(c)) for i, m, c in zip(places, moved, row, strict=True)]
        every = [sum(edits.log_prob(*edit) for edit in one) for one in every_path(src, tgt)]
        assert sum(edits.log_prob(*edit) for edit in path) == pytest.approx(max(every), abs=1e-9)


def test_edits_of_many_pairs_are_learned_from_some(monkeypatch):
    sides = [TokenRows.from_lists([pair[k] for pair in PAIRS * 3]) for k in range(2)]
    some = [TokenRows.from_lists([(PAIRS * 3)[number][k] for number in (0, 3, 7, 11)]) for k in range(2)]
    expected = Edits.learn(*some, V)
    monkeypatch.setattr(edits_module, "_MOST_LEARNED", 4)
    assert Edits.learn(*sides, V).log_prob(4, 4) == expected.log_prob(4, 4) != Edits(V).log_prob(4, 4)


def test_few_long_pairs_are_aligned_at_a_time(monkeypatch):
    sides = [TokenRows.from_lists([pair[k] for pair in PAIRS]) for k in range(2)]
    expected = Edits.learn(*sides, V)
    monkeypatch.setattr(edits_module, "_PLACES", 3)
    found = Edits.learn(*sides, V)
    assert max(some.count for some in edits_module._chunks(*sides)) < len(PAIRS)
    assert found.log_prob(4, 4) == pytest.approx(expected.log_prob(4, 4), abs=1e-12)
    assert [a.tolist() for a in found.best(*sides)[0]] == [a.tolist() for a in expected.best(*sides)[0]]


def test_the_gain_of_edits_is_that_of_all_paths():
    pairs = [("abc", "abd"), ("b", "ab"), ("cab", "a")]
    numbers = {letter: number for number, letter in enumerate("abcd", start=1)}
    ids = [tuple([numbers[letter] for letter in side] for side in pair) for pair in pairs]
    edits = Edits.learn(*(TokenRows.from_lists(side) for side in zip(*ids, strict=True)), 5, 4)

    def log_prob(src, tgt):
        paths = every_path(src, tgt)
        return np.log(sum(np.exp(sum(edits.log_prob(*edit) for edit in path)) for path in paths))

    total = sum(log_prob(src, tgt) - log_prob(src, ids[(n + 1) % 3][1]) for n, (src, tgt) in enumerate(ids))
    assert gain_of_edits(pairs) == pytest.approx(total / 6 / np.log(2), abs=1e-9)
    assert gain_of_edits([("a", "")]) == gain_of_edits([]) == 0
    assert gain_of_edits([([str(n)], [str(n)]) for n in range(5000)]) == 0, "too many symbols"


def test_a_vocabulary_of_words_is_refused_in_one_line():
    refused(DataError, "edit_actions: must have at most 4,096 symbols, got 8,000 subwords; it is for", Edits, 8000)


def test_rounding_does_not_decide_between_equally_probable_edits():
    """A doubled letter that becomes a single one is replaced and then deleted, in whatever order pairs are summed."""
    rng = np.random.default_rng(0)
    words = [rng.permutation(np.arange(4, 12))[: rng.integers(2, 9)].tolist() for _ in range(300)]
    src = TokenRows.from_lists([[letter for letter in word for _ in range(1 + letter % 2)] for word in words])
    tgt = TokenRows.from_lists([[letter + 4 for letter in word] for word in words])
    for order in (rng.permutation(300) for _ in range(4)):
        written, _ = Edits.learn(src.taken(order), tgt.taken(order), 17).best(src, tgt)
        for source, target, row in zip(src, tgt, written, strict=True):
            expected = [[letter, PAD_ID] if letter % 2 else [letter] for letter in target.tolist()]
            assert row.tolist() == sum(expected, []), source


def test_suffixes_come_last():
    """Of equally probable edits insertions come last: `work` to `worked` keeps its letters first."""
    sides = TokenRows.from_lists([[4, 5, 6], [5, 6, 4]]), TokenRows.from_lists([[4, 5, 6, 7, 8], [5, 6, 4, 7, 8]])
    written, moves = Edits.learn(*sides, V).best(*sides)
    assert written[0].tolist() == [4, 5, 6, 7, 8]
    assert moves[:5].tolist() == [True, True, True, False, False]


def test_settings_that_do_not_fit_are_refused_in_one_line():
    whole = {"model_dir": "unused", "data": {"train": "a", "dev": "b", "src": {"lang": "de"}, "tgt": {"lang": "en"}}}
    joint = {"subwords": {"joint": True}}
    for data, model, training, line in [
        (
            {"subwords": {"joint": False}},
            {},
            {},
            "data.subwords.joint must be true with model.decoder.edit_actions: true, got false",
        ),
        (joint, {"copy_source": True}, {}, "copy_source must be false with model.decoder.edit_actions: true, got true"),
        (joint, {}, {"tgt_word_dropout": 0.1}, "tgt_word_dropout must be 0 with model.decoder.edit_actions: true"),
    ]:
        settings = whole | {"data": whole["data"] | data, "training": training}
        refused(ConfigError, line, config_from_dict, settings | {"model": {"decoder": {"edit_actions": True, **model}}})


def test_a_gpu_and_scores_of_given_text_are_refused_in_one_line():
    config = model_of_actions().config
    with pytest.raises(DeviceError, match="edit_actions: must be false on a GPU, got true on the device cuda:0; use -"):
        check_device(config, SimpleNamespace(is_cpu=False, name="cuda:0"))
    with pytest.raises(ConfigError, match="scores of translations: must be of a model without"):
        model_of_actions().forced_log_probs([[4]], [[5, EOS_ID]])
