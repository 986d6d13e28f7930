"""nmt.torch.LSTM, GRU and RNN give what torch's modules give, of the same parameters."""

import copy
import io
import itertools
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; make test-torch")

from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

import nmt.torch  # noqa: E402
from nmt.torch import modules, stack  # noqa: E402
from tests.refusals import refused  # noqa: E402

KINDS = {"LSTM": {}, "LSTMP": {"proj_size": 3}, "GRU": {}, "RNN": {}, "RNN relu": {"nonlinearity": "relu"}}
T, B, D, H = 6, 3, 4, 5


@pytest.fixture(autouse=True)
def no_run_is_left_to_torch(monkeypatch):
    monkeypatch.setattr(modules, "_FEW_STEPS", 0)


def pair(kind, dtype=torch.float64, **options):
    """torch's module and ours, with the same parameters, loaded by state_dict in either direction."""
    name = kind.split()[0].rstrip("P")
    theirs, ours = (getattr(home, name)(D, H, dtype=dtype, **KINDS[kind], **options) for home in (torch.nn, nmt.torch))
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    return theirs, ours


def states_of(module):
    count = module.num_layers * (1 + module.bidirectional)
    widths = (module.proj_size or H, H)[: 1 + (module.mode == "LSTM")]
    return tuple(torch.randn(count, B, n, dtype=torch.float64, requires_grad=True) for n in widths)


def results(module, x, states, lengths=None):
    """Outputs and all gradients of a run, by name."""
    leaves = [x.clone().requires_grad_(), *(one.detach().clone().requires_grad_() for one in states)]
    x, *states = leaves
    hx = None if not states else tuple(states) if len(states) > 1 else states[0]
    first = module.batch_first
    given = x if lengths is None else pack_padded_sequence(x, lengths, batch_first=first, enforce_sorted=False)
    torch.manual_seed(7)  # dropout draws the same numbers
    y, final = module(given, hx)
    y = y if lengths is None else pad_packed_sequence(y, batch_first=first)[0]
    found = [y, *(final if isinstance(final, tuple) else (final,))]
    loss = sum((one * torch.cos(torch.arange(one.numel(), dtype=one.dtype).reshape(one.shape))).sum() for one in found)
    gradients = torch.autograd.grad(loss, [*leaves, *module.parameters()])
    with torch.no_grad():
        quiet, _ = copy.deepcopy(module).eval()(given, hx)
    return [*found, quiet if lengths is None else quiet.data, *gradients]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [None, [4, 6, 1]])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_outputs_and_gradients_are_those_of_torch(kind, layers, both, lengths):
    torch.manual_seed(3)
    for first, given, bias in ((False, True, True), (True, False, True), (False, False, False)):
        options = {"num_layers": layers, "bidirectional": both, "batch_first": first, "bias": bias}
        theirs, ours = pair(kind, dropout=0.3 if layers > 1 else 0.0, **options)
        x = torch.randn(*((B, T) if first else (T, B)), D, dtype=torch.float64)
        states = states_of(ours) if given else ()
        for expected, got in zip(*(results(m, x, states, lengths) for m in (theirs, ours)), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)  # other orders of sums


@pytest.mark.parametrize("kind", KINDS)
def test_unbatched_input_and_single_steps(kind):
    theirs, ours = pair(kind, num_layers=2)
    x = torch.randn(T, D, dtype=torch.float64)
    for expected, got in zip(*(results(m, x, ()) for m in (theirs, ours)), strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)
    with torch.no_grad():
        states = [None, None]
        for step in torch.randn(5, 1, B, D, dtype=torch.float64):
            (expected, states[0]), (got, states[1]) = theirs(step, states[0]), ours(step, states[1])
            torch.testing.assert_close(got, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_agree_with_finite_differences(kind):
    options = KINDS[kind] | ({"proj_size": 1} if kind == "LSTMP" else {})
    ours = getattr(nmt.torch, kind.split()[0].rstrip("P"))(2, 2, 2, bidirectional=True, dtype=torch.float64, **options)
    x = torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)

    def run(x, *_):
        y, final = ours(x)
        return (y, *(final if isinstance(final, tuple) else (final,)))

    assert torch.autograd.gradcheck(run, (x, *ours.parameters()))
    if "relu" not in kind:  # whose second derivative is zero or none
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert torch.autograd.gradgradcheck(run, (x, *itertools.islice(ours.parameters(), 2)))


