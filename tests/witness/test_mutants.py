"""What mutants change, and what they leave alone."""

import weakref

import pytest

from nmt.rnn.kernels.machine_code.native import Jitted, Native
from nmt.rnn.kernels.machine_code.store import Store
from nmt.rnn.kernels.memory import active_rows, copies
from nmt.rnn.kernels.products import product
from nmt.train.updates import optimizer
from tests.witness.mutants import ROOT, exchange, mutants_of

SOURCE = '''
def f(a: int = 3, b=(1, 2)):
    """Return 1 + 1."""
    if not a < b:
        raise ValueError(f"{a + 1} of {b}", 5)
    a += max(a, b) + g(a, b)
    return True
'''


def test_each_change_is_one_and_the_rest_stays():
    found = mutants_of("x.py", SOURCE.encode())
    changed = {SOURCE.encode()[: one.start].decode() + one.text + SOURCE.encode()[one.end :].decode() for one in found}
    assert len(changed) == len(found)
    assert all(one.count("\n") <= SOURCE.count("\n") and "Return 1 + 1" in one for one in changed)
    assert {(one.former, one.text) for one in found} >= {
        ("a < b", "(a <= b)"),
        ("not a < b", "(a < b)"),
        ("a += max(a, b) + g(a, b)", "pass"),
        ("g(a, b)", "(g(b, a))"),
        ("True", "(False)"),
        ("3", "(4)"),
    }
    texts = " ".join(one.text for one in found)
    assert "max(b, a)" not in texts and "ValueError" not in texts and "int" not in texts
    assert sum(one.text == "pass" for one in found) == 2  # the raise and the sum
    assert {one.function for one in found} == {2}


def test_a_function_takes_the_code_of_its_mutant():
    path = "nmt/train/updates/optimizer.py"
    mutants = [one for one in mutants_of(path, (ROOT / path).read_bytes()) if "norm" in one.former]
    code, line = optimizer.clip_scale.__code__, optimizer.clip_scale.__code__.co_firstlineno
    assert optimizer.clip_scale(2.0, 1.0) == 0.5
    inside = [one for one in mutants if one.function == line]
    assert inside
    gone = [weakref.proxy(set())]  # whatever asks for its class gets an error
    for one in inside:
        try:
            assert exchange(one) and optimizer.clip_scale.__code__ != code, one.name
        finally:
            optimizer.clip_scale.__code__ = code
    beyond = [one for one in mutants_of(path, (ROOT / path).read_bytes()) if not one.function]
    assert not any(exchange(one) for one in beyond), "a module runs once"
    assert gone


def test_compiled_code_of_a_mutant_does_not_come_from_the_store(monkeypatch):
    """Neither its own nor that of a kernel that contains it; the file of kernels does not import annotations."""
    monkeypatch.setattr(Native, "_stored", lambda native: "stored")
    monkeypatch.setattr(Store, "write", Store.write)
    path = "nmt/rnn/kernels/memory/active_rows.py"
    mutant = next(one for one in mutants_of(path, (ROOT / path).read_bytes()) if one.former == "n > 0")
    code = active_rows.share.function.__code__
    try:
        assert exchange(mutant) and active_rows.share.function.__code__ != code
        natives = [
            Jitted(one.function, ("int64",), frozenset()) for one in (active_rows.share, product.sum_rows, copies.add)
        ]
        assert [native._stored() for native in natives] == [None, None, "stored"]
    finally:
        active_rows.share.function.__code__ = code


@pytest.mark.parametrize(("text", "lines"), [("a +=\\\n 1", (2, 3)), ("for n in (1,\n  2):\n  a += 1", (2, 3))])
def test_a_statement_has_the_lines_of_its_head(text, lines):
    found = mutants_of("x.py", f"\n{text}\n".encode())
    assert (found[0].first, found[0].last) == lines
