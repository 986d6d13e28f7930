"""What the package uses of CuPy, of the driver and of cuBLAS is there, with the parameters that are given.

The first tests need no package: every name that the package's source uses of an array module is in the table, and the
stand-in has what the table has. The others compare the table with the real packages, and need them, but no GPU.
"""

import ast
import ctypes
import inspect
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import nmt
from tests.cuda_standin import contract
from tests.cuda_standin.cupy import make_cupy
from tests.cuda_standin.gpu import Gpu, StandInError
from tests.cuda_standin.runtime import idle_runtime
from tests.refusals import refused
from tests.waiting import at_once

SOURCES = sorted(Path(nmt.__file__).parent.rglob("*.py"))
MODULES = {"xp", "cupy", "_cupy"}  # names of the array module in the source


def used_names():
    """Names that the source takes from the array module."""
    found = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                value = node.value
                if (getattr(value, "id", None) or getattr(value, "attr", None)) in MODULES:
                    found.setdefault(node.attr, path.name)
    return found


def test_every_name_of_the_array_module_is_in_the_table():
    found = used_names()
    known = {*contract.FUNCTIONS, *contract.TYPES, "cuda"}
    assert found.keys() - known == set(), f"add to contract.FUNCTIONS: {found}"
    assert known - found.keys() == set(), "remove from contract.FUNCTIONS"


def test_the_stand_in_has_what_the_table_has():
    packages = idle_runtime().packages
    drivers = {*contract.DRIVER, *(name.split(".")[0] for name in contract.DRIVER_NAMES)}
    assert set(vars(packages.driver)) == drivers
    of_instances = {"Stream.ptr", "function.Function.ptr", "Graph.launch"}  # what other calls return
    table = {name for name in (*contract.CUDA, *contract.CUDA_NAMES) if not name.endswith("__")} - of_instances
    assert set(names_in(packages.cupy.cuda)) == table


def names_in(namespace, before=""):
    """Whole names of the functions, the classes with their methods, and the constants of a namespace."""
    for name, value in vars(namespace).items():
        if isinstance(value, SimpleNamespace):
            yield from names_in(value, f"{before}{name}.")
            continue
        yield before + name
        if isinstance(value, type) and not issubclass(value, Exception):
            methods = {key for kind in value.__mro__[:-1] for key, one in vars(kind).items() if callable(one)}
            yield from (f"{before}{name}.{method}" for method in methods if not method.startswith("_"))


# ------------------------------------------------------------ what the stand-in does as CuPy does


def left_by_a_with(cupy, stream, x):
    stream.use()
    with cupy.cuda.Stream():
        pass
    assert cupy.cuda.get_current_stream().name == "null"


def a_new_thread(cupy, stream, x):
    found = []
    stream.__enter__()
    at_once(lambda: found.append(cupy.cuda.get_current_stream().name))
    assert found == ["null"]


def made_current(cupy, stream, x):
    stream.use()
    assert cupy.cuda.get_current_stream() is stream


def apart(cupy, stream, x):
    cupy.asnumpy(x, stream=stream)
    assert cupy.cuda.get_current_stream() is stream
    cupy.asnumpy(x.T, stream=stream)
    assert cupy.cuda.get_current_stream().name == "null"


def to_the_host(cupy, stream, x):
    before = cupy.gpu.waits
    cupy.asnumpy(x, stream=stream)
    assert cupy.gpu.waits == before + 1


def changed_after(cupy, stream, x):
    here = np.ones(3)
    there = cupy.array(here)
    here[...] = 2
    assert cupy.asnumpy(there).tolist() == [1] * 3


def converted(cupy, stream, x):
    refused(TypeError, "Implicit conversion to a NumPy array is not allowed", np.asarray, x)


def of_another_stream(cupy, stream, x):
    with cupy.cuda.Stream(), pytest.raises(StandInError, match="is used in"):
        x += 1


def aligned(cupy, stream, x):
    assert {cupy.empty(n).data.ptr % 512 for n in (1, 7, 1000)} == {0}


def empty(cupy, stream, x):
    assert cupy.empty(0).data.ptr == 0


def allocator(cupy, stream, x):
    seen = []
    cupy.cuda.set_allocator(lambda size: seen.append(size) or cupy.cuda.MemoryPool().malloc(size))
    at_once(lambda: cupy.empty(3))
    assert seen == [24]


def too_much(cupy, stream, x):
    refused(MemoryError, "", cupy.empty, 1 << 40)
    assert issubclass(cupy.cuda.memory.OutOfMemoryError, MemoryError)


def null_stream(cupy, stream, x):
    with pytest.raises(RuntimeError):
        cupy.cuda.get_current_stream().gpu.null.begin_capture()


def recorded(cupy, stream, x):
    """Where its object says, as often as it is launched, and not before."""
    done = []
    stream.begin_capture()
    stream._do(done.append)
    graph = stream.end_capture()
    assert not done
    other = cupy.cuda.Stream()
    graph.launch(other)
    graph.launch(stream)
    assert done == [other, stream]


SHOWN = {
    "the end of a with goes back to the stream that was entered": left_by_a_with,
    "each thread begins in the null stream": a_new_thread,
    "the current stream is the object that was made so": made_current,
    "what lies apart is copied to the host inside a with": apart,
    "a copy to the host waits for its stream": to_the_host,
    "an array of the host may change after its upload": changed_after,
    "no array becomes one of the host by itself": converted,
    "memory is of the stream in which it was taken": of_another_stream,
    "memory begins at a multiple of 512 bytes": aligned,
    "an empty array has the address 0": empty,
    "an allocator is that of all threads": allocator,
    "a lack of memory is a MemoryError": too_much,
    "the null stream is not recorded": null_stream,
    "a recording is made ready once, at its end": recorded,
    "a recording is launched in the stream that is named": recorded,
}
# Those that the stand-in cannot show: it does work at once, frees nothing but memory, and is stricter: nothing of CuPy
# may be recorded, and no time passes.
NOT_SHOWN = {"a recording disturbs no other stream", "a recording ends with its object", "code ends with its module"}


