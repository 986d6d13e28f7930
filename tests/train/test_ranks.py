"""Several processes that train one model: `mpiexec -n N nmt-train`. Where there is no MPI most of this is left out."""

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml

from nmt.errors import DeviceError
from nmt.train.checkpoints.checkpoint import read_whole
from nmt.train.distributed.launch import join_ranks, launched_size
from nmt.train.distributed.ranks import Ranks, interleaved
from nmt.train.distributed.reduction import Reduction
from tests import waiting
from tests.oracle.compare import assert_same_bits
from tests.refusals import refused
from tests.train import fake_model
from tests.train.resumed import differing, events

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).parent / "mpiexec"

try:
    import importlib.metadata

    importlib.metadata.version("mpi4py")
    HAS_MPI = MPIEXEC.exists()
except importlib.metadata.PackageNotFoundError:
    HAS_MPI = False
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="needs mpi4py and mpiexec: pip install -e '.[mpi]'")


# ------------------------------------------------------------------ what needs no MPI


def test_a_process_by_itself_is_rank_0_of_1():
    ranks = Ranks()
    assert (ranks.rank, ranks.size, ranks.all_gather(3), ranks.broadcast(4)) == (0, 1, [3], 4)
    assert ranks.collect(lambda: 5) == [5] and ranks.reduction({}, "float32") is None and not ranks.warnings(2)


@pytest.mark.parametrize("shares", [[[0]], [[0, 3, 6], [1, 4], [2, 5]], [[0], [1], []]])
def test_shares_are_put_together_again(shares):
    assert interleaved(shares) == list(range(sum(map(len, shares))))


@pytest.mark.parametrize(
    ("environment", "size"),
    [
        ({}, 1),
        ({"PMI_SIZE": "4"}, 4),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, 2),
        ({"PMI_SIZE": "x"}, 1),
        ({"PMI_SIZE": "0"}, 1),
    ],
)
def test_what_a_launcher_leaves_in_the_environment(environment, size):
    assert launched_size(environment) == size


def test_ranks_without_mpi_are_a_line_of_error(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "3")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.delitem(sys.modules, "nmt.train.distributed.mpi_ranks", raising=False)
    refused(DeviceError, "mpiexec: 3 ranks must have the package mpi4py .* pip install", join_ranks)


class Post:
    """Where the threads of a test that play ranks leave what they send."""

    def __init__(self, size):
        self.size, self.barrier, self.held = size, threading.Barrier(size), [None] * size

    def exchange(self, rank, value):
        self.held[rank] = value
        self.barrier.wait()
        found = list(self.held)
        self.barrier.wait()
        return found


class Wire:
    """A rank's end of it."""

    class Over:
        def Test(self):  # noqa: N802 - MPI's name
            return True

    def __init__(self, post, rank):
        self.post, self.rank, self.size = post, rank, post.size

    def scatter_parts(self, sent, received, counts):
        starts = np.concatenate([[0], np.cumsum(counts)])
        parts = self.post.exchange(self.rank, [sent[a:b].copy() for a, b in zip(starts, starts[1:], strict=False)])
        received[:] = np.concatenate([one[self.rank] for one in parts])
        return self.Over()

    def gather_parts(self, own, received, counts):
        received[:] = np.concatenate(self.post.exchange(self.rank, own.copy()))
        return self.Over()


