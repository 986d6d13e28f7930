"""Cells, inputs and runs that the tests of the scan share. Sizes differ from one another wherever they may: equal sizes
are another program, and would hide an exchange of two of them."""

from dataclasses import dataclass, field, replace

import numpy as np

from nmt.rnn import ChunkedScan, Scan, Weights, interpreter
from nmt.rnn.cell import axes_of
from nmt.rnn.cells import AttentionCell, DropoutCell, ElmanCell, GRUCell, LinearCell, LSTMCell, ResidualCell, StackCell
from nmt.rnn.compiler.trace import trace
from nmt.rnn.stepping.stepper import Stepper
from tests.oracle import compare
from tests.oracle import gradients as slopes

D, H, M, A, OUT = 5, 7, 6, 4, 11
T, B, S = 6, 5, 4

RECURRENT = {
    "lstm": lambda: LSTMCell(D, H),
    "gru": lambda: GRUCell(D, H),
    "gru_reset_before": lambda: GRUCell(D, H, reset_after=False),
    "rnn_tanh": lambda: ElmanCell(D, H),
    "rnn_relu": lambda: ElmanCell(D, H, nonlinearity="relu"),
}


def dropped(cell, rate, variational=False):
    return DropoutCell(cell, rate, variational)


WRAPPED = {
    # Its backward pass reads a slice of a product that is kept without the rest of it.
    "gru_no_bias": lambda: GRUCell(D, H, bias=False),
    "linear": lambda: LinearCell(D, OUT),
    "stack": lambda: StackCell(
        [LSTMCell(D, H), ResidualCell(dropped(GRUCell(H, H), 0.3, True)), LinearCell(H, OUT, "tanh")]
    ),
    "dropout": lambda: dropped(GRUCell(D, H, reset_after=False), 0.4),
}


def decoder(inner, attention, input_feeding, dropout=0.0):
    """An attention cell around a recurrent cell; the dot products need a memory as wide as it."""
    memory_size = H if attention in ("dot", "scaled_dot") else M
    cell = inner(D + OUT * input_feeding, H)
    size = A if attention == "bahdanau" else None
    return AttentionCell(
        cell, memory_size, OUT, attention=attention, attention_size=size, input_feeding=input_feeding, dropout=dropout
    )


# (inner cell, kind of attention, input feeding, dropout): every pair of choices is met once.
DECODERS = {
    "lstm_bahdanau_feed": (LSTMCell, "bahdanau", True, 0.0),
    "gru_bahdanau": (GRUCell, "bahdanau", False, 0.0),
    "gru_general_feed_dropout": (GRUCell, "general", True, 0.3),
    "lstm_general": (LSTMCell, "general", False, 0.0),
    "gru_dot_feed": (GRUCell, "dot", True, 0.0),
    "lstm_dot_dropout": (LSTMCell, "dot", False, 0.3),
    "lstm_scaled_dot_feed": (LSTMCell, "scaled_dot", True, 0.0),
    "gru_scaled_dot": (GRUCell, "scaled_dot", False, 0.0),
}
ATTENTION = {name: lambda choice=choice: decoder(*choice) for name, choice in DECODERS.items()}
CELLS = {**RECURRENT, **WRAPPED, **ATTENTION}

LENGTHS = {
    "full": None,
    "mixed": (3, 6, 1, 5, 2),
    "sorted": (6, 4, 3, 1, 1),
    "ones": (1,) * B,
    "zeros": (0, 4, 0, 6, 0),
}
SOURCE_LENGTHS = (4, 1, 3, 2, 4)


@dataclass
class Case:
    """A cell and everything a run over it takes, cotangents included."""

    cell: object
    params: dict
    x: np.ndarray
    initial: dict
    captured: dict
    d_y: np.ndarray
    d_final: dict
    lengths: tuple | None = None
    source_lengths: tuple | None = None
    mask: np.ndarray | None = None  # bool [T, B], in the place of lengths
    sequences: dict = field(default_factory=dict)
    d_recorded: dict = field(default_factory=dict)

    @property
    def options(self):
        """The keywords of a forward pass."""
        return {
            "lengths": self.lengths,
            "mask": self.mask,
            "captured": self.captured,
            "source_lengths": self.source_lengths if self.captured else None,
            **({"sequences": self.sequences} if self.sequences else {}),
        }

    def rows(self, chosen):
        """The same numbers for some of the rows."""
        chosen = list(chosen)

        def of(arrays):
            return {k: np.ascontiguousarray(a[..., chosen, :]) for k, a in arrays.items()}

        def some(lengths):
            return None if lengths is None else [lengths[row] for row in chosen]

        def first(arrays):
            return {k: np.ascontiguousarray(a[chosen]) for k, a in arrays.items()}

        flat = of({"x": self.x, "d_y": self.d_y})
        return Case(
            self.cell, self.params, flat["x"], first(self.initial), of(self.captured), flat["d_y"],
            first(self.d_final), some(self.lengths), some(self.source_lengths),
        )  # fmt: skip


