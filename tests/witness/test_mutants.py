"""What mutants change, and what they leave alone."""

from tests.witness.mutants import mutants_of

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
