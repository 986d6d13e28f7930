"""Machine code is named by all that it is made of."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from nmt.rnn.kernels import beam_loop, candidates, code_names, features, products, search, team
from nmt.rnn.kernels.code_names import code_name
from nmt.rnn.kernels.modules import load_module
from nmt.rnn.kernels.native import _BY_SYMBOL, Native

ROOT = Path(__file__).resolve().parents[3]
KERNELS = Path(features.__file__).parent
F4, F8, PAIRS = np.dtype("f4"), np.dtype("f8"), np.dtype("u4")


def closing_over(value):
    """A function that closes over a value."""

    def function(part, parts, table):
        return value

    return function


def natives():
    """What is machine code by its address."""
    made = [search.best_task(number, packed) for number, packed in ((F4, F4), (F4, PAIRS), (F8, F8))]
    made += [products._product_task(number, packed) for number, packed in ((F4, F4), (F4, PAIRS), (F8, F8))]
    made += [candidates._candidates_task(F4, F4), team._run_in_turn_task]
    made += [beam_loop.search_task(F4), beam_loop.search_task(F8)]
    made += [beam_loop.embedding_task(F4, quantised=quantised) for quantised in (False, True)]
    return [*made, *_BY_SYMBOL.values()]


@pytest.mark.parametrize("path", sorted(KERNELS.glob("*.py")), ids=lambda path: path.name)
def test_a_change_in_any_file_gives_other_names(path, tmp_path, monkeypatch):
    copied = shutil.copytree(KERNELS, tmp_path / "kernels")
    assert features.fingerprint(copied) == features.FINGERPRINT
    changed = copied / path.name
    changed.write_text(changed.read_text() + "\n")
    before = code_name(closing_over(1), "types")
    monkeypatch.setattr(code_names, "FINGERPRINT", features.fingerprint(copied))
    code_names.compiled_by.cache_clear()
    try:
        assert code_name(closing_over(1), "types") != before
    finally:
        code_names.compiled_by.cache_clear()


def test_a_file_more_or_less_gives_other_names(tmp_path):
    copied = shutil.copytree(KERNELS, tmp_path / "kernels")
    (copied / "another.py").write_text("")
    assert features.fingerprint(copied) != features.FINGERPRINT


def test_whatever_compiles_gives_other_names(monkeypatch):
    found = set()
    for name, value in (("NMT_NOTHING", "1"), ("NUMBA_OPT", "1"), ("NUMBA_OPT", "2"), ("NUMBA_CACHE_DIR", "x")):
        monkeypatch.setenv(name, value)
        code_names.compiled_by.cache_clear()
        found.add(code_names.compiled_by())
    code_names.compiled_by.cache_clear()
    assert len(found) == 3


def test_all_that_is_called_by_address_has_a_name_of_its_own():
    names = [native.code_name for native in natives()]
    assert None not in names
    assert len(set(names)) == len(names)


def test_names_are_the_same_in_every_process():
    code = "from tests.rnn.kernels.test_code_names import natives; print(*sorted(n.code_name for n in natives()))"
    here = [sorted(str(native.code_name) for native in natives())]
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        assert [done.stdout.split()] == here


def test_types_and_what_is_closed_over_give_other_names():
    values = [0, 1, True, 1.0, "1", None, np.float32, np.float64, np.dtype("f4"), (1, 2), (2, 1), products.to_pairs]
    names = [code_name(closing_over(value), types) for value in values for types in ("int64", "float32")]
    assert None not in names
    assert len(set(names)) == len(names)


def test_what_has_no_words_has_no_name():
    assert code_name(closing_over([1]), "types") is None
    assert code_name(closing_over((1, object())), "types") is None


def test_a_change_in_generated_code_gives_another_name():
    """As one in a cell does: see tests/rnn/test_edited_cells.py for the way there."""
    source = "NUMBER = {}\ndef function(part, parts, table):\n    return NUMBER\n"
    names = [
        code_name(load_module(source.format(n), f"changed{key}").function, "types")
        for n, key in ((1, "a"), (2, "b"), (1, "a"))
    ]
    assert names[0] == names[2] != names[1]
    assert None not in names


def test_a_function_whose_source_nobody_knows_has_no_name():
    scope = {"__name__": "typed_in"}
    exec("def function(part, parts, table):\n    return 1\n", scope)  # noqa: S102
    assert code_name(scope["function"], "types") is None
    assert Native(scope["function"], (), {}).code_name is None


def test_nothing_is_kept_once_a_file_has_changed(monkeypatch, tmp_path):
    """What is compiled then may be made of the files before or after."""
    assert code_names.sources_are_unchanged()
    copied = shutil.copytree(KERNELS, tmp_path / "kernels")
    (copied / "jit.py").write_text("")
    monkeypatch.setattr(code_names, "fingerprint", lambda: features.fingerprint(copied))
    assert not code_names.sources_are_unchanged()


def test_two_functions_never_have_one_symbol():
    Native(closing_over, (), {}, "nmt_test_symbol")
    with pytest.raises(RuntimeError, match="nmt_test_symbol"):
        Native(natives, (), {}, "nmt_test_symbol")
    del _BY_SYMBOL["nmt_test_symbol"]


def test_elements_that_have_no_code_are_refused():
    @numba.njit
    def multiply(packed):
        a = products.address(packed, 0)
        products.rows_product(packed, a, 1, a, a, 1, 1, 1, 1, 0)

    with pytest.raises(TypingError, match="elements must be of"):
        multiply(np.zeros(1, np.int16))
