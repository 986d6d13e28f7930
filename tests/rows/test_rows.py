"""What rows of results/engine-rows.md promise and no other test shows: the page names the tests of every row."""

from dataclasses import replace

import numpy as np
import pytest

import nmt.rnn
from nmt.errors import NMTError, ShapeError
from nmt.rnn import LSTM, Cell, GRUCell, LSTMCell, Param, ResidualCell, Scan, StackCell, State, Weights, sigmoid, tanh
from nmt.rnn.kernels.loops import run_cpu
from nmt.rnn.kernels.threads.pool import run_team
from nmt.rnn.layers.layer_stack import pack, unpack
from tests.devices import device_at
from tests.oracle.compare import assert_all_close
from tests.processes import python
from tests.rnn import scan_cases as cases
from tests.rows import support
from tests.rows.support import MIXED, B, D, H, T, close, draw, kept, products


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
def test_a_run_is_one_launch_whatever_the_number_of_steps(cell, monkeypatch):
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


def test_the_plan_of_a_user_s_cell():
    """Products of inputs leave the loop, gradients of weights are sums over all steps, the cell goes into stacks."""
    plan = support.plan_of(LeakyCell(D, H))
    assert [name for name, _ in products(plan.forward.before)] == ["V", "W"]
    assert [name for name, _ in products(plan.forward.loop)] == ["U"]
    assert {sink.sink.name for sink in plan.sinks} == {"U", "V", "W"}
    support.hold_to_quotients(cases.draw(StackCell([LeakyCell(D, H), ResidualCell(LeakyCell(H, H))]), "float64", MIXED))


def test_what_a_plan_is_kept_by(monkeypatch):
    """Whatever changes a program is in the key; batch, lengths and direction are not, as no program depends on them."""
    made = support.count_plans(monkeypatch)

    def plans(cell, training=True, **options):
        before = len(made)
        Scan(cell, **{"dtype": "float64", **options}).plan(training)
        return len(made) - before

    assert plans(LSTMCell(D, 13)) == 1
    assert plans(LSTMCell(D, 13)) == plans(LSTMCell(D, 13), threads=3) == plans(LSTMCell(D, 13), division="units") == 0
    changes = [
        plans(LSTMCell(D + 1, 13)),
        plans(LSTMCell(D, 14)),
        plans(LSTMCell(D, 13, bias=False)),
        plans(GRUCell(D, 13)),
        plans(LSTMCell(D, 13), training=False),
        plans(LSTMCell(D, 13), dtype="float32"),
        plans(LSTMCell(D, 13), device=device_at("cuda")),
        plans(LSTMCell(D, 13), dtype="float32", compute_dtype="bfloat16"),
        plans(LSTMCell(D, 13), recompute="gates"),
        plans(LSTMCell(D, 13), needs=list(LSTMCell(D, 13).params())),
    ]
    assert changes == [1] * len(changes)
    scan, weights = Scan(LSTMCell(D, 13), dtype="float64"), Weights(cases.draw(LSTMCell(D, 13), "float64").params)
    before = len(made)
    for steps, rows, reverse in ((3, 2, False), (7, 5, True), (1, 1, False)):
        scan.forward(weights, draw(steps, rows, D), training=True, reverse=reverse, lengths=[1] * rows)
    assert len(made) == before


def test_plans_are_kept_and_shared():
    """By operators of the same kind, layers of one size and all threads."""
    first, second = LSTM(D, H, 3), LSTM(D, H, 3, bidirectional=True)
    scans = [side.scan for layer in (first, second) for sides in layer._layers for side in sides]
    of_layers = [scan.compiled(training=True) for scan in scans[:3]]
    assert of_layers[1] is of_layers[2] and of_layers[0] is not of_layers[1]
    assert scans[3].compiled(training=True) is of_layers[0] is scans[4].compiled(training=True)


def test_a_cell_may_know_the_time():
    """A state that counts; a sequence that comes in two parts goes on counting."""
    case = cases.draw(support.ClockCell(4), "float64", MIXED)
    case.initial.pop("t")
    outputs, _, _ = cases.compiled(case)
    h = case.initial["h"].copy()
    for t in range(T):
        h += t * case.x[t] * (t < np.array(MIXED))[:, None]
    close(outputs["final h"], h)
    scan, weights = Scan(case.cell, dtype="float64"), Weights({})
    whole = scan.forward(weights, case.x, case.initial)
    first = scan.forward(weights, case.x[:2], case.initial)
    np.testing.assert_array_equal(np.concatenate([first.y, scan.forward(weights, case.x[2:], first.final).y]), whole.y)


def test_a_forward_only_run_has_no_way_back():
    """No backward program is made, nothing is kept, and asking for gradients is one line."""
    case = cases.draw(LSTMCell(D, H), "float64")
    scan = Scan(case.cell, dtype="float64")
    assert scan.plan(training=False).backward is None
    assert kept(scan.plan(training=False)) == [] != kept(scan.plan(training=True))
    result = scan.forward(Weights(case.params), case.x)
    assert result.tape is None
    with pytest.raises(NMTError, match="LSTMCell.backward: the tape must be of a run with training=True, got None"):
        scan.backward(result.tape, case.d_y)