def test_numbers_of_parameters_are_read_again_when_they_change():
    theirs, ours = pair("LSTM")
    x = torch.randn(T, B, D, dtype=torch.float64)
    with torch.no_grad():
        ours(x)
        for change in (lambda w: w.mul_(2), lambda w: w.data.add_(0.1), lambda w: w.numpy().__imul__(0.5)):
            for module in (theirs, ours):
                change(module.weight_hh_l0)
            torch.testing.assert_close(ours(x)[0], theirs(x)[0])
        swapped = {name: one * 3 for name, one in ours.state_dict().items()}
        expected, got = (torch.func.functional_call(m, swapped, (x,))[0] for m in (theirs, ours))
    torch.testing.assert_close(got, expected)
    # A run with other numbers between a forward and its backward.
    y = ours(x)[0].sum()
    kept = ours.weight_hh_l0.data.clone()
    ours.weight_hh_l0.data[0, 0] += 1
    ours(x)
    ours.weight_hh_l0.data.copy_(kept)
    y.backward()
    theirs.load_state_dict(ours.state_dict())
    theirs(x)[0].sum().backward()
    torch.testing.assert_close(ours.weight_ih_l0.grad, theirs.weight_ih_l0.grad)


def test_short_runs_with_gradients_are_those_of_torch(monkeypatch):
    monkeypatch.setattr(modules, "_FEW_STEPS", 8)
    theirs, ours = pair("GRU")
    for steps, ends_here in ((7, False), (8, True)):
        y, _ = ours(torch.randn(steps, B, D, dtype=torch.float64))
        assert (type(y.grad_fn).__name__ == "PassBackward") is ends_here
    with torch.no_grad():
        x = torch.randn(1, B, D, dtype=torch.float64)
        torch.testing.assert_close(ours(x), theirs(x))


def test_a_graph_can_be_used_twice_and_notices_changed_outputs():
    _, ours = pair("GRU")
    x = torch.randn(T, B, D, dtype=torch.float64, requires_grad=True)
    y = ours(x)[0]
    first, second = (torch.autograd.grad(y.sum(), x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_memory_is_shared_and_modules_can_be_copied_and_stored():
    _, ours = pair("LSTM", num_layers=2)
    x = torch.randn(T, B, D, dtype=torch.float64)
    file = io.BytesIO()
    expected = ours(x)[0]
    torch.save(ours, file)
    file.seek(0)
    for other in (copy.deepcopy(ours), torch.load(file, weights_only=False), ours.float().double()):
        torch.testing.assert_close(other(x)[0], expected, rtol=1e-6, atol=1e-7)  # float() has rounded the last one
    theirs, _ = pair("LSTM", num_layers=2)
    assert isinstance(ours, torch.nn.LSTM) and list(ours.state_dict()) == list(theirs.state_dict())


def test_what_the_core_does_not_compute_is_left_to_torch_and_said_once(monkeypatch):
    monkeypatch.setattr(stack, "_said", set())
    theirs, ours = pair("GRU", torch.float32)
    x = torch.randn(T, B, D)

    def gradient(module):
        return torch.func.grad(lambda x: module(x)[0].sum())(x)

    with pytest.warns(RuntimeWarning, match="torch's own layers compute with transforms"):
        assert torch.equal(gradient(ours), gradient(theirs))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient(ours)
    with pytest.warns(RuntimeWarning, match="tensors on meta"):
        assert copy.deepcopy(ours).to("meta")(x.to("meta"))[0].shape == (T, B, H)
    with pytest.warns(RuntimeWarning, match="autocast"), torch.autocast("cpu"):
        assert ours(x)[0].dtype == theirs(x)[0].dtype
    with pytest.warns(RuntimeWarning, match="float16"):
        copy.deepcopy(ours).half()(x.half())


@pytest.mark.parametrize(
    "given", [(torch.randn(T, B, D + 1),), (torch.randn(T, B, D), torch.randn(1, B + 1, H)), (torch.randn(0, B, D),)]
)
def test_errors_are_those_of_torch(given):
    theirs, ours = (refused(RuntimeError, "", module, *given) for module in pair("GRU", torch.float32))
    assert ours == theirs
