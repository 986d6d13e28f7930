"""The runtime of a GPU above its kernels: memory, launches, recordings, threads, errors, on the stand-in."""

import operator as op
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from numba import float32

from nmt.config import TrainingConfig
from nmt.decode import force, search
from nmt.errors import DeviceError, NMTError, ShapeError
from nmt.model.translation import TranslationModel
from nmt.rnn import LSTM, LSTMCell, Scan, Weights
from nmt.rnn.arrays.device_operations import ADD_SCALED
from nmt.rnn.arrays.workspace import Workspace
from nmt.rnn.kernels.cuda import optimizer, tuning
from nmt.rnn.kernels.cuda.blas import WORKSPACE, Matrix
from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime
from nmt.rnn.kernels.cuda.matrices import Matrices, rounded
from nmt.rnn.kernels.cuda.rows import row_kernels
from nmt.special_tokens import EOS_ID
from nmt.train.updates.optimizer import OPTIMIZERS, make_optimizer
from tests.cuda_standin.gpu import CUDARuntimeError, StandInError
from tests.cuda_standin.runtime import idle_runtime
from tests.devices import ptx_runtime_with
from tests.refusals import refused
from tests.rnn import scan_cases as cases
from tests.small_models import batch_of, build, random_sentences


@pytest.fixture
def runtime():
    return ptx_runtime_with(seed=1)


@pytest.fixture
def device(runtime):
    return CudaDevice(runtime)


def add(runtime, total, other):
    optimizer.change(runtime, ADD_SCALED, (other, total), (1.0, 1.0))


# ------------------------------------------------------------ what the stand-in is for


def test_nothing_of_the_host_is_converted(device):
    xp, here = device.xp, np.ones(3, np.float32)
    there = device.upload(here)
    calls = (np.asarray, there), (op.add, there, here), (np.add, there, here), (op.setitem, there, ..., here)
    for call, *given in (*calls, (np.concatenate, [there, there]), (partial(xp.concatenate, axis=0), [there, here])):
        refused(TypeError, "", call, *given)
    refused(StandInError, "index of the host", op.getitem, there, np.array([0, 1]))
    refused(AttributeError, "no attribute 'einsum'", getattr, xp, "einsum")
    refused(AttributeError, "no attribute 'restored'", getattr, there, "restored")


def test_a_kernel_reads_only_what_is_allocated(runtime):
    x, y = (runtime.upload(np.ones(8, np.float32)) for _ in range(2))
    add(runtime, x, y)
    np.testing.assert_array_equal(runtime.download(x), 2)
    y.host = np.ones(8, np.float32)  # memory of nobody
    refused(StandInError, "not allocated", add, runtime, x, y)


# ------------------------------------------------------------ memory and launches


def test_memory_that_does_not_suffice_is_one_line(runtime):
    with pytest.raises(DeviceError, match=r"^stand-in: 75.0 GiB more of its 80.0 GiB .* make batches or the model sma"):
        runtime.xp.zeros(75 << 30, np.uint8)


def test_arguments_that_do_not_fit_are_refused(runtime):
    kernel, x = row_kernels.round_rows(np.dtype(np.uint16), 32), runtime.xp.zeros((4, 4), np.uint32)
    refused(TypeError, "6 arguments, got 1", runtime.launch, kernel, 1, x)
    refused(TypeError, "array of uint16 must be given, got uint32", runtime.launch, kernel, 1, x, 0, 4, 4, 4, x)
    refused(TypeError, "C-contiguous", runtime.launch, kernel, 1, x.T, 0, 4, 4, 4, x)


