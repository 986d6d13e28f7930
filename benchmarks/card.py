"""The first ten minutes on a machine with a GPU and nothing else: does it start, is it right, how fast is it?

The steps that say most come first. Each is a process of its own with a limit of its own, so that one that fails or
hangs does not keep the later ones from running; all limits together are nine minutes. A step prints what it finds, and
one line says how it ended: `ok`, `missing` (a package or tool that it needs), `failed` or `stopped`; `running` is where
all of this was stopped. The folder of --out gets card.json (a row a step), card.txt (everything printed),
operators.json (times, compared with PyTorch's), and after an error of CUDA what the process did before it
(flight-PID.txt) and what the GPU was at (core.PID). --only runs some steps again: their rows and texts are added.

Nothing is installed: the checkout is what is imported. What a step needs and the machine lacks may be carried as wheels
in a folder, which are unpacked for the run (--wheels). --dry-run takes the tests' stand-in for the GPU and tiny sizes.

Run: python benchmarks/card.py [--out FOLDER] [--wheels FOLDER] [--only STEP ...] [--dry-run]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from nmt.errors import NMTError  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
MISSING = 3  # exit status of a step that lacks something
GRACE = 1.0  # seconds from the request to end to the end of a process
WORKERS = {"tests": 12, "fences": 8, "lag": 2}  # processes at once
PACKAGES = (
    "numpy numba numba-cuda llvmlite cupy-cuda13x cuda-bindings cuda-toolkit nvidia-nvvm nvidia-nvjitlink "
    "nvidia-cublas nvidia-cudnn-cu13 torch pydantic safetensors pytest pytest-xdist"
).split()
TOOLS = "nvidia-smi nvcc ptxas compute-sanitizer ncu".split()
# Cell, whether products are float32, hidden size, rows: what is compared with NumPy and timed.
LAYERS = (
    ("lstm", False, 512, 128),
    ("lstm", False, 800, 20),
    ("lstm", False, 1024, 64),
    ("lstm", True, 512, 20),
    ("gru", False, 512, 64),
    ("gru", False, 800, 20),
    ("gru", True, 256, 64),
    ("lstm", True, 800, 20),
    ("gru", True, 1024, 64),
)
TIMED = (2, 3, 0)  # numbers of gpu.SHAPES
ERRORS = {True: 2e-4, False: 2e-2}  # relative, of float32 and bfloat16 products, over 20 steps
GPU_TESTS = ("blas", "rows", "optimizer", "output", "persistent", "persistent_operators", "run_persistent", "search")
FENCED_TESTS = ("cells", "search", "run_persistent")
GRADIENTS = "tests/model/test_gradients.py::test_gradients_equal_a_finite_difference_on_a_gpu"
LAGGING = "lstm_bahdanau_bridge or gru_reset_before or conv_tied"
LAG = 200_000
"""Cycles before each upload: some 100 us."""
FIRST = "tests.cuda.test_search:test_given_translations_are_scored_as_on_the_processor"
"""It downloads an array that is not contiguous, after which CuPy's stream was another (docs/gpu.md)."""


class MissingError(Exception):
    """What a step needs and this machine has not."""


@dataclass
class Place:
    """Where the steps run."""

    out: Path
    dry: bool

    def runtime(self) -> Any:
        """The GPU's, or in a dry run that of the tests' stand-in."""
        if self.dry:
            from tests.devices import runtime_with

            return runtime_with(multiprocessors=132, seed=1)
        from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime

        return CupyRuntime()

    def device(self) -> Any:
        """The device of that runtime."""
        from nmt.rnn.kernels.cuda.device_cuda import CudaDevice

        return CudaDevice(self.runtime())

    def layers(self) -> Sequence[tuple[str, bool, int, int]]:
        """LAYERS, or small ones for a dry run."""
        return [("gru", False, 32, 1)] if self.dry else LAYERS


# ------------------------------------------------------------------ steps


