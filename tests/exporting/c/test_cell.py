"""A cell as a library for C takes the steps that it takes in Python, bit for bit, and asks the system for nothing."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from nmt.errors import ConfigError, NMTError, ShapeError
from nmt.exporting.c import building
from nmt.exporting.c.cell import export_cell
from nmt.rnn import (
    GRU,
    LSTM,
    AttentionCell,
    Cell,
    GRUCell,
    LayerNormGRUCell,
    LearnedStartCell,
    LinearCell,
    LSTMCell,
    MLSTMCell,
    Param,
    RWKV7Cell,
    Scan,
    StackCell,
    State,
    Weights,
    initial_params,
    sigmoid,
    tanh,
)
from nmt.rnn.kernels.machine_code import features
from nmt.rnn.scan.layered import LayeredScan
from tests.exporting.c.test_library import ARM, EMULATOR, FLAGS
from tests.exporting.c.test_text import CC, HERE, needs_cc

T, B = 40, 3
ROOT = Path(__file__).parents[3]


class Own(Cell):
    """A product of the input, one of the state, and one of what both give."""

    input_size, output_size = 6, 6

    def params(self):
        return {name: Param((6, 6)) for name in ("U", "V", "W")} | {"b": Param((6,), start=0.1)}

    def states(self):
        return {"h": 6}

    def step(self, p, x, s):
        a = tanh(x @ p.U + s.h @ p.V + p.b)
        h = a + sigmoid(a @ p.W) * s.h
        return h - x, State(h=h)


class Passing(Cell):
    """Its output is the state before the step; it has no parameters."""

    input_size, output_size = 5, 5

    def params(self):
        return {}

    def states(self):
        return {"h": 5, "g": 5}

    def step(self, p, x, s):
        return s.h, State(h=s.g, g=s.h * 0.5 + x)


CELLS = {
    "lstm": LSTMCell(3, 33),
    "gru": GRUCell(20, 20),
    "own": Own(),
    "stack": StackCell([LSTMCell(1, 40), GRUCell(40, 17), LinearCell(17, 1)]),
    "start": LearnedStartCell(LSTMCell(4, 8)),
    "norm": LayerNormGRUCell(8, 8),
    "matrix": RWKV7Cell(8, 8),
    "passing": Passing(),
}
HOST = features._host_target()
LEVELS = [name for name in ("generic", "avx2", "avx512", "neon") if name in features.LEVELS]
LEVELS = [name for name in LEVELS if features._is_part_of(features.LEVELS[name], HOST)]


def params(cell):
    """Parameters none of which is zero."""
    rng = np.random.default_rng(5)
    found = initial_params(cell, seed=4)
    return {name: array + rng.normal(0, 0.2, array.shape).astype(np.float32) for name, array in found.items()}


def inputs(cell):
    return np.random.default_rng(6).standard_normal((T, B, cell.input_size), np.float32)


def stepped(cell, weights, x):
    """The outputs of one step after another, [T, B * n]."""
    scan, states, found = Scan(cell, threads=1), {}, []
    for t in range(len(x)):
        run = scan.forward(weights, x[t : t + 1], states, single_step=True)
        states = run.final
        found.append(run.y.reshape(-1).copy())
    return np.array(found)


def of_python():
    """Write the outputs of all cells in this process, forwards and backwards in time, to the path of the command."""
    found = {}
    for name, cell in CELLS.items():
        weights, x = Weights(params(cell)), inputs(cell)
        found[name], found[f"{name} back"] = stepped(cell, weights, x), stepped(cell, weights, x[::-1].copy())
    np.savez(sys.argv[1], **found)


@cache
def expected_at(level, folder):
    place, script = folder / f"{level}.npz", "from tests.exporting.c.test_cell import of_python; of_python()"
    environment = os.environ | {"NMT_CPU": level, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'data_scripts'}"}
    subprocess.run([sys.executable, "-c", script, str(place)], env=environment, check=True, cwd=ROOT)
    return dict(np.load(place))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cells")


def driven(out, x, *, compiler=CC, before=()):
    """Build the driver with a library, and return all its outputs."""
    command = [compiler, *FLAGS, "-std=c11", f"-I{out}", HERE / "cell_driver.c", out / "libnet.a", "-o", out / "driver"]
    subprocess.run([*map(str, command)], check=True)
    command = [*before, str(out / "driver"), str(len(x))]
    done = subprocess.run(command, input=x.tobytes(), stdout=subprocess.PIPE, check=True)
    return np.frombuffer(done.stdout, np.float32)


def compare(found, expected, name):
    forwards, backwards = expected[name], expected[f"{name} back"]
    parts = [forwards, forwards, forwards, backwards, forwards]
    parts += [forwards] * (found.size > 5 * forwards.size)
    assert np.abs(forwards[-1]).max() > 0.01
    assert np.array_equal(found, np.concatenate(parts).reshape(-1))


@needs_cc
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CELLS)
def test_steps_are_those_of_python_to_the_last_bit(folder, tmp_path, name, level):
    cell = CELLS[name]
    export_cell(cell, params(cell), tmp_path / "out", streams=B, levels=[level])
    compare(driven(tmp_path / "out", inputs(cell)), expected_at(level, folder), name)


@needs_cc
def test_a_library_of_all_levels_takes_the_best_and_calls_nothing_but_to_copy(folder, tmp_path):
    cell, out = CELLS["lstm"], tmp_path / "out"
    sizes = export_cell(cell, params(cell), out, streams=B)
    best = next(name for name in sizes.parameters if name in LEVELS)
    compare(driven(out, inputs(cell)), expected_at(best, folder), "lstm")
    header = (out / "net.h").read_text()
    assert f"#define NET_STATE_BYTES {sizes.state}\n" in header and sizes.state % 64 == 0
    listed = subprocess.run(["nm", "-u", "libnet.a"], cwd=out, capture_output=True, text=True, check=True).stdout
    called = set(re.findall(r" U (\w+)", listed))
    assert called <= {"memcpy", "memset", "__cpu_model", "_GLOBAL_OFFSET_TABLE_"}
    listed = subprocess.run(
        ["nm", "-g", "--defined-only", "libnet.a"], cwd=out, capture_output=True, text=True, check=True
    )
    assert set(re.findall(r" \w (\w+)", listed.stdout)) == {"net_reset", "net_run", "net_step"}
    assert 0 < sizes.code < (out / "libnet.so").stat().st_size
    size = 4 * sum(array.size for array in params(cell).values())
    assert all(size <= one < 2 * size for one in sizes.parameters.values())
    assert str(sizes).startswith(f"{sizes.state:,} bytes of state, {sizes.code:,} of code, parameters: ")


@needs_cc
def test_where_no_level_is_found_the_last_one_runs(folder, tmp_path, monkeypatch):
    machine, cell = building.Compiler("test").machine, CELLS["gru"]
    monkeypatch.setitem(building.LEVELS, machine, dict.fromkeys(LEVELS, "0"))
    export_cell(cell, params(cell), tmp_path / "out", streams=B)
    compare(driven(tmp_path / "out", inputs(cell)), expected_at(LEVELS[-1], folder), "gru")


@needs_cc
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind")
@pytest.mark.parametrize("cell", [CELLS["lstm"], CELLS["matrix"], MLSTMCell(12, 2)], ids=["lstm", "matrix", "mlstm"])
def test_no_byte_beyond_the_state_is_touched(tmp_path, cell):
    export_cell(cell, params(cell), tmp_path / "out", streams=B, levels=[LEVELS[0]])
    before = ["valgrind", "-q", "--leak-check=full", "--error-exitcode=9"]
    x = inputs(cell)
    assert np.array_equal(driven(tmp_path / "out", x, before=before), driven(tmp_path / "out", x))


@needs_cc
@pytest.mark.parametrize("kind", [LSTM, GRU])
def test_layers_are_one_cell(tmp_path, kind):
    layers = kind(4, (24, 16), bias=True, learn_initial=True, threads=1)
    layers.load({name: 0.3 * np.ones_like(array) + array for name, array in layers.params.items()})
    cell, weights = layers.as_cell()
    x = inputs(cell)
    assert cell.input_size == 4 and np.array_equal(Scan(cell, threads=1).forward(Weights(weights), x).y, layers(x)[0])
    layered = LayeredScan(cell.cells, threads=1)
    assert np.array_equal(layered.forward(Weights(weights), x).y, layers(x)[0])
    export_cell(layered, weights, tmp_path / "layers", name="two", streams=B)
    assert np.array_equal(called(tmp_path / "layers" / "libtwo.so", "two", x, 16), layers(x)[0])


def called(library, name, x, size):
    """Run a shared library over x [T, B, n] and return y [T, B, size]."""
    functions = ctypes.CDLL(str(library))
    bytes_of_state = int(re.search(r"_STATE_BYTES (\d+)", library.with_name(f"{name}.h").read_text())[1])
    memory, y = np.zeros(bytes_of_state + 64, np.uint8), np.zeros((*x.shape[:2], size), np.float32)
    state = ctypes.c_void_p(memory.ctypes.data + -memory.ctypes.data % 64)
    getattr(functions, f"{name}_reset")(state)
    arrays = [ctypes.c_void_p(array.ctypes.data) for array in (x, y)]
    getattr(functions, f"{name}_run")(state, arrays[0], ctypes.c_size_t(len(x)), arrays[1])
    return y


@needs_cc
def test_the_example_of_the_page(tmp_path, monkeypatch, capsys):
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(block, "deploy.md", "exec"), names)
    printed = capsys.readouterr().out
    out = tmp_path / "effect-c"
    assert sorted(one.name for one in out.iterdir()) == ["effect.h", "effect_example.c", "libeffect.a", "libeffect.so"]
    (state,) = re.findall(r"that the library needs: ([\d,]+ bytes of state)", page)
    assert printed.startswith(state)
    cell, x = names["cell"], np.zeros((960, 1, 1), np.float32)
    x[::480] = 1
    expected = Scan(cell, threads=1).forward(Weights(names["weights"]), x).y.reshape(-1)
    (build,) = re.findall(r"`(cc effect_example\.c [^`]*)`", page)
    subprocess.run(build, shell=True, check=True, cwd=out)
    done = subprocess.run([out / "effect_example"], input=x.tobytes(), stdout=subprocess.PIPE, check=True)
    assert done.stdout == expected.tobytes() and np.abs(expected).max() > 0.01
    _, code = re.findall(r"^```c\n(.*?)^```", page, re.M | re.S)
    head, _, body = code.partition("\n")
    shown = "fwrite(out, sizeof out, 1, stdout);\n"
    (out / "page.c").write_text(f"#include <stdio.h>\n{head}\nint main(void) {{\n{body}{shown}}}\n")
    subprocess.run([CC, "-Wall", "-Werror", "page.c", "libeffect.a", "-o", "page"], check=True, cwd=out)
    done = subprocess.run([out / "page"], stdout=subprocess.PIPE, check=True)
    assert done.stdout == expected[480:].tobytes()


def test_layers_that_need_the_end_are_not_one_cell():
    with pytest.raises(
        NMTError, match="LSTM: must run from first to last step to be one cell, got bidirectional layers"
    ):
        LSTM(3, 4, bidirectional=True).as_cell()


def test_what_a_library_cannot_have_is_one_line(tmp_path, monkeypatch):
    cell, out = LSTMCell(3, 4), tmp_path / "out"
    given = params(cell)
    attention = AttentionCell(LSTMCell(3 + 4, 4), 4, 4)
    delayed = LayeredScan([cell], delays=[2])

    class Nothing(Passing):
        def states(self):
            return {}

        def step(self, p, x, s):
            return x, State()

    class Driven(Passing):
        def sequences(self):
            return {"extra": 5}

    cases = [
        (attention, {}, {}, NMTError, "AttentionCell must read x and its states alone, got captured arrays: memory"),
        (Driven(), {}, {}, NMTError, "Driven must read x and its states alone, got further sequences: extra"),
        (delayed, {}, {}, NMTError, r"StackCell must have no delays, got \[2\]"),
        (
            Scan(cell, compute_dtype="bfloat16"),
            given,
            {},
            NMTError,
            "LSTMCell must compute in float32, got",
        ),
        (
            Scan(cell, dtype=np.float64),
            given,
            {},
            NMTError,
            "LSTMCell must compute in float32, got .* float64",
        ),
        (cell, given, {"name": "my-net"}, NMTError, "name must be of a-z, 0-9 and _, got 'my-net'"),
        (cell, given, {"name": "levels"}, NMTError, "name must not be that of a header .*, got levels"),
        (cell, given, {"streams": 0}, ShapeError, "streams must be at least 1, got 0"),
        (cell, given, {"levels": ["avx3"]}, ConfigError, "levels must be of .*, got avx3"),
        (cell, {}, {}, ShapeError, "LSTMCell: parameter W_x must be given"),
        (cell, given | {"b": [1.0]}, {}, NMTError, "b must be an array of NumPy, got list"),
    ]
    for one, weights, options, kind, message in cases:
        with pytest.raises(kind, match=message) as caught:
            export_cell(one, weights, out, **options)
        assert "\n" not in str(caught.value) and not out.exists()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ConfigError, match="export_cell: must have a C compiler to build the library with, got none"):
        export_cell(cell, given, out)
    assert not out.exists()


@needs_cc
def test_headers_of_cpp_and_two_libraries_in_one_program(tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    cell, text = LSTMCell(1, 4), "#include <vector>\n"
    for name in ("string", "echo"):  # the name of a header of C is one of ours, too
        export_cell(cell, params(cell), tmp_path / name, name=name, levels=[LEVELS[0]])
        text += f'#include "{tmp_path / name / name}.h"\n'
    reset = "string_state s; string_reset(&s); std::vector<echo_state> e(3); echo_reset(&e[2]);"
    (tmp_path / "it.cpp").write_text(f"{text}int main() {{ {reset} }}\n")
    libraries = [tmp_path / name / f"lib{name}.a" for name in ("string", "echo")]
    flags = ["-std=c++17", "-Wall", "-Werror", tmp_path / "it.cpp", *libraries, "-o", tmp_path / "it"]
    subprocess.run([compiler, *map(str, flags)], check=True)
    subprocess.run([tmp_path / "it"], check=True)


@pytest.mark.skipif(ARM is None or EMULATOR is None, reason="needs gcc for aarch64 and qemu-user")
def test_a_library_for_arm_takes_the_steps_of_generic_to_rounding(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", ARM)
    cell, out = CELLS["stack"], tmp_path / "out"
    export_cell(cell, params(cell), out, streams=B)
    found = driven(out, inputs(cell), compiler=ARM, before=[EMULATOR, "-L", "/usr/aarch64-linux-gnu"])
    expected = stepped(cell, Weights(params(cell)), inputs(cell)).reshape(-1)
    assert np.allclose(found[: expected.size], expected, rtol=1e-5, atol=1e-5)