@pytest.mark.parametrize("name", contract.BEHAVIOURS)
def test_behaviour_of_the_stand_in(name):
    assert (name in SHOWN) != (name in NOT_SHOWN)
    cupy = make_cupy(Gpu())
    stream = cupy.cuda.Stream(non_blocking=True)
    stream.use()
    SHOWN.get(name, lambda *given: None)(cupy, stream, cupy.zeros((2, 3)))


@pytest.mark.parametrize("name", contract.BEHAVIOURS)
def test_behaviour_in_the_source_of_cupy(name):
    folder = os.environ.get("NMT_CUPY_SOURCE")
    if folder is None:
        pytest.skip(f"its wheels have no source: set NMT_CUPY_SOURCE to a checkout of v{contract.READ}")
    path, words = contract.BEHAVIOURS[name]
    assert words in " ".join((Path(folder) / path).read_text(encoding="utf-8").split())


def test_behaviours_were_read_in_this_version(cupy):
    assert cupy.__version__.split(".")[0] == contract.READ.split(".")[0], "read contract.BEHAVIOURS in it"


# ------------------------------------------------------------ the real packages


def parameters(function):
    """Names of a function's parameters without `self`; of a compiled one from its docstring's first line. A name that
    begins with an asterisk takes any number."""
    try:
        given = inspect.signature(function).parameters.values()
        names = [("*" if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) else "") + p.name for p in given]
    except ValueError:
        line = re.search(r"\((.*)\)", (function.__doc__ or "").splitlines()[0])
        assert line, f"{function} says nothing about its parameters"
        names = [re.sub(r"=.*", "", part).split()[-1] for part in line[1].split(",") if part.strip() not in ("", "*")]
    return [name for name in names if name != "self"]


def check_parameters(name, function, given):
    """Those given by position lead, in this order; those given by name are there."""
    found = parameters(function)
    if any(one.startswith("*") for one in found) or "*" in given:
        return
    ordered = [one for one in given if not one.startswith("*")]
    assert found[: len(ordered)] == ordered, f"{name}{tuple(found)} is given {given}"
    assert {one.removeprefix("*") for one in given} <= set(found), f"{name}{tuple(found)} is given {given}"


def resolved(start, name):
    for part in name.split("."):
        start = getattr(start, part)
    return start


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x; it needs no GPU")


@pytest.fixture(scope="module")
def driver():
    return pytest.importorskip("cuda.bindings.driver", reason="needs cuda-bindings, of the extra [cuda-compiler]")


@pytest.mark.parametrize("name", contract.FUNCTIONS)
def test_function_of_cupy(cupy, name):
    function = getattr(cupy, name)
    if isinstance(function, cupy.ufunc):
        assert function.nin == len(contract.FUNCTIONS[name])
    else:
        check_parameters(name, function, contract.FUNCTIONS[name])


def test_array_of_cupy(cupy):
    assert isinstance(cupy.ndarray, type)
    for name in contract.ATTRIBUTES:
        assert hasattr(cupy.ndarray, name), name
    for name, given in contract.METHODS.items():
        check_parameters(name, getattr(cupy.ndarray, name), given)
    # What the stand-in does not have either: code that works with NumPy's arrays alone would use it.
    assert not hasattr(cupy.ndarray, "ctypes") and not issubclass(cupy.ndarray, np.ndarray)


@pytest.mark.parametrize("name", contract.CUDA)
def test_call_of_cupy_cuda(cupy, name):
    check_parameters(name, resolved(cupy.cuda, name), contract.CUDA[name])


@pytest.mark.parametrize("name", contract.CUDA_NAMES)
def test_name_of_cupy_cuda(cupy, name):
    if name == "Stream.ptr":  # set by each stream
        assert "ptr" in vars(cupy.cuda.Stream(null=True)) or hasattr(cupy.cuda.Stream.null, "ptr")
    else:
        resolved(cupy.cuda, name)


def test_the_capability_is_no_attribute(cupy):
    """It is asked of the properties; these names exist in CUDA and not in CuPy."""
    assert not hasattr(cupy.cuda.runtime, "cudaDevAttrComputeCapabilityMajor")


def test_driver(driver):
    for name, count in contract.DRIVER.items():
        function = getattr(driver, name)
        given = [one for one in parameters(function) if not one.startswith("*")]
        assert not given or len(given) == count, f"{name}{tuple(given)}"
    for name in contract.DRIVER_NAMES:
        resolved(driver, name)
    assert not driver.CUresult.CUDA_SUCCESS, "success is false"
    assert driver.CUresult.CUDA_ERROR_INVALID_VALUE.name == "CUDA_ERROR_INVALID_VALUE"


def test_numbers_of_cublas():
    runtime = pytest.importorskip("cuda.bindings.runtime", reason="needs cuda-bindings, of the extra [cuda-compiler]")
    for name, number in contract.DATA_TYPES.items():
        assert int(getattr(runtime.cudaDataType, name)) == number


def test_calls_of_cublas():
    pathfinder = pytest.importorskip("cuda.pathfinder", reason="needs cuda-pathfinder, of the extra [cuda-compiler]")
    try:
        library = ctypes.CDLL(pathfinder.load_nvidia_dynamic_lib("cublas").abs_path)
    except pathfinder.DynamicLibNotFoundError:
        pytest.skip("cuBLAS is not installed: pip install nvidia-cublas; it needs no GPU")
    for name in contract.CUBLAS:
        getattr(library, name)