def machine(place: Place) -> None:
    """Versions, tools, what the GPU's driver has logged, who else uses it, and the size of what has travelled."""
    print("python", sys.version.split()[0], sys.executable, os.cpu_count(), "processors")
    for name in PACKAGES:
        try:
            print(f"  {name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            print(f"  {name} not installed")
    for tool in TOOLS:
        print(f"  {tool}: {shutil.which(tool) or 'not there'}")
    if shutil.which("nvidia-smi"):
        query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
        for question in ([f"--query-gpu={query}", "--format=csv,noheader"], ["-q", "-d", "COMPUTE"]):
            subprocess.run(["nvidia-smi", *question], check=False)
    servers = [path.parent.name for path in Path("/proc").glob("[0-9]*/comm") if "cuda-mps" in _text(path)]
    print(f"servers of MPS: {' '.join(servers) or 'none'}")
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=False) if shutil.which("dmesg") else None
    faults = [line for line in log.stdout.splitlines() if "NVRM: Xid" in line] if log and not log.returncode else None
    print("the driver's log of faults:", "cannot be read" if faults is None else "\n".join(faults[-20:]) or "empty")
    found = (path for path in ROOT.rglob("*") if path.is_file())
    made = ("build", "runs", "__pycache__")
    parts = ((path, path.relative_to(ROOT).parts) for path in found)
    sizes = [path.stat().st_size for path, of in parts if not any(one[0] == "." or one in made for one in of)]
    print(f"the checkout: {len(sizes):,} files, {sum(sizes) / 1e6:.1f} MB")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the process has ended
        return ""


def compile_all(place: Place) -> None:
    """Every kernel that the steps need, as machine code in the cache, by all processors."""
    _need("numba_cuda", "numba-cuda, which compiles kernels")
    capability = (9, 0) if place.dry else place.runtime().capability
    started = time.perf_counter()
    numbers = [len(_kernels(capability)) - 1] if place.dry else range(len(_kernels(capability)))
    with get_context("spawn").Pool(1 if place.dry else min(16, os.cpu_count() or 1)) as pool:
        made = pool.starmap(_compile, [(number, capability) for number in numbers], chunksize=1)
    for text in sorted(filter(None, made)):
        print(text)
    print(f"{len(made)} kernels in {time.perf_counter() - started:.0f} s")


@lru_cache(maxsize=1)
def _kernels(capability: tuple[int, int]) -> list[Any]:
    """The kernels of the package, and those of LAYERS."""
    from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
    from nmt.rnn.kernels.cuda.persistent.tiles import choose_tile
    from nmt.rnn.kernels.cuda.persistent.time_loop import backward_kernel, forward_kernel
    from tests.cuda.examples import kernels

    found = [kernel for name, kernel in kernels(capability).items() if not name.startswith("persistent")]
    # Those that are compared with NumPy, and those that are timed.
    sizes = [(shape.H, shape.N) for shape in timed_shapes()]
    timed = [(cell, exact, *size) for cell in CELLS for exact in (False, True) for size in sizes]
    for cell, exact, hidden, rows in dict.fromkeys([*LAYERS, *timed]):
        for backward in (False, True):
            tile = choose_tile(hidden, CELLS[cell], rows, 132, capability, backward=backward, exact=exact)
            if tile is not None:
                make = backward_kernel if backward else forward_kernel
                found.insert(0, make(cell, tile, tile.turns(rows, 132)))  # the longest first
    return found


def _compile(number: int, capability: tuple[int, int]) -> str | None:
    from nmt.rnn.kernels.cuda.machine_code.compile import compile_kernel

    kernel = _kernels(capability)[number]
    used = compile_kernel(kernel, capability).resources
    return f"{kernel.name}: {used}" if used.spills > 32 else None


def stream(place: Place) -> None:
    """Whether CuPy's current stream stays the runtime's, and uploads are ordered with kernels."""
    gpu_checks = importlib.import_module("_gpu_checks")
    gpu_checks.check_stream(place.runtime(), spins=not place.dry)


def start(place: Place) -> None:
    """The GPU, one kernel, what a launch costs the host; products; recordings."""
    for part in (first_kernel, products, recordings):
        part(place)


