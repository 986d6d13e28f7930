"""Every kernel of the package as machine code for two generations of GPUs, without one: it compiles, and no thread
takes more registers than it may or spills more than an address or two to memory. With -rP the table is printed."""

import re

import pytest

from nmt.rnn.kernels.cuda.machine_code.compile import compile_kernel, to_ptx
from nmt.rnn.kernels.cuda.machine_code.gpu_kernel import GPUKernel
from nmt.rnn.kernels.cuda.machine_code.runtime import Parameters
from tests.cuda.examples import kernels
from tests.processes import python

SHARED = 49 * 1024  # 48 KiB that a block has without asking, and 1 KiB that GPUs of 9.0 keep for themselves
SPILLS = 32  # bytes written and read: an address or two
# On an H100 this one took 5.6 us a step with 48 bytes, and 8.8 us before it had them.
MORE_SPILLS = {"persistent.time_loop: lstm backward bfloat16 H 800 B 20: 50x3 blocks of 16x8": 48}
CAPABILITIES = [(8, 0), (9, 0)]


KERNELS: dict[str, dict] = {}
"""By name, and then by the capabilities that have it."""
for one in CAPABILITIES:
    for its_name, its_kernel in kernels(one).items():
        KERNELS.setdefault(its_name, {})[one] = its_kernel


@pytest.fixture(scope="module", autouse=True)
def compilers():
    pytest.importorskip(
        "cuda.bindings.nvjitlink", reason="compiling for a GPU needs numba-cuda: pip install -e .[cuda-compiler]"
    )


@pytest.mark.parametrize("name", KERNELS)
def test_kernel_fits(name, one_analysis):
    for capability, kernel in KERNELS[name].items():
        check_kernel(name, kernel, capability)


def check_kernel(name, kernel, capability):
    made = compile_kernel(kernel, capability)
    used = made.resources
    print(
        f"{name:<90} sm_{capability[0]}{capability[1]} {kernel.block_threads:5} threads {used.registers:4} registers "
        f"{used.stack:5} B stack {used.spills:5} B spills {used.shared + kernel.shared_bytes:6} B shared"
    )
    warps = -(-kernel.block_threads // 32)
    assert used.registers <= min(kernel.registers, 65536 // (-(-warps // 4) * 128))
    assert used.spills <= MORE_SPILLS.get(name, SPILLS)
    assert used.shared <= SHARED
    # What is packed for a launch is, word by word, as wide as what the code takes.
    assert made.parameters == Parameters(kernel).sizes
    assert made.cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize("module", ["emit_cuda", "rows.row_kernels", "search.best"])
def test_the_analysis_of_a_kernel_is_that_of_all_gpus(module, request):
    """A kernel of each kind; Numba counts functions in their names, which are all that differs."""
    found = next(found for name, found in KERNELS.items() if name.startswith(module) and len(found) == 2)

    def texts():
        made = [to_ptx(kernel, capability) for capability, kernel in found.items()]
        return [with_numbers(text) for text in made]

    by_itself = texts()
    request.getfixturevalue("one_analysis")
    assert texts() == by_itself
    assert by_itself[0] != by_itself[1]


def with_numbers(text):
    """PTX with the names of functions and what they own as numbers, in the order in which they come."""
    order = {}
    return re.sub(r"_ZN\w+|_cudapy_\w+", lambda name: f"name{order.setdefault(name[0], len(order))}", text)


def test_tensor_cores_are_used():
    named = [found for name, found in KERNELS.items() if name.startswith("persistent") and "bfloat16" in name]
    bfloat16 = [kernel for found in named for kernel in found.values()]
    assert bfloat16
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in to_ptx(bfloat16[0], (8, 0))


def test_numpy_may_have_no_row_stack():
    """NumPy 2.5 has none, and numba-cuda 0.30 names it; a process of its own, since that is asked once."""
    script = (
        "import numpy; vars(numpy).pop('row_stack', None)\n"
        "from nmt.rnn.kernels.cuda.rows.row_kernels import round_rows\n"
        "from nmt.rnn.kernels.cuda.machine_code.compile import to_ptx\n"
        "print('.entry' in to_ptx(round_rows(numpy.dtype('u2'), 256), (9, 0)), hasattr(numpy, 'row_stack'))"
    )
    assert python(script).stdout.split() == ["True", "False"]


def test_cache_knows_what_a_kernel_is_made_of(tmp_path, monkeypatch):
    from numba import float32

    from nmt.rnn.kernels.cuda.machine_code import compile as compiler
    from nmt.rnn.kernels.machine_code.store import Store

    def make(number):
        def kernel(x):
            x[0] = float32(number)

        return GPUKernel(kernel, (float32[::1],), 32)

    monkeypatch.setattr(compiler, "store", lambda: Store(tmp_path))
    first = compile_kernel(make(1), (9, 0))
    assert compile_kernel(make(1), (9, 0)) == first
    assert len(list(tmp_path.iterdir())) == 1
    compile_kernel(make(2), (9, 0))
    compile_kernel(make(1), (8, 0))
    assert len(list(tmp_path.iterdir())) == 3
