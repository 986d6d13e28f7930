"""Machine code is named by all that it is made of."""

import importlib
import linecache
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from nmt.rnn.kernels.machine_code import features, store
from nmt.rnn.kernels.machine_code.jit import inner_kernel, kernel
from nmt.rnn.kernels.machine_code.native import _BY_SYMBOL, Jitted
from nmt.rnn.kernels.machine_code.recipes import generated_loop
from nmt.rnn.kernels.model import update
from nmt.rnn.kernels.products import packing
from nmt.rnn.kernels.products import product as products
from nmt.rnn.kernels.search import beam_loop, candidates
from nmt.rnn.kernels.search import best_tokens as search
from nmt.rnn.kernels.threads import pool, workers

ROOT = Path(__file__).resolve().parents[3]
KERNELS = Path(features.__file__).parents[1]
SOURCES = [path.relative_to(KERNELS) for path in KERNELS.rglob("*.py") if "cuda" not in path.parts]
F4, F8, PAIRS = np.dtype("f4"), np.dtype("f8"), np.dtype("u4")


def names_of(function, types="int64"):
    """Both names of a function with one argument."""
    return both_names(Jitted(function, (types,), frozenset()))


def both_names(native):
    """What it is compiled from, and its machine code."""
    return native.source_name, native.code_name


def assert_both_differ(*pairs):
    """Of names that `names_of` gives."""
    for names in zip(*pairs, strict=True):
        assert None not in names
        assert len(set(names)) == len(pairs)


def closing_over(value):
    """A function that closes over a value."""

    def function(part, parts, table):
        return value

    return function


def natives():
    """What is machine code by its address."""
    made = [search.best_task(number, packed) for number, packed in ((F4, F4), (F4, PAIRS), (F8, F8))]
    made += [products.product_task(number, packed) for number, packed in ((F4, F4), (F4, PAIRS), (F8, F8))]
    made += [candidates._candidates_task(F4, F4), pool._run_in_turn_task]
    made += [beam_loop.search_task(F4), beam_loop.search_task(F8)]
    made += [update.embedding_task(F4, quantised=quantised) for quantised in (False, True)]
    made += [workers.run_all, workers.worker_loop]
    made += [packing.pack.native((f"{kind} 2", "int64", "int64", f"{kind} 1")) for kind in ("float32", "float64")]
    return [*made, *_BY_SYMBOL.values()]


def test_a_change_in_any_file_gives_other_names(tmp_path, monkeypatch):
    copied, names = shutil.copytree(KERNELS, tmp_path / "kernels"), [names_of(closing_over(1))]
    assert features.fingerprint(copied) == features.FINGERPRINT
    for path in sorted(SOURCES):
        text = (copied / path).read_text()
        (copied / path).write_text(text + "\n")
        monkeypatch.setattr(store, "FINGERPRINT", features.fingerprint(copied))
        names.append(names_of(closing_over(1)))
        (copied / path).write_text(text)
    assert_both_differ(*names)


def test_a_file_more_or_less_gives_other_names(tmp_path):
    copied = shutil.copytree(KERNELS, tmp_path / "kernels")
    (copied / "another.py").write_text("")
    assert features.fingerprint(copied) != features.FINGERPRINT


def test_another_target_gives_other_names(monkeypatch):
    names = [names_of(closing_over(1))]
    for changed in ({"max_rows": 1}, {"cpu": "another"}, {"features": "+another"}):
        monkeypatch.setattr(store, "TARGET", replace(features.TARGET, **changed))
        names.append(names_of(closing_over(1)))
    assert_both_differ(*names)


def test_whatever_compiles_gives_other_names_to_code_and_the_same_to_sources(monkeypatch):
    sources, codes = set(), set()
    for name, value in (("NMT_NOTHING", "1"), ("NUMBA_OPT", "1"), ("NUMBA_OPT", "2"), ("NUMBA_CACHE_DIR", "x")):
        monkeypatch.setenv(name, value)
        store.compiler.cache_clear()
        source, code = names_of(closing_over(1))
        sources.add(source)
        codes.add(code)
    monkeypatch.setattr(store, "version", lambda package: f"another {package}")
    store.compiler.cache_clear()
    codes.add(names_of(closing_over(1))[1])
    store.compiler.cache_clear()
    assert (len(sources), len(codes)) == (1, 4)


def test_what_python_runs_gives_another_name_to_code():
    """A file may have changed since it was imported: its text is then not what is compiled."""
    imported, changed = closing_over(1), closing_over(1)
    changed.__code__ = changed.__code__.replace(co_varnames=("one", "two", "three"))
    (source, code), (same, other) = names_of(imported), names_of(changed)
    assert source == same
    assert code != other


def test_all_that_is_called_by_address_has_names_of_its_own():
    assert_both_differ(*((native.source_name, native.code_name) for native in natives()))


def test_names_are_the_same_in_every_process():
    code = (
        "from tests.rnn.kernels.test_code_names import natives; "
        "print(*sorted(name for n in natives() for name in (n.source_name, n.code_name)))"
    )
    # Other tests of this process may have made more.
    here = {str(name) for native in natives() for name in (native.source_name, native.code_name)}
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        assert done.stdout.split() and here.issuperset(done.stdout.split())