def draw(cell, dtype, lengths=None, *, rows=B, steps=T, places=S, seed=0):
    """Numbers that float32 holds exactly."""
    rng = np.random.default_rng([seed, rows, steps])

    def normal(*shape, scale=1.0):
        return (rng.normal(size=shape) * scale).astype(np.float32).astype(dtype)

    return Case(
        cell,
        {name: normal(*p.shape, scale=0.4) for name, p in cell.params().items()},
        normal(steps, rows, *axes_of(cell.input_size)),
        {name: normal(rows, *axes_of(n)) for name, n in cell.states().items()},
        {name: normal(*[places] * c.source_axis, rows, *axes_of(c.width)) for name, c in cell.captured().items()},
        normal(steps, rows, *axes_of(cell.output_size)),
        {name: normal(rows, *axes_of(n)) for name, n in cell.states().items()},
        lengths,
        SOURCE_LENGTHS if rows == B and places == S else None,
    )


def moved(value, move):
    """A case's arrays, alone or by name, each through `move`."""
    return {k: move(a) for k, a in value.items()} if isinstance(value, dict) else move(value)


def on_device(case, device):
    """The same case with its arrays on a device; None is the processor."""
    if device is None:
        return case
    names = ("params", "x", "initial", "captured", "d_y", "d_final")
    return replace(case, **{name: moved(getattr(case, name), device.upload) for name in names})


def on_host(found, device):
    """Results as host arrays."""
    return found if device is None else tuple(moved(arrays, device.download) for arrays in found)


def compiled(case, *, device=None, **options):
    """(outputs, gradients, masks) of the compiled program, all dicts of host arrays by name."""
    return on_host(_compiled(on_device(case, device), device=device, **options), device)


def _compiled(case, *, reverse=False, threads=1, seed=3, shares=None, weights_later=False, chunk=None, **options):
    """`shares`: what gradients of parameters are added to; `weights_later`: by a call of their own; `chunk`: steps that
    are run at a time."""
    scan = Scan(case.cell, dtype=case.x.dtype, threads=threads, **options)
    whole = scan if chunk is None else ChunkedScan(scan, chunk)
    run = {**case.options, "reverse": reverse, "training": True} | ({"seed": seed} if chunk is None else {})
    result = whole.forward(Weights(case.params), case.x, case.initial, **run)
    masks = {m.name: dropped_in(result.tape, m) for m in trace(case.cell, training=True).masks}
    if shares is None:
        shares = {name: scan.device.xp.zeros_like(p) for name, p in case.params.items()}
    if weights_later:
        found = scan.backward(result.tape, case.d_y, case.d_final, weights_later=True)
        scan.backward_weights(result.tape, shares)
    else:
        more = {"d_recorded": case.d_recorded} if case.d_recorded else {}
        found = whole.backward(result.tape if chunk is None else result, case.d_y, case.d_final, shares, **more)
    stopped = {"taken": result.lengths} if options.get("stop") else {}
    return named(result) | stopped, gradients(found, shares), masks


def dropped_in(tape, mask):
    """The dropout mask that a run drew, for the steps as they were given."""
    if mask.variational:
        return tape.arrays[mask.array]
    drawn = tape.arrays[mask.name]
    return drawn if tape.packing is None else tape.packing.unpack(drawn)


def inferred(case, *, reverse=False, device=None, **options):
    """Outputs of the compiled program that keeps nothing, on the host."""
    scan = Scan(case.cell, dtype=case.x.dtype, device=device, **{"threads": 1, **options})
    case = on_device(case, device)
    result = scan.forward(Weights(case.params), case.x, case.initial, **case.options, reverse=reverse)
    assert result.tape is None
    return on_host((named(result),), device)[0]


def wide(value):
    """Arrays, alone or by name, in float64."""
    return moved(value, lambda array: array.astype(np.float64))


