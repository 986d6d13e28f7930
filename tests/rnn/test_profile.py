"""Seconds by name of operation."""

import pytest

from nmt.rnn import profile


def test_no_profile_is_kept_unless_asked_for() -> None:
    with profile.operation("a"), profile.operation("b"):
        pass
    assert profile.operation("a") is profile.operation("b")


def test_time_of_inner_operations_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(100))
    monkeypatch.setattr(profile, "perf_counter", lambda: float(next(ticks)))
    with profile.recording() as found, profile.operation("outer", multiply_adds=3):
        for _ in range(2):
            with profile.operation("in", "ner", multiply_adds=lambda: 5):
                pass
    outer, inner = found.operations["outer"], found.operations["inner"]
    assert (inner.calls, inner.seconds, inner.multiply_adds) == (2, 2.0, 10)
    assert (outer.calls, outer.seconds, outer.multiply_adds) == (1, 3.0, 3)
    assert found.seconds == 5.0


def test_a_clock_whose_times_come_late_is_asked_when_the_recording_ends() -> None:
    """As a GPU's: moments are only marks while work goes on."""
    asked = []

    class Late:
        marks = 0

        def now(self) -> int:
            self.marks += 1
            return self.marks

        def seconds(self, began: int, ended: int) -> float:
            asked.append((began, ended))
            return float(ended - began)

    with profile.recording(Late()) as found:
        with profile.operation("outer"), profile.operation("inner"):
            pass
        with profile.operation("after"):
            pass
        assert not asked and not found.operations
    assert asked == [(2, 3), (1, 4), (5, 6)]
    assert {name: one.seconds for name, one in found.operations.items()} == {"inner": 1, "outer": 2, "after": 1}


def test_work_that_timed_its_parts_itself_is_divided_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profile.moment() is None
    profile.record_parts(None, [("nobody records", 1.0, 0)])
    ticks = iter(range(100))
    monkeypatch.setattr(profile, "perf_counter", lambda: float(next(ticks)))
    with profile.recording() as found, profile.operation("outer"):
        began = profile.moment()
        for _ in range(7):
            next(ticks)
        profile.record_parts(began, [("a", 30.0, 5), ("b", 10.0, 0)])
        profile.record_parts(profile.moment(), [("c", 0.0, 1), ("d", 0.0, 0)])
    assert found.operations["a"].seconds == 6.0 and found.operations["a"].multiply_adds == 5
    assert found.operations["b"].seconds == 2.0
    assert found.operations["c"].seconds == found.operations["d"].seconds == 0.5
    assert found.operations["outer"].seconds == 12.0 - 9.0