def reduce_in_threads(size, wire_dtype="float32", updates=2):
    """Sums by `size` ranks of arrays of odd sizes, with what each had; the arrays of all ranks, and their bytes."""
    post = Post(size)
    shapes = {"table": (50, 3), "encoder.W": (7, 5), "encoder.b": (1,), "output.W": (1 << 20, 2)}

    def work(rank):
        arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        reduction = Reduction(Wire(post, rank), arrays, wire_dtype)
        given = []
        for update in range(updates):
            rng = np.random.default_rng([rank, update])
            reduction.begin()
            for array in arrays.values():
                array[...] = rng.standard_normal(array.shape)
            given.append({name: array.copy() for name, array in arrays.items()})
            reduction.ready("output")
            reduction.ready("encoder")
            reduction.finish()
        return given[-1], arrays, reduction.sent_bytes

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, range(size)))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_sums_are_those_of_one_process_bit_for_bit(size):
    found = reduce_in_threads(size)
    for name in found[0][1]:
        expected = found[0][0][name].copy()
        for given, _, _ in found[1:]:
            expected += given[name]
        for _, arrays, _ in found:
            np.testing.assert_array_equal(arrays[name], expected, err_msg=name)
    whole = sum(array.nbytes for array in found[0][1].values())
    assert sum(sent_bytes for *_, sent_bytes in found) == 2 * (size - 1) * whole


def test_bfloat16_halves_the_bytes_and_all_ranks_have_the_same():
    pytest.importorskip("ml_dtypes")
    found, dense = reduce_in_threads(3, "bfloat16"), reduce_in_threads(3)
    assert_same_bits(found[1][1], found[0][1])
    assert_same_bits(found[2][1], found[0][1])
    for name in found[0][1]:
        expected = sum(given[name] for given, _, _ in found)
        np.testing.assert_allclose(found[0][1][name], expected, atol=2**-8 * 3 * 4, err_msg=name)
    assert 2 * sum(one[2] for one in found) == sum(one[2] for one in dense)


def test_what_goes_wrong_on_the_wire_is_raised_where_somebody_sees_it():
    class Broken(Wire):
        def scatter_parts(self, sent, received, counts):
            raise ConnectionError("no wire")

    reduction = Reduction(Broken(Post(1), 0), {"a": np.zeros(3, np.float32)})
    reduction.begin()
    refused(ConnectionError, "no wire", reduction.finish)


# ------------------------------------------------------------------ processes


