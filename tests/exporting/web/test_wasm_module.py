"""Linked modules of WebAssembly are, byte for byte, what the specification says; the objects are written by hand."""

import pytest

from nmt.exporting.web.wasm_module import ModulePart, link
from tests.processes import python

HEADER = b"\0asm\1\0\0\0"
TYPE = b"\x60\0\1\x7f"  # () -> i32
ZERO = b"\x80\x80\x80\x80\0"  # a number of five bytes, to be replaced


def section(kind, *content):
    body = b"".join(content)
    return bytes([kind, len(body)]) + body


def custom(name, *content):
    return section(0, bytes([len(name)]), name, *content)


def caller(name=b"g"):
    """The object of f, which returns what g returns."""
    return HEADER + b"".join(
        [
            section(1, b"\1", TYPE),
            section(2, b"\1\3env", bytes([len(name)]), name, b"\0\0"),
            section(3, b"\1\0"),
            section(10, b"\1\x08\0\x10", ZERO, b"\x0b"),
            custom(b"linking", b"\2", section(8, b"\2", b"\0\x10\0", b"\0\0\1\1f")),
            custom(b"reloc.CODE", b"\3\1", b"\0\4\0"),
        ]
    )


def called():
    """The object of g, which returns the address of the third byte of its data, two bytes behind its symbol d."""
    return HEADER + b"".join(
        [
            section(1, b"\2", b"\x60\1\x7e\0", TYPE),
            section(3, b"\1\1"),
            section(10, b"\1\x08\0\x41", ZERO, b"\x0b"),
            section(11, b"\1\0\x41\0\x0b\4wasm"),
            custom(
                b"linking", b"\2", section(8, b"\2", b"\0\0\0\3g-1", b"\1\0\1d\0\1\3"), section(5, b"\1\5.data\3\0")
            ),
            custom(b"reloc.CODE", b"\2\1", b"\4\4\1\2"),
        ]
    )


def test_a_module_has_the_functions_and_the_data_of_all_objects():
    found = link([ModulePart(caller(), "f"), ModulePart(called(), "g-1", "g")], ())
    assert found.addresses == {"f": 1, "g-1": 2}
    stack, data, heap = b"\x80\x88\x10", b"\x80\x88\x10", b"\xc0\x88\x10"  # 1024 + 2 ** 18, the same, 64 more
    assert found.code == HEADER + b"".join(
        [
            section(1, b"\1", TYPE),
            section(2, b"\0"),
            section(3, b"\2\0\0"),
            section(4, b"\1\x70\1\3\3"),
            section(5, b"\1\0\5"),
            section(6, b"\2", b"\x7f\1\x41", stack, b"\x0b", b"\x7f\0\x41", heap, b"\x0b"),
            section(7, b"\3", b"\6memory\2\0", b"\5table\1\0", b"\4heap\3\1"),
            section(9, b"\1\0\x41\1\x0b\2\0\1"),
            section(10, b"\2", b"\x08\0\x10\x81\x80\x80\x80\0\x0b", b"\x08\0\x41\x83\x88\x90\x80\0\x0b"),
            section(11, b"\1\0\x41", data, b"\x0b\4wasm"),
        ]
    )


def test_a_function_that_is_nowhere_is_imported_if_it_may_be():
    found = link([ModulePart(caller(), "f")], ("g",))
    assert section(2, b"\1\3env\1g\0\0") in found.code
    assert b"\x10\x80\x80\x80\x80\0\x0b" in found.code  # a call of the import
    with pytest.raises(ValueError, match="f: must call only nmt_free, got a call of expf"):
        link([ModulePart(caller(b"expf"), "f")], ("nmt_free",))


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="must begin with its header"):
        link([ModulePart(b"\x7fELF and so on", "f")], ())


COMPILED = """
import sys
import numpy as np
from nmt.exporting.web.wasm_module import ModulePart, link
from nmt.rnn.kernels.machine_code.native import called_by
from nmt.rnn.kernels.products.product import product_task

waiting, found = [product_task(np.dtype(np.float32), np.dtype(np.int32))], {}
while waiting:
    native = waiting.pop()
    record = native.made()
    assert record.code.startswith(b"\\0asm") and not native._address
    found[native.entry] = ModulePart(record.code, record.facts["entry"], native.symbol)
    waiting += called_by(record)
module = link(list(found.values()), ("nmt_allocate", "nmt_free"))
print(len(found), sorted(module.addresses.values()), module.code[:4] == b"\\0asm")
"""


def test_kernels_are_compiled_for_the_level_wasm_and_linked():
    """Product, its rows, tiles and rounding call one another, and nothing else but memory."""
    assert python(COMPILED, NMT_CPU="wasm", NMT_CPU_UNCHECKED="1").stdout == "4 [1, 2, 3, 4] True\n"


def test_no_process_runs_the_level_wasm_by_mistake(monkeypatch):
    monkeypatch.delenv("NMT_CPU_UNCHECKED", raising=False)
    done = python("import nmt.rnn.kernels.machine_code.features", code=1, NMT_CPU="wasm")
    assert "NMT_CPU: must be one of" in done.stderr