def first_kernel(place: Place) -> None:
    """The GPU, its memory, one kernel, and what a launch costs the host."""
    from nmt.rnn.kernels.cuda.rows import row_kernels

    runtime = place.runtime()
    print(f"{runtime.gpu_name}, capability {runtime.capability}, {runtime.multiprocessors} multiprocessors, "
          f"{runtime.shared_per_block} bytes of shared memory a block, {runtime.memory >> 20} MiB")  # fmt: skip
    x = np.random.default_rng(0).standard_normal((100, 70)).astype("f4")
    out = runtime.xp.empty(x.shape, np.uint16)
    given = runtime.upload(x).view(np.uint32)

    def launch() -> None:
        row_kernels.launch(runtime, row_kernels.round_rows, out.dtype, out.size, given, 0, 70, 70, 100, out)

    launch()
    found = (runtime.download(out).astype(np.uint32) << 16).view("f4")
    _right("rounding to bfloat16", found, x, 2**-8)
    count = 2 if place.dry else 2000
    started = time.perf_counter()
    for _ in range(count):
        launch()
    host = time.perf_counter() - started
    runtime.synchronize()
    whole = time.perf_counter() - started
    print(f"a launch: {host / count * 1e6:.1f} us of the host, {whole / count * 1e6:.1f} us in a row of {count}")


def products(place: Place) -> None:
    """cuBLAS in every way in which factors may lie, in float32, float64 and bfloat16."""
    from nmt.rnn.kernels.cuda.blas import Matrix

    runtime, rng = place.runtime(), np.random.default_rng(1)
    M, N, K = 37, 65, 129
    for kind, bound in (("f4", 1e-5), ("f8", 1e-13), ("bfloat16", 1e-2)):
        for number in range(8):
            a_turned, b_turned, adds = (bool(number >> bit & 1) for bit in range(3))
            a, b, c = (rng.standard_normal(size) for size in ((M, K), (K, N), (M, N)))
            out = runtime.upload(c.astype("f8" if kind == "f8" else "f4"))
            factors = [_factor(x.T if turned else x, kind) for x, turned in ((a, a_turned), (b, b_turned))]
            given = (Matrix.whole(array) for array in (*map(runtime.upload, factors), out))
            runtime.gemm(*given, transpose_a=a_turned, transpose_b=b_turned, accumulate=adds)
            name = f"{kind}, transposed {a_turned} {b_turned}, accumulated {adds}"
            _right(name, runtime.download(out), a @ b + (c if adds else 0), bound)


def _factor(x: np.ndarray, kind: str) -> np.ndarray:
    if kind != "bfloat16":
        return np.ascontiguousarray(x, kind)
    return (np.ascontiguousarray(x, "f4").view(np.uint32) >> 16).astype(np.uint16)


def recordings(place: Place) -> None:
    """A kernel and a product, recorded as a graph and repeated."""
    from nmt.rnn.arrays.device_operations import ADD_SCALED
    from nmt.rnn.kernels.cuda import optimizer
    from nmt.rnn.kernels.cuda.blas import Matrix

    runtime = place.runtime()
    x, y = (runtime.upload(np.ones(1000, "f4")) for _ in range(2))
    one, ones, out = (runtime.upload(np.array(m, "f4")) for m in (np.eye(64), np.ones((64, 64)), np.zeros((64, 64))))

    def step() -> None:
        optimizer.change(runtime, ADD_SCALED, (y, x), (1.0, 1.0))
        runtime.gemm(*map(Matrix.whole, (one, ones, out)), accumulate=True)

    step()
    again = runtime.record(step)
    for _ in range(10):
        again()
    _right("the kernel, eleven times", runtime.download(x), np.full(1000, 12.0), 1e-7)
    _right("the product, eleven times", runtime.download(out), np.full((64, 64), 11.0), 1e-7)