@pytest.mark.parametrize("waits", [False, True])
def test_an_error_names_the_last_operations(monkeypatch, waits):
    """CUDA reports it when the host waits. Where it waits for each operation, the last one failed."""
    monkeypatch.setenv("NMT_GPU_WAIT", str(int(waits)))
    runtime = ptx_runtime_with(seed=1)
    x, y = (runtime.upload(np.ones((4, 4), np.float32)) for _ in range(2))
    out = runtime.xp.zeros((4, 4), np.float32)

    def step():
        add(runtime, x, y)
        runtime.gemm(*map(Matrix.whole, (x, y, out)))

    def fails():
        runtime.gpu.error = CUDARuntimeError("cudaErrorIllegalAddress")

    step()
    again = runtime.record(step)
    again()
    before = runtime.gpu.waits
    again()
    assert runtime.gpu.waits - before == waits
    kernel = row_kernels.round_rows(np.dtype(np.uint16), 32)
    given = x.view(np.uint32), 0, 4, 4, 4, runtime.xp.zeros((4, 4), np.uint16)
    runtime.gpu.before_launch = lambda kernel: fails() if kernel.name == "round_rows" else None
    done = "add_scaled 1x1x1, product 4x4x4"
    named = f"{done}, recording of ({done}), recording of ({done}), round_rows 1x1x1"
    if waits:
        with pytest.raises(DeviceError, match=f"after {re.escape(named)}; the last one failed, run `make"):
            runtime.launch(kernel, 1, *given)
        return
    runtime.launch(kernel, 1, *given)
    step()
    named = named.removeprefix("add_scaled 1x1x1, product 4x4x4, ") + f", {done}"
    with pytest.raises(DeviceError, match=f"after .*{re.escape(named)}; set NMT_GPU_WAIT=1 to learn which one failed"):
        runtime.download(out)


def test_a_launch_that_is_refused_is_one_line(runtime):
    """By the driver, which then may also say what went wrong before."""
    x = runtime.upload(np.ones(4, np.float32))
    add(runtime, x, x)
    runtime.packages.driver.cuLaunchKernel = lambda *given: (SimpleNamespace(name="CUDA_ERROR_ILLEGAL_ADDRESS"),)
    names = re.escape("add_scaled 1x1x1, add_scaled 1x1x1;")
    refused(DeviceError, f"launched must succeed, got CUDA_ERROR_ILLEGAL_ADDRESS after {names}", add, runtime, x, x)


EDITS = {"edit_actions": True, "attention": "none", "input_feeding": False}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"encoder": {"rnn_type": "mlstm"}}, "MLSTMCell: device must be cpu"),
        ({"decoder": {"copy_source": True}}, "model.decoder.copy_source: must be false on a GPU"),
        ({"decoder": EDITS}, "model.decoder.edit_actions: must be false on a GPU"),
    ],
)
def test_a_model_that_needs_the_processor_is_refused_in_one_line(device, changes, what):
    line = rf"^{re.escape(what)}.*, got .*; .*use --device cpu$"
    refused(NMTError, line, build, 14, dtype=np.float32, device=device, **changes)


def test_too_much_shared_memory_is_one_line(runtime):
    kernel = GPUKernel(lambda x: None, (float32[::1],), 32, shared_bytes=1 << 20)
    with pytest.raises(DeviceError, match="must have 1048576 bytes of shared memory, a block has at most 232448"):
        runtime.launch(kernel, 1, runtime.xp.zeros(1, np.float32))


@pytest.mark.parametrize("which", range(3))
def test_a_product_stays_in_its_arrays(runtime, which):
    """Beyond them lie others of the same memory, which cuBLAS would read or write without a word."""
    memory = runtime.xp.zeros(96, np.float32)
    pieces = [memory[32 * n : 32 * n + 16].reshape(4, 4) for n in range(3)]
    given = [Matrix(piece, int(n == which), 4) for n, piece in enumerate(pieces)]
    refused(ShapeError, "rows must lie in their arrays", runtime.gemm, *given)
    given[which] = Matrix(pieces[which], 0, 4, 1, 4)
    refused(ShapeError, "rows must lie in their arrays", runtime.gemm, *given)


# ------------------------------------------------------------ recordings


def test_a_recording_does_nothing_until_it_is_repeated(device):
    x, y = (device.upload(np.ones(5, np.float32)) for _ in range(2))
    add(device.runtime, x, y)
    again = device.record(lambda: add(device.runtime, x, y))
    assert device.download(x)[0] == 2
    again()
    again()
    np.testing.assert_array_equal(device.download(x), 4)


def test_a_recording_made_inside_of_a_with_leaves_the_stream(device):
    """The recorder's own `with` ends in it, and CuPy goes back to the caller's stream."""
    x, y = (device.upload(np.ones(5, np.float32)) for _ in range(2))
    add(device.runtime, x, y)
    with device.runtime.packages.cupy.cuda.Stream(non_blocking=True):
        device.record(lambda: add(device.runtime, x, y))()
        x += 1
    np.testing.assert_array_equal(device.download(x), 4)


