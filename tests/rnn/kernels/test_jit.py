"""What is compiled for a kernel, and how often."""

import numpy as np
import pytest
from numba.core import event
from numba.core.errors import NumbaRuntimeError, TypingError

from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel, numba_types
from nmt.rnn.kernels.memory.compiling import compile_native, dispatcher
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.search import best_tokens as search
from nmt.rnn.kernels.search import candidates

I8, VECTOR, MATRIX = "int64", "float32 1", "float32 2"


class Compiled(event.Listener):
    """Modules of the functions that are compiled."""

    def __init__(self):
        self.modules = []

    def on_start(self, one):
        self.modules.append(one.data["dispatcher"].py_func.__module__)

    def on_end(self, one):
        pass


@pytest.mark.parametrize(
    ("compiled", "types"),
    [
        (packing.pack, (MATRIX, I8, I8, VECTOR)),
        (packing.pack_transposed, (MATRIX, I8, I8, VECTOR)),
        (packing.pack_bf16, (MATRIX, I8, I8, "uint32 1")),
        (packing.pack_int8, ("int8 2", VECTOR, I8, I8, "int32 1")),
        (search.store_chunks, (MATRIX, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX)),
        (candidates._store_logits, (MATRIX, VECTOR, I8, MATRIX)),
    ],
    ids=lambda value: getattr(getattr(value, "function", None), "__name__", ""),
)
def test_no_text_of_error_messages_is_compiled(compiled, types):
    """Numba writes one wherever it cannot prove that the shapes of two arrays are equal: seconds of unicode."""
    assert compiled.native(types).address  # what it calls has its symbol then; LLVM aborts where one is missing
    anew = dispatcher(compiled.function, compiled.fastmath)
    arrays = [numba_types.Array(getattr(numba_types, kind[:-2]), int(kind[-1]), "C") for kind in types if " " in kind]
    given = [arrays.pop(0) if " " in kind else numba_types.int64 for kind in types]
    with event.install_listener("numba:compile", listener := Compiled()):
        anew.compile((numba_types.int64, numba_types.int64, *given))
    assert listener.modules
    assert not [name for name in listener.modules if "unicode" in name]


def test_text_is_refused():
    """It takes objects, whose references nobody counts here."""

    @kernel
    def assign(target, source, n):
        target[:n] = source[n:]

    with pytest.raises(NumbaRuntimeError, match="NRT required but not enabled"):
        compile_native(assign.native((VECTOR, VECTOR, I8)))


def test_what_takes_memory_of_python_is_refused():
    """Arrays that nobody would give back; see arrays.py for those of compiled code."""

    @kernel
    def take(target):
        target[0] = np.zeros(3, np.float32)[1]

    with pytest.raises(TypingError, match="Only accept returning of array passed into the function"):
        compile_native(take.native((VECTOR,)))


def test_a_kernel_is_not_compiled_once_more_for_each_number():
    @inner_kernel
    def twice(x, n):
        return x * n

    @kernel
    def caller(x, n, out):
        out[0] = twice(x, 2) + twice(x, 3) + twice(x, n)

    caller(np.float32(1), 4, out := np.zeros(1, np.float32))
    assert out[0] == 9
    # One that was compiled for a number as well would be found by this.
    compile_native(caller.native(("float32", "int64", VECTOR)))
    assert len(twice.numba.signatures) == 1