def persistent(place: Place) -> None:
    """Small persistent layers of two blocks compared with NumPy: waits, exchange, rows of unequal lengths."""
    from nmt.rnn.kernels.cuda.persistent.cell_steps import CELLS
    from nmt.rnn.kernels.cuda.persistent.layer import PersistentLayer
    from nmt.rnn.kernels.cuda.persistent.tiles import Tile

    runtime = place.runtime()
    for cell, gates in CELLS.items():
        for exact in (False, True):
            if place.dry and exact != (cell == "gru"):
                continue
            tiles = [Tile(32, gates, backward, 16, 8, 1, exact) for backward in (False, True)]
            _layer(runtime, PersistentLayer(runtime, cell, *tiles), exact, 5, 3, lengths=[3, 3, 2, 1, 3])


def chosen(place: Place) -> None:
    """The divisions chosen for this GPU in real sizes compared with NumPy, each twice: the same bits."""
    from nmt.rnn.kernels.cuda.persistent.layer import plan_layer

    runtime = place.runtime()
    for cell, exact, hidden, rows in place.layers():
        layer = plan_layer(runtime, cell, hidden, rows, exact=exact)
        if layer is None:
            print(f"{cell}, hidden {hidden}, {_precision(exact)}: does not fit")
            continue
        one, two = (_layer(runtime, layer, exact, rows, 2 if place.dry else 20) for _ in range(2))
        for first, second in zip(one, two, strict=True):
            np.testing.assert_array_equal(first, second, err_msg="another run gives other bits")


def _layer(runtime: Any, layer: Any, exact: bool, rows: int, T: int, lengths: Any = None) -> tuple[np.ndarray, ...]:
    """Output and gradient of a layer, compared with NumPy's."""
    from tests.cuda import recurrent

    up, tile = runtime.upload, layer.forward_tile
    c = recurrent.case(layer.cell, T, rows, tile.hidden, lengths or [T] * rows)
    W, a, n, states = up(c.W_h), up(c.a), up(c.lengths), up(np.stack(c.states))
    forward, launch = layer.forward(W, a, n, states, b_h=None if c.b_h is None else up(c.b_h))
    launch()
    y = runtime.download(forward.y)
    back, launch = layer.backward(W, forward, n, states, up(c.d_y), up(np.stack(c.d_last)))
    launch()
    d_a = runtime.download(back.d_a)
    rounded = (lambda x: x) if exact else recurrent.bfloat16
    expected, kept, _ = recurrent.forward(c, rounded)
    of_a, _, _ = recurrent.backward(c, kept, rounded)
    name = f"{layer.cell}, hidden {tile.hidden}, {rows} rows, {T} steps, {_precision(exact)}"
    _right(f"{name}: y", y, expected, ERRORS[exact])
    _right(f"{name}: gradient", d_a, of_a, ERRORS[exact])
    return y, d_a


def _precision(exact: bool) -> str:
    return "float32" if exact else "bfloat16"


def tests(place: Place) -> None:
    """The tests of the GPU that need the fewest packages, and gradients of translators where pydantic is there; in each
    process the one first that made CuPy forget the stream. After an error of CUDA the process writes what it did, and
    the driver what the GPU was at."""
    dumps = {
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1",
        "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP": "1",
        "CUDA_COREDUMP_FILE": str(place.out / "core.%p"),
    }
    _pytest("tests", GPU_TESTS, place, {"NMT_GPU_FIRST": FIRST, **dumps})


def lag(place: Place) -> None:
    """Gradients where each upload waits in CuPy's stream behind a kernel that spins: what has no order comes late."""
    _pytest("lag", (), place, {"NMT_GPU_LAG": "0" if place.dry else str(LAG), "NMT_GPU_FIRST": FIRST}, "-k", LAGGING)


def fences(place: Place) -> None:
    """Tests with each array between unmapped pages, freed memory unmapped, and a wait after each launch."""
    _pytest("fences", FENCED_TESTS, place, {} if place.dry else {"NMT_GPU_FENCE": "end"})


def fenced_products(place: Place) -> None:
    """Products of odd sizes by cuBLAS, each operand between unmapped pages, by both handles, compared with NumPy's."""
    if not place.dry:
        os.environ["NMT_GPU_FENCE"] = "end"
        importlib.import_module("tests.gpu_fence").pytest_configure(None)
    importlib.import_module("_gpu_checks").check_products(place.runtime(), 1 if place.dry else 15)