def interpreted(case, masks, *, reverse=False, record=()):
    """(outputs, gradients) of the interpreter in float64, with the given dropout masks."""
    result = _interpreter_forward(case, masks, reverse, record)
    d_y = np.zeros_like(result.y) if case.d_y is None else wide(case.d_y)
    found = interpreter.backward(result, d_y, wide(case.d_final), case.d_recorded)
    return named(result), gradients(found, found.params)


def _interpreter_forward(case, masks, reverse, record=()):
    options = {**case.options, "captured": wide(case.captured)}
    return interpreter.forward(
        case.cell, wide(case.params), wide(case.x), wide(case.initial), **options,
        reverse=reverse, masks=None if masks is None else wide(masks), record=record,
    )  # fmt: skip


def agreeing(case, tolerance=1e-9, *, reverse=False, **options):
    """(outputs, gradients, masks) of the compiled program, held to the interpreter's with the same dropout."""
    outputs, found, masks = compiled(case, reverse=reverse, **options)
    expected = interpreted(case, masks, reverse=reverse)
    compare.assert_all_close(outputs, expected[0], tolerance, "output")
    compare.assert_all_close(found, expected[1], tolerance, "gradient")
    return outputs, found, masks


def assert_same_run(found, expected):
    """Outputs and gradients, the first two results of `compiled`, are equal to the last bit."""
    compare.assert_same_bits(found[0] | found[1], expected[0] | expected[1])


def stepped(scan, weights, x, states, captured=None, source_lengths=None, sequences=None):
    """Outputs and last states by name, on the host, of one step after another; all arrays are the device's."""
    stepper, y, download = Stepper(scan, weights), [], scan.device.download
    ids = stepper.admit(captured, source_lengths) if captured else None
    for t, row in enumerate(x):
        out, new = stepper.step(row, states, ids, sequences={k: a[t] for k, a in (sequences or {}).items()})
        y.append(download(out).copy())
        states = {k: a.copy() for k, a in new.items()}
    return {"y": np.array(y), **{f"final {k}": download(a) for k, a in states.items()}}


def hold_to_complex_steps(loss_of, leaves, found, tolerance=1e-9):
    """The gradient of every leaf, along a direction of its own, is that of a loss of all leaves."""
    rng = np.random.default_rng(5)
    for name in leaves:
        direction = slopes.random_direction(leaves, rng, only=[name])
        exact, got = slopes.complex_step(loss_of, leaves, direction), slopes.inner(found, direction)
        assert abs(got - exact) <= tolerance * max(1.0, abs(exact)), f"gradient of {name}: {got} instead of {exact}"


def hold_to_slopes(case, found, masks=None, *, reverse=False):
    """Gradients, by the names of `gradients`, are the slope of the interpreter's loss in a random direction, by
    differences."""

    def loss():
        result = _interpreter_forward(case, masks, reverse)
        return (result.y * case.d_y).sum() + sum((result.final[k] * d).sum() for k, d in case.d_final.items())

    leaves = {"d_x": case.x, **{f"d_initial {k}": a for k, a in case.initial.items()}}
    leaves |= {f"d_captured {k}": a for k, a in case.captured.items()} | {f"d_{k}": a for k, a in case.params.items()}
    assert set(leaves) == set(found)
    rng = np.random.default_rng(1)
    direction = {name: rng.normal(size=array.shape) for name, array in leaves.items()}
    half, slope = (slopes.along(loss, leaves, direction, step) for step in (5e-6, 1e-5))
    expected = (4 * half - slope) / 3  # without third derivatives times step ** 2
    # The error of the difference: fifth derivatives times step ** 4, and rounding of the loss divided by the step.
    got = slopes.inner(found, direction)
    assert abs(got - expected) < 1e-6 * (1 + abs(expected)), f"gradients by differences: {got} instead of {expected}"


def named(result):
    """Output, final states and recorded values by name."""
    found = {"y": result.y, **{f"final {k}": a for k, a in result.final.items()}}
    return found | {f"recorded {k}": a for k, a in result.recorded.items()}


def gradients(found, params):
    """All gradients by name."""
    all_of_them = {
        "d_x": found.x,
        **{f"d_{k}": a for k, a in found.sequences.items()},
        **{f"d_initial {k}": a for k, a in found.initial.items()},
        **{f"d_captured {k}": a for k, a in found.captured.items()},
        **{f"d_{k}": a for k, a in params.items()},
    }
    return {k: a for k, a in all_of_them.items() if a is not None}
