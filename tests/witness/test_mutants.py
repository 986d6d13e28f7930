"""What mutants change, and what they leave alone."""

import weakref

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