def _pytest(step: str, names: Sequence[str], place: Place, given: dict[str, str], *chosen: str) -> None:
    """Run tests of tests/cuda, and gradients. A planted mistake may spin on a GPU for ever; the tests leave these out
    where NMT_TEST_DEVICE is cuda."""
    _need("pytest", "pytest")
    files = [str(ROOT / "tests" / "cuda" / f"test_{name}.py") for name in names]
    if place.dry:  # one file, or one case
        files, chosen = (files[:1], ("-k", "nothing_to_add or step_is_computed")) if files else (files, chosen)
    if not files or (_has("pydantic") and not place.dry):
        _need("pydantic", "pydantic, in which settings of models are written")
        files.append(str(ROOT / GRADIENTS) + ("[lstm_bahdanau_bridge]" if place.dry else ""))
    many = ["-n", str(WORKERS[step])] if _has("xdist") and not place.dry else []
    options = ["-q", "-rsf", "--tb=short", "-p", "no:cacheprovider", "-p", "tests.gpu_fence", "-m", ""]
    command = [sys.executable, "-m", "pytest", *options, "--continue-on-collection-errors", *many, *files, *chosen]
    device = {} if place.dry else {"NMT_TEST_DEVICE": "cuda"}
    environment = {**os.environ, "NMT_GPU_LOG": str(place.out), **given, **device}
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if status:
        raise SystemExit(f"pytest ended with {status}")


def timed_shapes() -> list[Any]:
    """The shapes of whole layers that are compared with PyTorch's."""
    shapes = importlib.import_module("gpu").SHAPES
    return [shapes[n] for n in TIMED]


def speed(place: Place) -> None:
    """Whole layers compared with PyTorch's (cuDNN), and the persistent kernels alone."""
    gpu = importlib.import_module("gpu")
    shapes = timed_shapes()
    if place.dry:
        gpu.TURN_SECONDS, gpu.TURNS = 0, 1
        shapes = [gpu.Shape("tiny", 1, 1, 4, 32)]
    else:
        gpu.TURN_SECONDS, gpu.TURNS = 0.05, 4
    device = place.device()
    tables: dict[str, list[Any]] = {"operators": [], "persistent": []}
    for shape in shapes:
        for cell in ("lstm",) if place.dry else ("lstm", "gru"):
            gpu.persistent(cell, shape, device.runtime, tables["persistent"])
            gpu.case(cell, shape, device, tables["operators"])
            (place.out / "operators.json").write_text(json.dumps(tables, indent=1))
    if any("bug" in row for row in tables["operators"]):
        raise SystemExit("some rows failed by a bug: see the tracebacks above")


def models(place: Place) -> None:
    """A whole translation model, training and translating, compared with PyTorch's. A dry run takes the processor."""
    _need("pydantic", "pydantic, in which settings of models are written")
    model = importlib.import_module("gpu_model")
    if place.dry:
        from nmt.rnn.devices import cpu

        device, cases, updates, dtypes = cpu(), model.QUICK, 1, ("float32",)
    else:
        device, cases, updates, dtypes = place.device(), model.CASES, 20, ("float32", "bfloat16")
    first = dict(list(cases.items())[:1])
    for line in model.lines(device, first, updates=updates, compute_dtypes=dtypes):
        print(line, flush=True)


# Name, what it does, its limit in seconds.
STEPS: dict[str, tuple[Callable[[Place], None], int]] = {
    "machine": (machine, 10),
    "compile": (compile_all, 40),
    "stream": (stream, 15),
    "start": (start, 25),
    "tests": (tests, 90),
    "lag": (lag, 20),
    "fences": (fences, 95),
    "fenced_products": (fenced_products, 25),
    "chosen": (chosen, 45),
    "persistent": (persistent, 25),
    "speed": (speed, 100),
    "models": (models, 50),
}


