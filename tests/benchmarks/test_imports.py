"""The scripts' modules are gone after a test: `translate` is also the name of a library that reads documents."""

import sys
from types import ModuleType


def test_a_library_of_the_same_name_is_left_alone(importable, monkeypatch):
    library = ModuleType("translate")
    monkeypatch.setitem(sys.modules, "translate", library)
    with importable():
        from translate import main

        assert callable(main)
    assert sys.modules["translate"] is library


def test_nothing_stays_loaded(importable):
    before = list(sys.path)
    with importable():
        import peak

        assert peak.__doc__
    assert "peak" not in sys.modules and sys.path == before
