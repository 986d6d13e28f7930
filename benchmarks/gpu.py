"""How fast is a GPU at whole recurrent layers, compared with PyTorch's (cuDNN) on the same GPU?

Every contender gets the same weights and inputs. Outputs and gradients are compared with those of our operators on the
processor first; what disagrees is not timed. Then each is called again and again, with the launches as a program would
make them, and the fastest of the turns counts. In addition to whole operators, the persistent kernels alone:
microseconds a step. Needs the extra [cuda], a GPU, and for the peers PyTorch; what is missing is said in the table.

Run: python benchmarks/gpu.py [--out FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from _cases import CELLS, Arrays, Shape, make_inputs, operations
from _gpu_peer import PEERS, TorchLayer

import nmt.rnn
from nmt.errors import NMTError

SHAPES = (
    Shape("mxnet", 300, 20, 800, 800),
    Shape("mixed mxnet", 300, 20, 800, 800, mean_length=150),
    Shape("layer", 30, 128, 512, 512),
    Shape("mixed layer", 30, 128, 512, 512, mean_length=15),
    Shape("wide", 50, 64, 1024, 1024),
    Shape("mixed wide", 50, 64, 1024, 1024, mean_length=25),
)
# Relative errors ||a - b|| / ||b|| allowed against our float32 on the processor: orders of sums; 10 bits of a factor in
# tensor float 32; 8 bits in bfloat16, over all steps.
TOLERANCES = {"float32": 2e-4, "tf32": 1e-2, "bfloat16": 5e-2}
OPERATORS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lstm": (nmt.rnn.LSTM, {}),
    "gru": (nmt.rnn.GRU, {"reset_after": True}),
    "rnn_tanh": (nmt.rnn.RNN, {"nonlinearity": "tanh"}),
}
TURNS, TURN_SECONDS = 5, 0.1


class OurLayer:
    """One of our operators on a device."""

    def __init__(self, cell: str, shape: Shape, arrays: Arrays, device: Any, dtype: str = "float32") -> None:
        kind, options = OPERATORS[cell]
        compute = {"compute_dtype": "bfloat16"} if dtype == "bfloat16" else {}
        self.layer = kind(shape.I, shape.H, device=device, **options, **compute)
        self.device = self.layer.device
        for name in self.layer.params:
            self.layer.params[name][...] = self.device.upload(np.ascontiguousarray(arrays[name]))
        self.x, self.d_y = (self.device.upload(np.ascontiguousarray(arrays[name])) for name in ("x", "d_y"))
        self.states = [self.device.upload(arrays[name]) for name in ("hx", "cx") if name in arrays]
        self.lengths = arrays.get("lengths")

    def inference(self) -> Any:
        """Outputs alone."""
        return self.layer(self.x, *self.states, lengths=self.lengths)[0]

    def training(self) -> tuple[Any, Any]:
        """Outputs and the gradient of x; those of parameters are computed too."""
        y = self.layer.forward(self.x, *self.states, lengths=self.lengths)[0]
        return y, self.layer.backward(self.d_y).d_x

    def results(self) -> Arrays:
        """y and the gradient of x on the host."""
        y, d_x = self.training()
        return {"y": self.device.download(y), "d_x": self.device.download(d_x)}


def wrong(found: Arrays, expected: Arrays, tolerance: float) -> str | None:
    """What disagrees, if something does."""
    for name, array in expected.items():
        error = float(np.linalg.norm(found[name] - array) / np.linalg.norm(array))
        if not error <= tolerance:
            return f"{name} is off by {error:.1e}, allowed {tolerance:.0e}"
    return None


def milliseconds(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Of one call: the fastest of the turns, each of at least TURN_SECONDS, waits at its end only."""
    for _ in range(3):  # compile, record, replay
        call()
    wait()
    start = time.perf_counter()
    call()
    wait()
    count = max(1, int(TURN_SECONDS / max(time.perf_counter() - start, 1e-6)))
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        times.append((time.perf_counter() - start) / count)
    return min(times) * 1e3


def case(cell: str, shape: Shape, device: Any, out: list[dict[str, Any]]) -> None:
    """Rows of the table: every contender of one cell and shape."""
    params, inputs = make_inputs(cell, shape)
    lengths = shape.lengths()
    arrays = {**params, **inputs} | ({} if lengths is None else {"lengths": lengths})
    expected = OurLayer(cell, shape, arrays, None).results()
    contenders: list[tuple[str, str, Callable[[], Any]]] = [
        (f"ours {dtype}", dtype, lambda dtype=dtype: OurLayer(cell, shape, arrays, device, dtype))
        for dtype in ("float32", "bfloat16")
    ]
    contenders += [(f"torch {dtype}", dtype, lambda dtype=dtype: TorchLayer(cell, arrays, dtype)) for dtype in PEERS]
    for name, dtype, make in contenders:
        row: dict[str, Any] = {"cell": cell, "shape": shape.label, "contender": name}
        out.append(row)
        try:
            layer = make()
            problem = wrong(layer.results(), expected, TOLERANCES[dtype])
            if problem is None:
                wait = device.runtime.synchronize if isinstance(layer, OurLayer) else layer.wait
                for mode in ("inference", "training"):
                    row[mode] = milliseconds(getattr(layer, mode), wait)
                    row[f"{mode} TFLOP/s"] = operations(cell, shape, mode) / row[mode] / 1e9
        except (NMTError, ImportError, RuntimeError) as error:
            problem = _named(error)
        except Exception as error:  # noqa: BLE001 - a bug here costs its row, not the hour of the other rows
            traceback.print_exc()
            row["bug"] = problem = _named(error)
        if problem:
            row["failed"] = problem
        print(line(row), flush=True)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or ['no message'])[0]}"