def setup(folder: Path, **training) -> Path:
    settings = fake_model.write_setup(folder, metric="loss", **training)
    settings["data"]["test"] = str(folder / "test")
    (folder / "c.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return folder / "c.yaml"


def start(config: Path, ranks: int, *options: str, seconds: float = 0.0, command: str = "") -> subprocess.Popen[str]:
    script = command or str(ROOT / "tests" / "train" / "fake_model.py")
    launcher = [str(MPIEXEC), "-n", str(ranks)] if ranks > 1 else []
    return fake_model.begin([*launcher, sys.executable, script, "nmt-train", str(config), *options], seconds)


def run(config: Path, ranks: int, *options: str, **more) -> tuple[int, str, str]:
    process = start(config, ranks, *options, **more)
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


@needs_mpi
@pytest.mark.parametrize("count", [2, 3])
def test_ranks_are_one_process_with_as_many_batches(tmp_path, count):
    """All bits of the parameters and the optimizer; losses and scores of every event; twice."""
    config = setup(tmp_path)
    code, output, errors = run(config, count)
    assert code == 0, errors
    assert output.count("best\t") == 1 and output.count("test\t") == 3, "one rank speaks"
    assert f"{count} ranks with 1 thread each" in errors
    assert run(config, 1, "--set", f"training.batch_multiplier={count}", "--set", f"model_dir={tmp_path}/alone")[0] == 0
    assert run(config, count, "--set", f"model_dir={tmp_path}/again")[0] == 0
    for other in ("alone", "again"):
        assert not differing(tmp_path / "model", tmp_path / other)
        for mine, others in zip(events(tmp_path / "model"), events(tmp_path / other), strict=True):
            timed = {"time", "elapsed", "seconds", "src_tokens_per_second", "tgt_tokens_per_second"}
            own = timed | {"name", "peak_memory"}
            assert {k: v for k, v in mine.items() if k not in own} == {k: v for k, v in others.items() if k not in own}


@needs_mpi
@pytest.mark.parametrize(("reset", "ends"), [("true", [3]), ("false", [3, 9])])
def test_four_ranks_start_from_another_model_and_go_on(tmp_path, reset, ends):
    """As one process with so many batches an update does, from the bits of the model to start from to a resumed run."""
    config = setup(tmp_path)
    assert run(config, 1)[0] == 0
    load = ["--set", f"training.load_model={tmp_path}/model", "--set", f"training.reset_optimizer={reset}"]
    for updates in ends:  # the second goes on where the first ended
        until = ["--set", f"training.updates={updates}", *load]
        code, _, errors = run(config, 4, "--set", f"model_dir={tmp_path}/ranks", *until)
        assert code == 0, errors
        assert ("resuming from" if updates == 9 else "starting from") in errors
        alone = ["--set", f"model_dir={tmp_path}/alone", "--set", "training.batch_multiplier=4"]
        assert run(config, 1, *alone, *until)[0] == 0
        assert not differing(tmp_path / "ranks", tmp_path / "alone")


SLOW_WRITER = f"""
import runpy, sys, time
import nmt.train.checkpoints.checkpoint as manager

save = manager.save_checkpoint

def slowly(*given, **named):
    time.sleep(0.5)
    save(*given, **named)

manager.save_checkpoint = slowly
runpy.run_path("{ROOT}/tests/train/fake_model.py", run_name="__main__")
"""


@needs_mpi
def test_ranks_wait_for_the_writer_before_they_read_the_best_checkpoint(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_WRITER, encoding="utf-8")
    code, output, errors = run(setup(tmp_path, updates=3), 2, command=str(tmp_path / "slow.py"))
    assert code == 0 and output.count("test\t") == 3, errors


GATHER = """
import sys
import numpy as np
from mpi4py import MPI
from nmt.train.distributed.mpi_ranks import Machines

rank = MPI.COMM_WORLD.Get_rank()
machines = Machines(MPI.COMM_WORLD, f"machine{rank % int(sys.argv[1])}")
own = {number: np.arange(number, dtype=np.int32) for number in range(11) if number % 3 == (rank + 1) % 3}
whole = machines.gathered(own, np.int32)
nothing = machines.gathered({}, np.int64)
expected = np.concatenate([np.arange(number) for number in range(11)])
assert whole.dtype == np.int32 and whole.tolist() == expected.tolist(), whole
assert not whole.flags.writeable and nothing.dtype == np.int64 and not len(nothing)
with open("/proc/self/maps") as maps:  # addresses, rights, offset, device, the file's number, its name
    mine = {line.split()[4] for line in maps if "nmt-text-" in line and line.endswith("(deleted)\\n")}
every = MPI.COMM_WORLD.allgather(mine)
print(MPI.COMM_WORLD.gather(sum(bool(mine & theirs) for theirs in every)))
"""


def under_mpi(folder: Path, ranks: int, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(MPIEXEC), "-n", str(ranks), sys.executable, "-c", code, *arguments]
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@needs_mpi
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to tell one file from another")
@pytest.mark.parametrize(("machines", "here"), [(1, [3, 3, 3]), (2, [2, 1, 2]), (3, [1, 1, 1])])
def test_what_ranks_have_read_is_there_once_on_a_machine(tmp_path, machines, here):
    """Ranks that are told they are on several machines send one another what they have."""
    done = under_mpi(tmp_path, 3, GATHER, str(machines))
    assert done.returncode == 0, done.stderr
    assert str(here) in done.stdout and not list(tmp_path.iterdir()), "no file stays"


@needs_mpi
def test_a_text_that_has_no_room_is_a_line_of_error(tmp_path):
    code = (
        "import os, errno\n"
        "def full(*given): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "os.posix_fallocate = full\n"
        "from nmt.train.distributed.mpi_ranks import MPIRanks\nimport numpy as np\nranks = MPIRanks()\n"
        "with ranks.together(): ranks.gathered({ranks.rank: np.zeros(1000)}, float)\n"
    )
    done = under_mpi(tmp_path, 2, code)
    assert done.returncode != 0 and not list(tmp_path.iterdir())
    assert done.stderr.count("Error: ") == 1 and "must have room for 16 KiB of the training text" in done.stderr


@needs_mpi
def test_ranks_end_after_their_error_is_read(monkeypatch):
    """A launcher under load reads late; whoever reads nothing is not waited for without end."""
    from nmt.train.distributed import mpi_ranks

    reader, writer = os.pipe()
    os.write(writer, b"Error: x")
    read = threading.Timer(0.2, lambda: os.read(reader, 100))
    read.start()
    monkeypatch.setattr(mpi_ranks, "_READ_SECONDS", 300)
    mpi_ranks.await_reader(writer)
    assert select.select([reader], [], [], 0)[0] == [], "it was waited for"
    read.join()
    monkeypatch.setattr(mpi_ranks, "_READ_SECONDS", 0.1)
    os.write(writer, b"more")
    mpi_ranks.await_reader(writer)
    assert os.read(reader, 100) == b"more"
    os.close(reader)
    os.close(writer)


@needs_mpi
def test_a_mistake_is_one_line(tmp_path):
    code, output, errors = run(setup(tmp_path), 3, "--set", f"data.dev={tmp_path}/none")
    assert code != 0 and not output
    assert errors.count("Error: ") == 1 and "none.xx" in errors


def ranks_of(launcher: subprocess.Popen[str]) -> dict[int, psutil.Process]:
    """Processes of the ranks that a launcher has started, by rank."""
    found: dict[int, psutil.Process] = {}
    for process in psutil.Process(launcher.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has ended
            if "PMI_RANK" in (given := process.environ()):
                found.setdefault(int(given["PMI_RANK"]), process)
    return found


def wait_for_a_checkpoint(folder: Path, process: subprocess.Popen[str]) -> None:
    """Until the run that was started has written one."""
    path = folder / "last.safetensors"
    before = path.stat().st_mtime_ns if path.exists() else 0
    while process.poll() is None and (not path.exists() or path.stat().st_mtime_ns == before):
        time.sleep(0.01)


def kill_one(config: Path, ranks: int, victim: str, seconds: float) -> None:
    """Kill a rank, the writer or mpiexec when updates are done, and wait until all have ended."""
    process = start(config, ranks, seconds=0.01)
    try:
        wait_for_a_checkpoint(config.parent / "model", process)
        time.sleep(seconds)
        assert process.poll() is None, process.stderr.read()
        of_rank = ranks_of(process)
        assert len(of_rank) == ranks
        {"rank": of_rank[ranks - 1], "writer": of_rank[0], "mpiexec": process}[victim].kill()
        waiting.until(lambda: all(map(has_ended, of_rank.values())), 300)
        process.communicate(timeout=300)
        assert process.returncode != 0
    finally:
        process.kill()


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@needs_mpi
def test_a_dead_rank_ends_all_and_any_number_goes_on(tmp_path):
    """The launcher ends them."""
    config = setup(tmp_path, epochs=200, validation_freq=3, stop_after=None)
    for ranks, victim in (2, "rank"), (3, "writer"), (2, "mpiexec"):
        kill_one(config, ranks, victim, random.random() / 5)  # noqa: S311 - not a secret
    last = read_whole(tmp_path / "model" / "last.safetensors").metadata["state"]
    code, _, errors = run(config, 1, "--set", f"training.updates={last['update'] + 5}")
    assert code == 0 and "resuming from" in errors
    assert not list((tmp_path / "model").glob(".*"))


@needs_mpi
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_ranks_after_the_same_update(tmp_path, number):
    config = setup(tmp_path, epochs=6, validation_freq=3)
    assert run(config, 2, "--set", f"model_dir={tmp_path}/whole")[0] == 0
    process = start(config, 2, seconds=0.01)
    wait_for_a_checkpoint(tmp_path / "model", process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert "run the same command again to resume from" in errors
    assert errors.count("stopping after this update") == 1
    assert run(config, 2)[0] == 0
    assert not differing(tmp_path / "model", tmp_path / "whole")
