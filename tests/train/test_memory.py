"""What the system says about memory, against what is done with it."""

import mmap
from functools import partial
from types import SimpleNamespace

import pytest

from nmt.rnn.cores import control_groups
from nmt.train.log import memory
from nmt.train.log.memory import format_bytes, free_bytes, peak_bytes, reset_peak, resident_bytes


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
    assert free_bytes() > 0


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a.slice/b.scope", {"a.slice/memory.max": "9000", "a.slice/memory.current": "5000"}, 4000),
        (
            "0::/a.slice/b.scope",
            {
                "a.slice/memory.max": "max",
                "a.slice/memory.current": "1",
                "a.slice/b.scope/memory.max": "9000",
                "a.slice/b.scope/memory.current": "8000",
            },
            1000,
        ),
        ("0::/", {"memory.max": "700", "memory.current": "900"}, 0),
        (
            "4:memory:/docker/x\n3:cpu,cpuacct:/docker/y",
            {"memory/memory.limit_in_bytes": "5000", "memory/memory.usage_in_bytes": "2000"},
            3000,
        ),
        (
            "4:memory:/docker/x\n",
            {"memory/docker/x/memory.limit_in_bytes": "50", "memory/docker/x/memory.usage_in_bytes": "20"},
            30,
        ),
        ("0::/", {}, 10**9),
    ],
)
def test_the_limit_of_a_control_group_counts(groups, files, expected, tmp_path, monkeypatch):
    for name, content in files.items():
        path = tmp_path / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (tmp_path / "cgroup").write_text(groups)
    given = {"process": tmp_path / "cgroup", "mounted": tmp_path / "mounted"}
    monkeypatch.setattr(memory, "control_groups", partial(control_groups, **given))
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=10**9))
    assert free_bytes() == expected


@pytest.mark.parametrize(
    ("size", "text"), [(3 << 29, "1.50 GiB"), (75 << 19, "37.5 MiB"), (12 << 10, "12 KiB"), (0, "0 KiB")]
)
def test_bytes_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text