@pytest.mark.parametrize("broken", [False, True])
def test_what_fails_while_recording_is_what_is_raised(device, broken):
    """Not the error of the capture that it breaks; and the device goes on."""
    x = device.upload(np.ones(5, np.float32))

    def fails():
        add(device.runtime, x, x)
        raise ZeroDivisionError

    device.runtime.gpu.breaks_capture = broken
    with pytest.raises(ZeroDivisionError):
        device.record(fails)
    device.runtime.gpu.breaks_capture = False
    test_a_recording_does_nothing_until_it_is_repeated(device)


def test_a_capture_that_fails_is_one_line(device):
    x = device.upload(np.ones(5, np.float32))
    device.runtime.gpu.breaks_capture = True
    with pytest.raises(DeviceError, match="cudaErrorStreamCaptureInvalidated"):
        device.record(lambda: add(device.runtime, x, x))


@pytest.mark.parametrize("reason", ["CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "cudaErrorNotSupported: no", "other"])
def test_what_cannot_be_recorded_is_launched_each_time(device, monkeypatch, reason):
    def refuse(function):
        raise DeviceError(f"a GPU: everything launched must succeed, got {reason}")

    calls = []
    monkeypatch.setattr(device.runtime, "record", refuse)
    device.replay(("key",), [], lambda: calls.append(1))
    if reason == "other":
        with pytest.raises(DeviceError, match="got other"):
            device.replay(("key",), [], lambda: calls.append(1))
        return
    with pytest.warns(UserWarning, match="launched without a recording"):
        device.replay(("key",), [], lambda: calls.append(1))
    device.replay(("key",), [], lambda: calls.append(1))
    assert len(calls) == 3


def test_an_empty_array_may_be_recorded(device):
    """CuPy's have the address 0."""
    x, none, done = device.upload(np.ones(4, np.float32)), device.xp.zeros(0, np.float32), []
    for _ in range(3):
        device.replay(("key",), [x, none], lambda: done.append(add(device.runtime, x, x)))
    assert len(done) == 2
    np.testing.assert_array_equal(device.download(x), 8)


# ------------------------------------------------------------ threads


def in_another_thread(call):
    """What a call gives in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@pytest.mark.parametrize("where", ["here", "in a thread"])
@pytest.mark.parametrize("what", ["a download of what lies apart", "a with that ended", "use"])
def test_nothing_takes_the_stream_away(runtime, what, where):
    """CuPy copies an array that lies apart inside `with stream:`, after which its current stream is the one that was
    *entered* before, or the null stream; what is done there has no order with kernels."""

    def work():
        x = runtime.upload(np.arange(6, dtype=np.float32).reshape(2, 3))
        if what == "a with that ended":
            with runtime.packages.cupy.cuda.Stream(non_blocking=True):
                pass
        elif what == "use":
            runtime.packages.cupy.cuda.Stream(non_blocking=True).use()
        else:
            np.testing.assert_array_equal(runtime.download(x.T), [[0, 3], [1, 4], [2, 5]])
        y = runtime.upload(np.ones((2, 3), np.float32))
        y += 1
        add(runtime, x, y)
        return runtime.download(x[:, 1:])

    for _ in range(2):
        np.testing.assert_array_equal(work() if where == "here" else in_another_thread(work), [[3, 4], [6, 7]])


def test_an_array_module_that_was_kept_is_that_of_each_thread(runtime):
    """A thread's first operation may be of CuPy, by a module that another thread asked for."""
    xp, x = runtime.xp, runtime.upload(np.ones(4, np.float32))

    def work():
        other = xp.zeros(4, np.float32)
        other += 1
        add(runtime, x, other)

    in_another_thread(work)
    np.testing.assert_array_equal(runtime.download(x), 2)


def test_a_threads_first_act_may_be_to_free_a_workspace(runtime):
    """Of several chunks, which become one."""
    memory = Workspace(runtime.xp, first=1)
    for _ in range(3):
        memory((64,), np.float32)

    def work():
        memory.reset()
        x = memory((64,), np.float32)
        add(runtime, x, runtime.upload(np.ones(64, np.float32)))
        return runtime.download(x)

    np.testing.assert_array_equal(in_another_thread(work), 1)


@pytest.fixture
def calls(device):
    """Calls of a model and of a layer whose arrays are there."""
    model = build(14, dtype=np.float64, device=device)
    sources, targets = (random_sentences(np.random.default_rng(n), 3, 14, 4) for n in (0, 1))
    batch = batch_of(list(zip(sources, targets, strict=True)))
    _, gradients = model.loss_and_gradients(batch, seed=1)
    kinds = {name: make_optimizer(TrainingConfig(optimizer=name), model.params, 1, device) for name in OPTIMIZERS}
    layer = LSTM(5, 7, dtype="float64", device=device, bidirectional=True)
    x = device.upload(np.ones((4, 3, 5)))
    y, *_ = layer.forward(x)
    d_y = device.upload(np.ones((4, 3, 14)))
    limits = {"beam_size": 2, "max_length_ratio": 1.0, "max_length_extra": 2}
    return {
        "loss": lambda: model.loss(batch),
        "gradients": lambda: model.loss_and_gradients(batch, seed=1, into=gradients),
        "updates": lambda: [one.step(model.params, gradients, 0.1) for one in kinds.values()],
        "search": lambda: search(model, sources, **limits),
        "scores": lambda: force(model, sources, [[*t, EOS_ID] for t in targets], attention=True),
        "forward": lambda: layer.forward(x),
        "backward": lambda: layer.backward(d_y),
        "clear": lambda: device.clear(gradients["output.b"], 1),
    }


@pytest.mark.parametrize("name", ["loss", "gradients", "updates", "search", "scores", "forward", "backward", "clear"])
def test_a_call_may_be_the_first_of_a_thread_and_inside_of_a_with(runtime, calls, name):
    """All of it works in the runtime's stream."""
    if name != "backward":
        in_another_thread(calls[name])
    with runtime.packages.cupy.cuda.Stream(non_blocking=True):
        calls[name]()
    runtime.packages.cupy.cuda.Stream(non_blocking=True).use()
    if name == "backward":
        calls["forward"]()
        runtime.packages.cupy.cuda.Stream(non_blocking=True).use()
    calls[name]()


def test_the_stream_is_ordered_with_the_null_stream(runtime):
    """The driver does so, where a user of CuPy works there. Recordings of the other stream are not disturbed."""
    assert runtime.stream.options == {"non_blocking": False}
    assert runtime._recorder.stream.options == {"non_blocking": True}


def test_each_handle_of_cublas_has_a_workspace(runtime):
    """Replayed products lie between others, and what a handle leaves in its workspace is not promised."""
    sizes = runtime.packages.load_blas().workspaces
    assert list(sizes.values()) == [WORKSPACE] * 2
    for start, size in sizes.items():
        runtime.gpu.bytes_at(start, size, "a workspace", runtime.stream)


def test_threads_do_not_share_the_words_of_a_launch(runtime):
    """One packs its arguments while another has packed and not yet launched."""
    rows = [runtime.upload(np.full(4, n, np.float32)) for n in range(3)]
    add(runtime, rows[2], rows[2])
    others = []

    def while_packed(kernel):
        runtime.gpu.before_launch = lambda kernel: None
        others.append(threading.Thread(target=add, args=(runtime, rows[1], rows[1])))
        others[0].start()
        others[0].join(0.2)

    runtime.gpu.before_launch = while_packed
    add(runtime, rows[2], rows[2])
    others[0].join()
    assert [runtime.download(row)[0] for row in rows] == [0, 2, 8]


def test_threads_do_not_share_the_memory_of_rounded_factors(device):
    """Another thread rounds into the same role before a product has read it."""
    weights = {"W": device.upload(np.eye(4, dtype=np.float32))}

    def multiply(number):
        x, out = device.upload(np.full((2, 4), number, np.float32)), device.xp.zeros((2, 4), np.float32)
        matrices = Matrices(device, np.dtype(np.float32), True, Weights(weights))
        matrices.multiply(Matrix(x, 0, 2), ("W", 0, 4, False), Matrix(out, 0, 2))
        return device.download(out)

    gemm, first = device.runtime.gemm, [True]

    def late(*given, **options):
        if first:
            first.clear()
            in_another_thread(lambda: multiply(7))
        gemm(*given, **options)

    device.runtime.gemm = late
    np.testing.assert_array_equal(multiply(3), 3)


def test_another_threads_work_is_not_recorded(device):
    x, y, z = (device.upload(np.ones(4, np.float32)) for _ in range(3))
    add(device.runtime, x, y)

    def launch():
        add(device.runtime, x, y)
        in_another_thread(lambda: add(device.runtime, z, device.upload(np.ones(4, np.float32))))

    again = device.record(launch)
    assert [device.download(a)[0] for a in (x, z)] == [2, 2]
    again()
    assert [device.download(a)[0] for a in (x, z)] == [3, 2]


def test_threads_may_run_a_scan_and_a_search_together(device):
    model = build(14, dtype=np.float64, device=device)
    case = cases.on_device(cases.draw(LSTMCell(5, 7), "float32", cases.LENGTHS["mixed"]), device)
    scan = Scan(case.cell, device=device)
    sources = random_sentences(np.random.default_rng(0), 2, 14, 4)

    def translate():
        found = search(model, sources, beam_size=2, max_length_ratio=1.0, max_length_extra=2)
        return [h.ids for one in found for h in one]

    def run():
        return device.download(scan.forward(Weights(case.params), case.x, case.initial, **case.options).y).tolist()

    expected = [translate(), run()]
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(call) for call in (translate, run, translate, run)]
    assert [one.result() for one in asked] == expected * 2


# ------------------------------------------------------------ what the host does


def test_arguments_packed_once_are_those_of_a_launch(runtime):
    kernel = row_kernels.round_rows(np.dtype(np.uint16), 32)
    x, out = runtime.upload(np.arange(8, dtype=np.float32).reshape(2, 4)), runtime.xp.zeros((2, 4), np.uint16)
    packed = runtime.packed(kernel, 1, 0, 4, 4, 2, out)
    runtime.launch(kernel, 1, x.view(np.uint32), packed)
    first = runtime.download(out)
    runtime.launch(kernel, 1, runtime.xp.zeros((2, 4), np.uint32), packed)
    runtime.launch(kernel, 1, x.view(np.uint32), 0, 4, 4, 2, out)
    np.testing.assert_array_equal(runtime.download(out), first)
    assert first.any()
    refused(TypeError, "5 arguments, got 4", runtime.packed, kernel, 1, 0, 4, 4, 2)
    with pytest.raises(TypeError, match="6 arguments, got 2"):
        runtime.launch(kernel, 1, x.view(np.uint32), 0, packed)


def used_memory(runtime, launch):
    """Arrays that launches and products of a function read or write."""
    found, packed = [], {}

    def prepared(kernel, first, *given):
        words = CupyRuntime.packed(runtime, kernel, first, *given)
        packed[id(words)] = words, given
        return words

    def launched(kernel, grid, *given):
        found.extend(packed[id(given[-1])][1] if id(given[-1]) in packed else ())
        found.extend(given)

    runtime.launch, runtime.packed = launched, prepared
    runtime.gemm = lambda a, b, out, **options: found.extend((a.array, b.array, out.array))
    try:
        launch()
    finally:
        del runtime.launch, runtime.packed, runtime.gemm
    return [one for one in found if hasattr(one, "block") and one.size]


@pytest.mark.parametrize("compute_dtype", ["float32", "bfloat16"])
def test_a_recording_uses_no_memory_that_its_key_does_not_name(compute_dtype):
    """What is elsewhere another time would not be there. When a pass is asked for the third time, memory has grown."""
    runtime = idle_runtime(multiprocessors=132)
    device, recorded, passes = CudaDevice(runtime), [], []

    def repeat(most, key, arrays, launch):
        thread = device._of_thread
        result = launch()
        if thread.constants is None and (most != tuning.MOST_PASSES or passes.append(key) or passes.count(key) > 2):
            if most == tuning.MOST_PASSES:
                arrays, thread.constants = [*arrays, *model.weights._packed.values()], []
            used = used_memory(runtime, launch)
            places = [*arrays, *thread.buffers.values(), *(thread.constants or ())]
            places = [(one.data.ptr, one.data.ptr + one.nbytes) for one in places]
            thread.constants = None
            for one in used:
                at = one.data.ptr
                assert any(low <= at and at + one.nbytes <= high for low, high in places), (key, one.shape)
            recorded.append(key)
        return result

    device._repeat = repeat
    sizes = {"encoder": {"hidden_size": 32}, "decoder": {"hidden_size": 32, "hidden_dropout": 0.3}}
    model = build(14, dtype=np.float32, device=device, compute_dtype=compute_dtype, **sizes)
    gradients = model.gradient_group()
    for lengths in ((9, 8, 9), (9, 9, 9), (9, 2, 1), (9, 8, 9), (9, 9, 8)):
        sides = ([[4 + n % 9 for n in range(length)] for length in lengths] for _ in range(2))
        model.loss_and_gradients(batch_of(list(zip(*sides, strict=True))), seed=1, into=gradients)
    assert len(recorded) >= 20
    assert recorded[-1] == passes[0]


@pytest.mark.parametrize("passes", [True, False])
def test_an_update_by_other_lengths_is_launched_as_recordings(monkeypatch, passes):
    """A translator with dropout: as one recording; or its encoder by the persistent kernels, its decoder's loops
    recorded once for all lengths. The stand-in does nothing here, it counts."""
    if not passes:
        monkeypatch.setattr(TranslationModel, "_with_numbers", lambda self, batch, how: (batch, how, None))
    runtime = idle_runtime(multiprocessors=132)
    dropout = {"embeddings": {"embedding_dim": 16, "dropout": 0.2}}
    changes = {"encoder": {"hidden_size": 32, **dropout}, "decoder": {"hidden_dropout": 0.3, **dropout}}
    model = build(14, dtype=np.float32, device=CudaDevice(runtime), **changes)
    counts = runtime.gpu.counts
    for seed in range(5):
        rng = np.random.default_rng(seed)
        sides = ([rng.integers(4, 14, n).tolist() for n in (9, *rng.integers(7, 10, 5))] for _ in range(2))
        counts.clear()
        model.loss_and_gradients(batch_of(list(zip(*sides, strict=True))), seed=seed)
        if not seed:
            first = dict(counts)
    assert first["cooperative"] == 4  # two directions, forward and backward
    assert not counts["cooperative"]
    if passes:
        assert (counts["graph"], counts["upload"], counts["product"], counts["kernel"]) == (1, 1, 0, 0)
        return
    assert counts["graph"] >= 9  # each of them, the decoder's passes, and the sums of gradients
    assert counts["product"] <= first["product"] // 3
    assert counts["kernel"] <= first["kernel"] * 3 // 5
    assert counts["cupy"] <= 70


@pytest.mark.parametrize("in_bfloat16", [False, True])
def test_a_factor_of_several_sums_is_made_once(device, in_bfloat16):
    """The second sum has a factor of the first on the other side, the third both of the second exchanged; and a factor
    that the product still reads makes no room for the other one."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-9, 9, (6, 4)).astype(np.float32) for _ in range(3))
    rows, taken = [0, 2, 3, 5], device.index(np.array([0, 2, 3, 5]))
    on_gpu = {name: Matrix(device.upload(x), 0, 6) for name, x in zip("abc", (a, b, c), strict=True)}
    host = dict(zip("abc", (a, b, c), strict=True))
    matrices = Matrices(device, np.dtype(np.float32), in_bfloat16, Weights())
    made = []
    device.runtime.gpu.before_launch = lambda kernel: made.append(kernel.name)
    try:
        with matrices.keeping_factors():
            for left, right in ("ab", "bc", "cb", "ca", "cc"):
                out = device.xp.zeros((4, 4), np.float32)
                matrices.add_outer(on_gpu[left], on_gpu[right], taken, Matrix(out, 0, 4))
                expected = host[left][rows].T @ host[right][rows]
                np.testing.assert_array_equal(device.download(out), expected, f"{left} {right}")
    finally:
        device.runtime.gpu.before_launch = lambda kernel: None
    assert len(made) == 4, made  # a, b, c, and a again, for which b made room
    matrices.add_outer(on_gpu["c"], on_gpu["c"], taken, Matrix(out, 0, 4))  # nothing is kept any more
    np.testing.assert_array_equal(device.download(out), 2 * expected)


def test_all_parameters_are_rounded_in_one_launch(device):
    """Those that lie in one memory, once after each change; one that was replaced, by itself."""
    rng = np.random.default_rng(0)
    host = {name: rng.standard_normal((3, 5)).astype(np.float32) for name in ("W", "deep.V")}
    group = device.group({name: (3, 5) for name in host}, np.float32)
    for name, array in host.items():
        group[name][...] = device.upload(array)
    weights, made = Weights(group), []
    device.runtime.gpu.before_launch = lambda kernel: made.append(kernel.name)

    def check(launches):
        made.clear()
        for name, array in host.items():
            prefix, _, last = name.rpartition(".")
            found = device.download(rounded(device, weights.view(prefix) if prefix else weights, last))
            np.testing.assert_allclose((found.astype(np.uint32) << 16).view(np.float32), array, rtol=2**-8)
        assert len(made) == launches

    check(1)
    check(0)
    host["W"] = host["W"] * np.float32(3)
    group["W"][...] = device.upload(host["W"])
    weights.changed()
    check(1)
    host["W"] = host["W"] * np.float32(3)
    weights["W"] = device.upload(host["W"])
    check(1)
