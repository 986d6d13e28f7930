"""What the system says about memory, against what is done with it."""

import mmap

import pytest

from nmt.train.log.memory import format_bytes, peak_bytes, reset_peak, resident_bytes


def test_what_is_taken_is_seen() -> None:
    can_reset = reset_peak()
    before = resident_bytes()
    # Pages of its own: an array might lie where the process has freed something before.
    with mmap.mmap(-1, 1 << 26) as taken:
        for start in range(0, len(taken), 4096):
            taken[start] = 1
        assert resident_bytes() - before > 0.9 * (1 << 26)
    assert peak_bytes() - before > 0.9 * (1 << 26)
    if can_reset:
        reset_peak()
        assert peak_bytes() - before < 0.5 * (1 << 26)


@pytest.mark.parametrize(
    ("size", "text"), [(3 << 29, "1.50 GiB"), (75 << 19, "37.5 MiB"), (12 << 10, "12 KiB"), (0, "0 KiB")]
)
def test_bytes_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text