def _right(name: str, found: np.ndarray, expected: np.ndarray, bound: float) -> None:
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    print(f"{name}: off by {error:.1e}", flush=True)
    if not error <= bound:
        raise SystemExit(f"{name}: must be within {bound:.0e}")


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _need(module: str, name: str) -> None:
    if not _has(module):
        raise MissingError(name)


# ------------------------------------------------------------------ all of them


def run_step(name: str, place: Place, path: str) -> dict[str, Any]:
    """Run a step in a process of its own; return its row. What it prints goes on here and into card.txt."""
    limit, started = STEPS[name][1] * (5 if place.dry else 1), time.perf_counter()  # a dry run measures nothing
    command = [sys.executable, __file__, "--step", name, "--out", str(place.out), *(["--dry-run"] if place.dry else [])]
    with (place.out / "card.txt").open("a+b") as log:
        log.write(f"==== {name}\n".encode())
        log.flush()
        before = log.tell()
        child = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        try:
            status = child.wait(limit)
            state = {0: "ok", MISSING: "missing"}.get(status, "failed")
        except subprocess.TimeoutExpired:
            state = "stopped"
        end_all(child)
        log.seek(before)
        printed = log.read().decode(errors="replace").rstrip()
    seconds = round(time.perf_counter() - started, 1)
    print(f"==== {name}\n{printed}\n==== {name}: {state}, {seconds} s of {limit}\n", flush=True)
    return {"step": name, "state": state, "seconds": seconds, "limit": limit, "last": printed.rpartition("\n")[2]}


def end_all(child: subprocess.Popen[bytes]) -> None:
    """End what a step has started; its processes are a session of their own."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, kind)
        except ProcessLookupError:
            break
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(0.05)
    child.wait()


def unpacked(wheels: Path | None, folder: Path) -> str:
    """The search path of the steps: the checkout, its benchmarks, and packages from wheels."""
    for wheel in sorted(wheels.glob("*.whl")) if wheels else ():
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder)
    places = [str(ROOT), str(ROOT / "benchmarks"), str(folder), os.environ.get("PYTHONPATH", "")]
    return os.pathsep.join(filter(None, places))


def main() -> int:
    """Run the steps; return 0 if none failed or was stopped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT") or "build/gpu"), help="default: $OUT")
    parser.add_argument("--wheels", type=Path, help="folder of wheels that the machine lacks")
    parser.add_argument("--only", nargs="+", choices=list(STEPS), metavar="STEP", help=" ".join(STEPS))
    parser.add_argument("--dry-run", action="store_true", help="no GPU: the tests' stand-in, tiny sizes")
    parser.add_argument("--step", choices=list(STEPS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.wheels and not options.wheels.is_dir():
        parser.error(f"--wheels {options.wheels}: must be a folder of .whl files")
    options.out.mkdir(parents=True, exist_ok=True)
    place = Place(options.out.resolve(), options.dry_run)
    if options.step:
        try:
            STEPS[options.step][0](place)
        except MissingError as what:
            print(f"missing: {what}")
            return MISSING
        except NMTError as error:
            print(error)
            return 1
        return 0
    results = place.out / "card.json"
    if not options.only:
        (place.out / "card.txt").write_bytes(b"")
    rows: dict[str, dict[str, Any]] = {}
    if options.only and results.exists():
        rows = {row["step"]: row for row in json.loads(results.read_text())}
    names = list(options.only or STEPS)
    with tempfile.TemporaryDirectory() as folder:
        path = unpacked(options.wheels, Path(folder))
        for name in names:
            # Before and after each: where all of this is stopped, the step that ran is named.
            rows[name] = {"step": name, "state": "running", "limit": STEPS[name][1]}
            results.write_text(json.dumps(list(rows.values()), indent=1))
            rows[name] = run_step(name, place, path)
            results.write_text(json.dumps(list(rows.values()), indent=1))
    ran = [rows[name] for name in names]
    for row in ran:
        print(f"{row['step']:<15} {row['state']:<8} {row['seconds']:6} s  {row['last'][:100]}")
    return int(any(row["state"] in ("failed", "stopped") for row in ran))


if __name__ == "__main__":
    sys.exit(main())