def persistent(cell: str, shape: Shape, runtime: Any, out: list[dict[str, Any]]) -> None:
    """Rows for the recurrent part alone: microseconds a step, forward and backward."""
    from nmt.rnn.kernels.cuda.persistent.layer import plan_layer

    for exact in (False, True):
        row: dict[str, Any] = {"cell": cell, "shape": shape.label}
        row["contender"] = f"persistent {'float32' if exact else 'bfloat16'}"
        out.append(row)
        layer = plan_layer(runtime, cell, shape.H, shape.N, exact=exact)
        row |= {"failed": "does not fit"} if layer is None else _microseconds(layer, shape, runtime)
        print(line(row), flush=True)


def _microseconds(layer: Any, shape: Shape, runtime: Any) -> dict[str, float]:
    T, N, H, G = shape.T, shape.N, shape.H, CELLS[layer.cell]
    rng = np.random.default_rng(0)
    lengths = runtime.upload(np.full(N, T, np.int64) if shape.lengths() is None else shape.lengths())

    def draw(*size: int) -> Any:
        return runtime.upload(rng.standard_normal(size).astype("f4") / np.float32(H**0.5))

    W_h, b_h, a, d_y = draw(H, G * H), draw(3 * H), draw(T, N, G * H), draw(T, N, H)
    states, d_last = (draw(2 if layer.cell == "lstm" else 1, N, H) for _ in range(2))
    run, launch = layer.forward(W_h, a, lengths, states, b_h=b_h)
    launch()
    calls = {
        "forward": lambda: layer.forward(W_h, a, lengths, states, b_h=b_h)[1](),
        "backward": lambda: layer.backward(W_h, run, lengths, states, d_y, d_last)[1](),
    }
    return {f"{name} us a step": milliseconds(call, runtime.synchronize) * 1e3 / T for name, call in calls.items()}


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    values = (f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float))
    return f"{row['cell']:9} {row['shape']:28} {row['contender']:20} {', '.join(values)}{row.get('failed', '')}"


def versions(runtime: Any) -> dict[str, str]:
    """Of the GPU, its driver and what runs here."""
    found = {"gpu": runtime.gpu_name, "driver": str(runtime.xp.cuda.runtime.driverGetVersion())}
    for name in ("numba", "numba-cuda", "cupy-cuda13x", "nvidia-cublas", "torch", "nvidia-cudnn-cu13"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def main() -> None:
    """Print the tables and write them into the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), help="folder for tables")
    parser.add_argument("--quick", action="store_true", help="one shape")
    options = parser.parse_args()
    from nmt.rnn.kernels.cuda.device_cuda import CudaDevice
    from nmt.rnn.kernels.cuda.machine_code.runtime import CupyRuntime

    try:
        runtime = CupyRuntime()
    except NMTError as error:
        sys.exit(str(error))
    tables: dict[str, Any] = {"machine": versions(runtime), "operators": [], "persistent": []}
    print(tables["machine"])
    options.out.mkdir(parents=True, exist_ok=True)
    device = CudaDevice(runtime)
    for shape in SHAPES[2:3] if options.quick else SHAPES:
        for cell in OPERATORS:
            case(cell, shape, device, tables["operators"])
            if cell in ("lstm", "gru"):
                persistent(cell, shape, runtime, tables["persistent"])
            # After each: a run that is stopped leaves what it has.
            (options.out / "operators.json").write_text(json.dumps(tables, indent=1))
    text = "\n".join(line(row) for name in ("operators", "persistent") for row in tables[name])
    (options.out / "operators.txt").write_text(f"{tables['machine']}\n{text}\n")
    try:
        import gpu_model
    except ImportError as error:  # pydantic, which only the settings of models need
        sys.exit(f"models: the packages of nmt must be installed, {_named(error)}; operators are in {options.out}")
    gpu_model.write(device, options.out / "models.txt", quick=options.quick)
    if any("bug" in row for row in tables["operators"]):
        sys.exit("some rows failed by a bug: see the tracebacks above")


if __name__ == "__main__":
    main()
