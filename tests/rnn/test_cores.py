"""How many cores there are to use: affinity, and quotas of control groups."""

import os

import pytest

from nmt.rnn.cores import default_threads, granted_cores, usable_threads


def test_there_is_at_least_one_thread():
    assert default_threads() >= 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_threads_follow_affinity():
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(cores)})
        assert default_threads() == 1
        assert usable_threads(64) == 1
    finally:
        os.sched_setaffinity(0, cores)


def test_no_more_threads_than_cores_are_usable():
    assert usable_threads(None) == usable_threads(100_000) == default_threads()
    assert usable_threads(1) == 1


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("given", "cores"),
    [("200000 100000", 2), ("150000 100000", 2), ("50000 100000", 1), ("max 100000", None), ("nonsense", None)],
)
def test_quotas_of_version_2(tmp_path, given, cores):
    process = tmp_path / "cgroup"
    process.write_text("0::/box/inner\n")
    write(tmp_path / "fs" / "box", cpu__max=given)
    write(tmp_path / "fs" / "box" / "inner", cpu__max="max 100000")
    assert granted_cores(process, tmp_path / "fs") == cores


def test_the_tightest_quota_counts_and_a_container_sees_its_own_at_the_root(tmp_path):
    process = tmp_path / "cgroup"
    process.write_text("0::/not/to/be/seen\n")
    write(tmp_path / "fs", cpu__max="300000 100000")
    assert granted_cores(process, tmp_path / "fs") == 3
    write(tmp_path / "fs" / "not", cpu__max="100000 100000")
    assert granted_cores(process, tmp_path / "fs") == 1


@pytest.mark.parametrize(("quota", "cores"), [("400000", 4), ("-1", None)])
def test_quotas_of_version_1(tmp_path, quota, cores):
    process = tmp_path / "cgroup"
    process.write_text("5:memory:/box\n4:cpu,cpuacct:/box\n")
    write(tmp_path / "fs" / "cpu,cpuacct" / "box", cpu__cfs_quota_us=quota, cpu__cfs_period_us="100000")
    assert granted_cores(process, tmp_path / "fs") == cores


def test_no_control_groups(tmp_path):
    assert granted_cores(tmp_path / "missing", tmp_path) is None