def test_types_and_what_is_closed_over_give_other_names():
    values = [0, 1, True, 1.0, "1", None, np.float32, np.float64, np.dtype("f4"), (1, 2), (2, 1), products.to_pairs]
    assert_both_differ(*(names_of(closing_over(value), types) for value in values for types in ("int64", "float32")))


def test_how_it_is_called_and_computed_gives_other_names():
    """Its result, a table for its arguments, and what may be done with its numbers."""
    function = closing_over(1)
    variants = [
        Jitted(function, ("int64",), frozenset()),
        Jitted(function, ("int64",), frozenset({"nsz"})),
        Jitted(function, ("int64",), frozenset(), result="int64"),
        Jitted(function, ("int64",), frozenset(), by_table=True),
    ]
    assert_both_differ(*((native.source_name, native.code_name) for native in variants))


def test_what_has_no_words_has_no_name():
    assert names_of(closing_over({1: 2})) == (None, None)
    assert names_of(closing_over((1, object()))) == (None, None)
    assert names_of(closing_over(inner_kernel(closing_over(object())))) == (None, None)


def test_a_change_in_generated_code_gives_another_name():
    """As one in a cell does: see tests/rnn/test_edited_cells.py for the way there."""
    source = "F = float32\ndef function(part, parts, table, array: F):\n    array[0] = {}.0\n"
    names = [both_names(generated_loop(source.format(n), "function")) for n in (1, 2, 1)]
    assert names[0] == names[2]
    assert_both_differ(*names[:2])


HELPER = """
from nmt.rnn.kernels.machine_code.jit import inner_kernel
NUMBER = {number}
def plain(x):
    return x * {plain}
@inner_kernel
def compiled(x):
    return plain(x) + {compiled}
"""
USERS = {
    "a plain function": "from {helper} import plain\ndef function(x):\n    return plain(x)\n",
    "a compiled function": "from {helper} import compiled\ndef function(x):\n    return compiled(x)\n",
    "a function inside": "from {helper} import plain\ndef function(x):\n    return (lambda y: plain(y))(x)\n",
    "a name of a module in a module": "import {helper}, types\n"
    "whole = types.ModuleType('whole')\nwhole.part = {helper}\n"
    "def function(x):\n    return whole.part.plain(x)\n",
    "a number": "from {helper} import NUMBER\ndef function(x):\n    return x * NUMBER\n",
}


@pytest.mark.parametrize("form", ["plain", "kernel"])
@pytest.mark.parametrize("user", USERS)
def test_a_change_in_another_file_that_is_used_gives_other_names(user, form, tmp_path, monkeypatch):
    """Files that are not the kernels' own: a function's, and one of what it uses."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    here, other = "user_of_another_file", "another_file_that_is_used"
    (tmp_path / f"{here}.py").write_text(USERS[user].format(helper=other))
    unchanged = {"number": 1, "plain": 1, "compiled": 1}
    changed = {"number": 2} if "number" in user else {"plain": 2}
    names = []
    for numbers in (unchanged, unchanged | changed, unchanged):
        (tmp_path / f"{other}.py").write_text(HELPER.format(**numbers))
        for name in (here, other):
            sys.modules.pop(name, None)
        linecache.clearcache()
        importlib.invalidate_caches()
        function = importlib.import_module(here).function
        found = kernel(function).native(("int64",)) if form == "kernel" else Jitted(function, ("int64",), frozenset())
        names.append((found.source_name, found.code_name))
    for name in (here, other):
        del sys.modules[name]
    linecache.clearcache()
    assert names[0] == names[2]
    assert_both_differ(*names[:2])


def test_a_function_whose_source_nobody_knows_has_no_name():
    scope = {"__name__": "typed_in"}
    exec("def function(part, parts, table):\n    return 1\n", scope)  # noqa: S102
    assert names_of(scope["function"]) == (None, None)


def test_nothing_is_kept_once_a_file_has_changed(monkeypatch, tmp_path):
    """What is compiled then may be made of the files before or after."""
    assert store.sources_are_unchanged()
    copied = shutil.copytree(KERNELS, tmp_path / "kernels")
    (copied / "machine_code" / "jit.py").write_text("")
    monkeypatch.setattr(store, "fingerprint", lambda: features.fingerprint(copied))
    assert not store.sources_are_unchanged()


def test_two_functions_never_have_one_symbol():
    Jitted(closing_over, (), frozenset(), symbol="nmt_test_symbol")
    with pytest.raises(RuntimeError, match="nmt_test_symbol"):
        Jitted(natives, (), frozenset(), symbol="nmt_test_symbol")
    del _BY_SYMBOL["nmt_test_symbol"]


def test_elements_that_have_no_code_are_refused():
    @kernel
    def multiply(packed):
        a = products.address(packed, 0)
        products.rows_product(packed, a, 1, a, a, 1, 1, 1, 1, 0)

    with pytest.raises(TypingError, match="elements must be of"):
        multiply(np.zeros(1, np.int16))