def test_gradients_of_references_are_sums_over_time():
    """Of a parameter and of a captured array: the whole run against its steps, one by one, last step first."""
    case = replace(cases.draw(support.swap_cell(), "float64"), source_lengths=None)
    _, found, _ = cases.compiled(case)
    scan, weights, states, tapes = Scan(case.cell, dtype="float64", threads=1), Weights(case.params), case.initial, []
    for x in case.x:
        step = scan.forward(weights, x[None], states, captured=case.captured, training=True)
        states, tapes = step.final, [*tapes, step.tape]
    total, shares, d_states = np.zeros((B, H)), {"W": np.zeros((D, H))}, case.d_final
    for tape, d_y in zip(reversed(tapes), case.d_y[::-1], strict=True):
        step = scan.backward(tape, d_y[None], d_states, shares)
        total, d_states = total + step.captured["outside"], step.initial
    close(found["d_captured outside"], total)
    close(found["d_W"], shares["W"])
    assert_all_close({k: found[f"d_initial {k}"] for k in d_states}, d_states)


def training_run(**options):
    """Return a case of an LSTM and its run."""
    case = cases.draw(LSTMCell(D, H), "float64")
    scan = Scan(case.cell, dtype="float64", threads=1)
    return case, scan.forward(Weights(case.params), case.x, case.initial, training=True, **options)


@pytest.mark.parametrize("reverse", [False, True])
def test_states_lie_in_one_array_with_the_first_in_slot_zero(reverse):
    case, result = training_run(reverse=reverse)
    for name in ("h", "c"):
        stack = result.tape.arrays[f"S_{name}"]
        assert stack.shape == (T + 1, B, H)
        first, last = (T, 0) if reverse else (0, T)
        np.testing.assert_array_equal(stack[first], case.initial[name])
        np.testing.assert_array_equal(stack[last], result.final[name])


def test_outputs_are_views_of_the_states_not_copies():
    _, result = training_run()
    stack = result.tape.arrays["S_h"]
    assert np.shares_memory(result.y, stack) and np.shares_memory(result.y, stack[1:])
    assert not np.shares_memory(result.y, stack[0])


def test_the_core_needs_no_framework():
    """NumPy and llvmlite; of our own packages the engine, with what lies below it: errors, files, interruptions, the
    terminal, and the notice that code is compiled. Numba only compiles: once a process has done so, the next one does
    without it."""
    code = (
        "import sys, numpy as np\nfrom nmt.rnn import LSTM\nlayer = LSTM(3, 4, 2, bidirectional=True)\n"
        "y, hy, cy = layer.forward(np.ones((5, 2, 3), 'f4'))\nlayer.backward(y)\n"
        "print(*{name.split('.')[0] for name in sys.modules}, *[m for m in sys.modules if m.startswith('nmt.')])"
    )
    for _ in range(2):
        loaded = set(python(code).stdout.split())
        assert {"numpy", "llvmlite"} <= loaded
        assert not {"torch", "tensorflow", "jax", "pydantic", "click", "sentencepiece"} & loaded
        others = {m for m in loaded if m.startswith("nmt.") and not m.startswith("nmt.rnn")}
        system = {f"nmt.system.{name}" for name in ("files", "interruption", "notices", "terminal")}
        assert others <= {"nmt.errors", "nmt.overriding", "nmt.system", *system}
    assert "numba" not in loaded


@pytest.mark.parametrize(
    ("lengths", "trailing"), [(MIXED, (D,)), ((0, 3, 0, 1, 6), (2, 3)), ((0,) * B, (D,)), ((T,) * B, ())]
)
def test_sequences_one_after_another_in_one_array(lengths, trailing):
    """There and back; each is the gradient of the other; rows without steps are allowed."""
    assert (nmt.rnn.sequences.pack, nmt.rnn.sequences.unpack) == (pack, unpack), "where their users find them"
    padded = draw(T, B, *trailing)
    values = pack(padded, lengths)
    np.testing.assert_array_equal(values, np.concatenate([padded[:n, row] for row, n in enumerate(lengths)]))
    back = unpack(values, lengths, T)
    for row, n in enumerate(lengths):
        np.testing.assert_array_equal(back[:n, row], padded[:n, row])
        assert not back[n:, row].any()
    d_values = draw(*values.shape)
    assert np.sum(values * d_values) == pytest.approx(np.sum(padded * unpack(d_values, lengths, T)))
    assert unpack(values, lengths).shape == (max(lengths), B, *trailing)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: pack(draw(T, B, D), [1, 2]), "pack: lengths must be 5 integers from 0 to 6, got"),
        (lambda: pack(draw(T), [1]), r"pack: padded must be \[T, B, ...\], got \[6\]"),
        (lambda: unpack(draw(4, D), [1, 2]), "unpack: values must be as many as the sum of all lengths, 3, got 4"),
        (lambda: unpack(draw(3, D), [1, 2], 1), "unpack: lengths must be 2 integers from 0 to 1, got"),
        (lambda: unpack(draw(3, D), [1.5, 1.5], 3), "unpack: lengths must be 2 integers from 0 to 3, got"),
    ],
)
def test_sequences_that_do_not_fit_are_one_line(act, message):
    with pytest.raises(ShapeError, match=message):
        act()
