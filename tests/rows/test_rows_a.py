"""Rows A of docs/engine-rows.md: one engine for any recurrent cell, and search as one of its uses."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import nmt.decode
from nmt.config import TrainingConfig
from nmt.decode import Hypothesis, search
from nmt.decode.beam import BeamCell
from nmt.decode.beam import run as run_beam
from nmt.decode.hypotheses import Beam, Block
from nmt.errors import NMTError
from nmt.rnn import GRU, Cell, GRUCell, LSTMCell, Param, ResidualCell, Scan, StackCell, State, concat, sigmoid, tanh
from nmt.rnn.cell import under
from nmt.rnn.compiler.program import PlaceKind
from nmt.rnn.kernels.loops import run_cpu
from nmt.rnn.kernels.threads.pool import run_team
from nmt.train.updates.optimizer import make_optimizer
from tests import small_models
from tests.oracle import beam as brute_force
from tests.rnn import scan_cases as cases
from tests.rows.support import MIXED, D, H, T, all_close, hold_to_quotients, kept, plan_of, products
from tests.rows.support import stacked_attention as decoder_stack

PAIRS = [([4, 5], [6, 4, 5]), ([5, 4, 6], [4]), ([6, 6], [5, 5])]


def test_A01_a_translator_learns_and_translates():
    model = small_models.build(7, scale=0.3)
    batch = small_models.batch_of(PAIRS)
    first = model.loss(batch).nll
    optimizer = make_optimizer(TrainingConfig.model_validate({"optimizer": "adam"}), model.params)
    for _ in range(200):
        _, gradients = model.loss_and_gradients(batch, seed=0, label_smoothing=0.0)
        optimizer.step(model.params, gradients, 0.03)
        model.changed()
    assert model.loss(batch).nll < 0.05 * first
    limits = {"max_length_ratio": 2.0, "max_length_extra": 3}
    found = search(model, [src for src, _ in PAIRS], beam_size=3, length_penalty="none", n_best=1, threads=1, **limits)
    assert [hypotheses[0].ids for hypotheses in found] == [tgt for _, tgt in PAIRS]


def test_A03_the_engine_is_not_tied_to_translation():
    """Frames of real numbers, each with a label that depends on the past; nothing of text is loaded for it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 16, 2))
    label = (np.cumsum(x[..., 0], axis=0) > 0).astype(float)
    layer, out = GRU(2, 8, dtype=np.float64), rng.normal(size=8) * 0.3
    losses = []
    for _ in range(60):
        y, _ = layer.forward(x)
        p = 1 / (1 + np.exp(-y @ out))
        losses.append(-np.mean(label * np.log(p) + (1 - label) * np.log(1 - p)))
        d_a = (p - label) / 16
        found = layer.backward(d_a[..., None] * out)
        out -= 0.3 * np.einsum("tb,tbh->h", d_a, y)
        for name, gradient in found.params.items():
            layer.params[name] -= 0.3 * gradient
    assert losses[-1] < 0.5 * losses[0]
    code = (
        "import sys, numpy as np\nfrom nmt.rnn import LSTM\nLSTM(2, 3)(np.zeros((1, 1, 2), 'f4'))\n"
        "print(*[m for m in sys.modules if m.startswith('nmt.') and not m.startswith('nmt.rnn')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    system = {f"nmt.system.{name}" for name in ("files", "interruption", "compile_notice", "terminal")}
    assert set(loaded) <= {"nmt.errors", "nmt.overriding", "nmt.system", *system}


class LeakyCell(Cell):
    """h' = f * h + (1 - f) * tanh(x W + h U) with f = sigmoid(x V): a cell that is not among ours."""

    def __init__(self, input_size, hidden_size):
        self.input_size, self.output_size = input_size, hidden_size

    def params(self):
        n, m = self.input_size, self.output_size
        return {"W": Param((n, m)), "V": Param((n, m)), "U": Param((m, m))}

    def states(self):
        return {"h": self.output_size}

    def step(self, p, x, s):
        f = sigmoid(x @ p.V)
        h = f * s.h + (1 - f) * tanh(x @ p.W + s.h @ p.U)
        return h, State(h=h)


@pytest.mark.parametrize("cell", [LSTMCell(D, H), LeakyCell(D, H)], ids=["ours", "a user's"])
def test_A04_a_run_is_one_launch_whatever_the_number_of_steps(cell, monkeypatch):
    """The time loop is compiled: Python launches as often for 40 steps as for 4."""
    counts = []

    def spy(function, parts, table, keep):
        counts[-1] += 1
        run_team(function, parts, table, keep)

    monkeypatch.setattr(run_cpu, "run_team", spy)
    for steps in (4, 40):
        counts.append(0)
        cases.compiled(cases.draw(cell, "float64", steps=steps))
    assert counts[0] == counts[1] > 0


def test_A05_a_user_s_cell_gets_what_ours_get():
    """Products of inputs leave the loop, gradients of weights are sums over all steps, the cell goes into stacks."""
    plan = plan_of(LeakyCell(D, H))
    assert [name for name, _ in products(plan.forward.before)] == ["V", "W"]
    assert [name for name, _ in products(plan.forward.loop)] == ["U"]
    assert {sink.sink.name for sink in plan.sinks} == {"U", "V", "W"}
    hold_to_quotients(cases.draw(StackCell([LeakyCell(D, H), ResidualCell(LeakyCell(H, H))]), "float64", MIXED))


def test_A06_a_new_cell_is_written_in_python():
    case = cases.draw(LeakyCell(D, H), "float64", MIXED)
    outputs, found, _ = cases.compiled(case)
    p, h = case.params, case.initial["h"].copy()
    for t in range(T):
        f = 1 / (1 + np.exp(-case.x[t] @ p["V"]))
        new = f * h + (1 - f) * np.tanh(case.x[t] @ p["W"] + h @ p["U"])
        h = np.where((t < np.array(MIXED))[:, None], new, h)
    np.testing.assert_allclose(outputs["final h"], h, rtol=1e-12)
    hold_to_quotients(case, found)


def test_A07_cells_are_put_together_from_cells():
    hold_to_quotients(cases.draw(StackCell([LSTMCell(D, H), GRUCell(H, 6), LSTMCell(6, 4)]), "float64", MIXED))


def test_A08_attention_sits_on_a_stack():
    hold_to_quotients(cases.draw(decoder_stack(), "float64", MIXED))


def test_A11_every_input_has_its_gradient_through_time():
    """Sequence, initial states, what is captured and parameters, an early step's influence on the last one included."""
    case = cases.draw(decoder_stack(), "float64")
    late = replace(case, d_y=np.zeros_like(case.d_y), d_final={k: np.zeros_like(a) for k, a in case.d_final.items()})
    late.d_y[-1] = case.d_y[-1]
    _, found, _ = cases.compiled(late)
    assert found["d_x"][0].all() and all(found[f"d_initial {name}"].all() for name in case.initial)
    hold_to_quotients(late, found)


def bytes_of(plan):
    """Numbers a row and step that are stored besides the states."""
    return sum(1 if width is None else width for width in kept(plan))


def test_A12_inference_keeps_nothing_over_time():
    """Training stores five numbers a unit, inference its states, whatever the number of steps."""
    assert bytes_of(plan_of(LSTMCell(D, H))) == 5 * H
    assert bytes_of(plan_of(LSTMCell(D, H), training=False)) == 0


def test_A13_what_is_kept_is_the_user_s_choice():
    """More time and less memory, by an option; another word is one line."""
    usual, again = (bytes_of(plan_of(decoder_stack(), recompute=r)) for r in ("attention", "gates"))
    assert again < usual
    with pytest.raises(NMTError, match="LSTMCell: recompute must be attention or gates, got gate"):
        Scan(LSTMCell(D, H), recompute="gate")


def test_A13_what_is_kept_is_the_user_s_choice_by_name_too():
    """Of five numbers a unit that an LSTM stores two less; beside `gates`, which stores none, one more."""

    def stored(**options):
        return bytes_of(Scan(LSTMCell(D, H), **options).plan(True))

    assert stored() == 5 * H
    assert stored(keep={"i": False, "o": False}) == 3 * H
    assert (stored(recompute="gates"), stored(recompute="gates", keep={"g": True})) == (0, H)
    with pytest.raises(NMTError, match="LSTMCell: keep must name values that the step notes, i, f, g, o, got gate"):
        Scan(LSTMCell(D, H), keep={"gate": False})


def test_A15_what_was_not_kept_is_computed_again():
    case = cases.draw(decoder_stack(), "float64", MIXED)
    kept_, again = (cases.compiled(case, recompute=r) for r in ("attention", "gates"))
    all_close(again[0], kept_[0], 1e-12)
    all_close(again[1], kept_[1], 1e-12)


def test_A14_the_way_back_needs_the_same_memory_for_any_number_of_steps():
    """What its loop writes is scratch of a step or a block, operands of sums over all steps, and d_x."""
    for cell in (LSTMCell(D, H), decoder_stack()):
        plan = plan_of(cell)
        lasting = {name for name, place in plan.backward.arrays.items() if place.kind is PlaceKind.SEQUENCE}
        assert lasting <= {place.name for place in plan.d_inputs.values()}


def test_A21_search_finds_what_brute_force_finds():
    model = small_models.build(6, scale=0.8, seed=3)

    def log_probs(prefix):
        rows = np.full(6, -np.inf)
        for token in (1, 3, 4, 5):
            losses = []
            for tokens in ((*prefix, token), prefix):
                batch = small_models.batch_of([([4, 5], list(tokens[:-1]))])
                forced = batch.tgt_out.copy()
                forced[-1, 0] = tokens[-1] if tokens else 0
                losses.append(model.loss(replace(batch, tgt_out=forced), threads=1).nll if tokens else 0.0)
            rows[token] = losses[1] - losses[0]
        return rows

    options = {"length_penalty": "none", "n_best": 3, "threads": 1, "max_length_ratio": 0.0, "max_length_extra": 3}
    ((*found,),) = search(model, [[4, 5]], beam_size=64, **options)
    everything = brute_force.all_sequences(log_probs, eos=3, max_length=3, length_penalty="none", forbidden=(0, 2))
    best = [s for s in everything if s.finished][:3]
    assert [tuple(h.ids) for h in found] == [s.ids for s in best]
    assert [h.score for h in found] == pytest.approx([s.score for s in best], abs=1e-4)


class WindowDecoder:
    """No network at all: the next token's chances depend on the last two tokens, which are its state."""

    eos_id = 3

    def __init__(self, seed):
        self.table = np.log(np.random.default_rng(seed).dirichlet(np.ones(7), size=(7, 7)))
        self.rows = []

    def admit(self, src_ids, candidates=None):
        count = len(src_ids)
        return np.arange(count), {"before": np.full((count, 1), 2.0)}, np.full(count, 2, np.int32)

    def release(self, sentence_ids):
        pass

    def step(self, tokens, states, parent, sentence_ids):
        self.rows.append(len(tokens))
        before = states["before"][parent, 0].astype(int)
        return self.table[before, tokens], {"before": tokens[:, None].astype(float)}

    def best_tokens(self, outputs, first_token, places):
        outputs = outputs.copy()
        outputs[:, :first_token] = -np.inf
        tokens = np.argsort(-outputs, axis=1)[:, :places].astype(np.int32)
        return tokens, np.take_along_axis(outputs, tokens, axis=1)

    def log_probs(self, outputs):
        return outputs.copy()

    def __call__(self, prefix):
        before, last = (2, 2, *prefix)[-2:]
        return self.table[before, last]


def test_A22_search_is_a_cell_run_over_time():
    """Its state: the decoder's states, tokens, sums and the rows they continue; a step takes one beam to the next."""
    decoder = WindowDecoder(0)
    cell = BeamCell(decoder, np.array([9]), 3, "none", first_token=1, never=2)
    sentence_ids, states, tokens = decoder.admit([[0]])
    first = Beam(states, np.zeros(1, np.int64), tokens, np.zeros(1), np.zeros(1, np.int64), np.zeros((1, 0), np.int32))
    beam = cell.extend(None, np.zeros(1, np.int64), sentence_ids, first)
    for step in range(1, 4):
        after = cell.step(beam)
        assert len(after) <= 3
        for row in range(len(after)):
            words = tuple(after.words[row, :step].tolist())
            assert words[-1] == after.tokens[row]
            expected = sum(decoder(words[:n])[words[n]] for n in range(step))
            assert after.sums[row] == pytest.approx(expected)
            assert int(after.states["before"][after.parent[row], 0]) == (2, *words)[-2]
        beam = after


def test_A23_what_has_ended_costs_nothing():
    """Rows of hypotheses that ended leave; the search stops when no live one can win."""
    decoder = WindowDecoder(1)
    limit = 40
    cell = BeamCell(decoder, np.full(4, limit), 3, "none", first_token=1, never=2)
    blocks = iter([Block(np.arange(4), [[n] for n in range(4)])])
    assert len(dict(run_beam(cell, blocks, 4))) == 4
    assert len(decoder.rows) < limit
    assert decoder.rows[0] == 4 and max(decoder.rows) <= 4 * 3 and decoder.rows[-1] < max(decoder.rows)


@pytest.mark.parametrize("seed", range(4))
def test_A24_search_does_not_know_the_model(seed):
    """A table over a window of past tokens, against trying everything; then a convolution in place of the network."""
    decoder = WindowDecoder(seed)
    cell = BeamCell(decoder, np.array([4]), 1000, "none", n_best=5, first_token=1, never=2)
    (found,) = dict(run_beam(cell, iter([Block(np.arange(1), [[0]])]), 1)).values()
    everything = brute_force.all_sequences(decoder, eos=3, max_length=4, length_penalty="none", forbidden=(0, 2))
    finished = [s for s in everything if s.finished]
    best = [h for h in found if h.finished]
    assert best and [tuple(h.ids) for h in best] == [s.ids for s in finished[: len(best)]]
    assert [h.score for h in best] == pytest.approx([s.score for s in finished[: len(best)]])


def test_A24_a_convolution_decodes_as_a_recurrent_cell_does():
    model = small_models.build(9, scale=0.8, decoder={"rnn_type": "convolution"})
    options = {"length_penalty": "none", "n_best": 1, "threads": 1, "max_length_ratio": 2.0, "max_length_extra": 3}
    for source, (hypothesis,) in zip([[4, 5], [6]], search(model, [[4, 5], [6]], beam_size=4, **options), strict=True):
        assert isinstance(hypothesis, Hypothesis)
        if hypothesis.finished:
            batch = small_models.batch_of([(source, hypothesis.ids)])
            assert hypothesis.score == pytest.approx(-model.loss(batch, threads=1).nll, abs=5e-5)


def test_A25_search_is_public():
    assert {"search", "Hypothesis", "SearchOptions"} <= set(nmt.decode.__all__)
    assert nmt.Translator.translate.__doc__


def test_A10_cells_are_wired_by_names():
    """A wrapper of a user's own: two cells side by side, the second also reads what the first remembers."""

    class Beside(Cell):
        def __init__(self):
            self.one, self.two = LSTMCell(D, H), GRUCell(D + H, 4)
            self.input_size, self.output_size = D, H + 4

        def params(self):
            return under("one", self.one.params()) | under("two", self.two.params())

        def states(self):
            return under("one", self.one.states()) | under("two", self.two.states())

        def step(self, p, x, s):
            first, one = self.one.step(p.sub("one"), x, s.sub("one"))
            second, two = self.two.step(p.sub("two"), concat(x, s["one.c"]), s.sub("two"))
            return concat(first, second), State.nest(one=one, two=two)

    case = cases.draw(Beside(), "float64", MIXED)
    outputs, found, masks = cases.compiled(case)
    all_close(outputs, cases.interpreted(case, masks)[0])
    hold_to_quotients(case, found)
