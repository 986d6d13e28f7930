"""The box in which texts of strangers are parsed: budgets that hold, processes that come and go, turns of clients."""

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

pytest.importorskip("starlette", reason="needs the extra [serve]")

from nmt.documents.tagged_text import read_passage
from nmt.inference.translation import Translation
from nmt.serve.box import box as box_module
from nmt.serve.box import text_work
from nmt.serve.box.box import Box, BoxJob
from nmt.serve.limits import Bodies, ClosedError, FairQueue, FullError, Room, Shelf, Turns
from nmt.serve.settings import Limits, RequestError
from tests.processes import python
from tests.waiting import beside, until


def children(process):
    """Processes that a process has begun, itself left out."""
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A module in place of `text_work`, with functions that no text should be."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "own_work.py").write_text(
        "def busy():\n    while True:\n        pass\n    yield 0\n"
        "def large():\n    a = b'x' * (600 * 2**20)\n    import time\n    time.sleep(60)\n    yield len(a)\n"
        "def grows():\n    yield len(bytes(96 * 2**20).replace(b'\\0', b'x'))\n"
        "def much():\n    for _ in range(300):\n        yield b'x' * 2**20\n"
        "def deep():\n    def inner(n):\n        return inner(n) + 1\n    yield inner(0)\n"
        "def broken():\n    yield 1 // 0\n"
        "def dead():\n    import os\n    os.abort()\n    yield 0\n"
        "class Own:\n    pass\n"
        "def classes():\n    yield Own()\n"
        "def works(seconds):\n    import time\n    until = time.process_time() + seconds\n"
        "    while time.process_time() < until:\n        pass\n    yield 0\n"
        "def drifts():\n    import resource\n    real = resource.getrusage(0)\n"
        "    resource.getrusage = lambda who: resource.struct_rusage((0, 0, *real[2:]))\n    yield from works(1.5)\n"
        "def plain(n):\n    yield [n, 'x', b'y', (1.5, None, True)]\n"
        "def slow():\n    import time\n    time.sleep(60)\n    yield 0\n"
    )
    return folder


def boxed(hostile, monkeypatch):
    command = box_module._command

    def with_own(call):
        *words, code = command(call)
        own = (
            f"import sys; sys.path.insert(0, {str(hostile)!r}); import own_work; import nmt.serve.box.text_work as t; "
        )
        return [*words, own + "vars(t).update({k: v for k, v in vars(own_work).items() if k[0] != '_'}); " + code]

    monkeypatch.setattr(box_module, "_command", with_own)
    found = Box()
    found.start()
    yield found
    found.close()


@pytest.fixture
def box(hostile, monkeypatch):
    """Workers that are forked, as on Linux."""
    if not box_module._FORKS:
        pytest.skip("workers are forked on Linux")
    yield from boxed(hostile, monkeypatch)


@pytest.fixture(params=[True, False], ids=["forked", "spawned"])
def any_box(hostile, monkeypatch, request):
    """Both kinds; elsewhere than on Linux there are spawned ones alone."""
    if request.param and not box_module._FORKS:
        pytest.skip("workers are forked on Linux")
    monkeypatch.setattr(box_module, "_FORKS", request.param)
    yield from boxed(hostile, monkeypatch)


def job(name, *args, **more):
    return BoxJob(name, args, "q", **more)


async def refused(box, one):
    with pytest.raises(RequestError) as told:
        await box.run(one, "a")
    assert told.value.status == 400 and "\n" not in told.value.message
    return told.value.message


async def test_each_budget_holds_and_the_next_job_is_done(any_box):
    for one, said in (
        (job("busy", seconds=0.2), "needs more"),
        (job("large", memory=100 * 2**20), "needs more"),
        (job("much", output=2**22), "needs more"),
        (job("dead"), "needs more"),
        (job("deep"), "nest less deeply"),
    ):
        assert said in await refused(any_box, one), one
        assert await any_box.run(job("plain", 7), "a") == [[7, "x", b"y", (1.5, None, True)]]


async def test_the_time_of_a_job_is_its_own_whatever_the_kernel_says_that_others_took(box):
    assert await box.run(job("drifts"), "a") == [0]
    assert await box.run(job("works", 0.2, seconds=0.9), "a") == [0]


def test_a_worker_that_has_grown_is_not_given_another_job(any_box):
    """It exits, which frees its memory; the job that comes at once goes to another one."""

    async def run():
        for _ in range(4):
            assert await any_box.run(job("grows"), "a") == [96 * 2**20]
            assert await any_box.run(job("plain", 1), "a")

    asyncio.run(asyncio.wait_for(run(), 600))  # eight workers, with as much memory to fill, on any machine
    any_box._idle.clear()  # of the loop that is over


async def test_a_mistake_of_ours_keeps_its_traceback_in_the_log(any_box, caplog):
    assert "ZeroDivisionError" in await refused(any_box, job("broken"))
    assert any("own_work.py" in getattr(one, "fields", {}).get("traceback", "") for one in caplog.records)


async def test_a_worker_sends_plain_values_alone(any_box):
    with pytest.raises(Exception, match="must be plain values"):
        await any_box.run(job("classes"), "a")


async def test_who_goes_ends_the_work_and_leaves_no_process(box):
    task = asyncio.ensure_future(box.run(job("busy", seconds=60), "a"))
    while not children(box._home.pid):
        await asyncio.sleep(0.01)
    (worker,) = children(box._home.pid)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while children(box._home.pid):  # killed, and no zombie is left
        await asyncio.sleep(0.01)
    assert not Path(f"/proc/{worker}").exists()
    assert await box.run(job("plain", 1), "a")


async def test_a_home_that_was_killed_is_begun_anew(box):
    assert await box.run(job("plain", 1), "a")
    os.kill(box._home.pid, signal.SIGKILL)
    box._home.wait()
    box._idle.clear()
    assert await box.run(job("cut", ["one. two."], "text", None, frozenset()), "a")


async def test_signals_of_the_group_end_no_work(box):
    task = asyncio.ensure_future(box.run(job("plain", 3), "a"))
    await task
    for process in [box._home.pid, *children(box._home.pid)]:
        os.kill(process, signal.SIGTERM)
        os.kill(process, signal.SIGINT)
    assert await box.run(job("plain", 4), "a")


def test_close_ends_home_and_workers(box):
    async def run():
        task = asyncio.ensure_future(box.run(job("busy", seconds=60), "a"))
        while not children(box._home.pid):
            await asyncio.sleep(0.01)
        task.cancel()
        return box._home.pid, children(box._home.pid)

    home, workers = asyncio.run(run())
    box.close()
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in [home, *workers]))


SERVER = """
import asyncio, sys
from nmt.serve.box import box as b
own = "import time\\nimport nmt.serve.box.text_work as t\\ndef busy():\\n  open({!r}, 'x')\\n"
own += "  while time.process_time() < 60: pass\\nt.busy = busy\\n"
command, own = b._command, own.format(sys.argv[1])
b._command = lambda call: [*command(call)[:-1], command(call)[-1].replace("import nmt", own + "import nmt", 1)]
box = b.Box()
box.start()
asyncio.run(box.run(b.BoxJob("busy", (), "q", seconds=300), "a"))
"""


def test_a_server_that_was_killed_leaves_no_worker(tmp_path):
    server = subprocess.Popen([sys.executable, "-c", SERVER, tmp_path / "begun"], cwd=Path(__file__).parents[2])
    until((tmp_path / "begun").exists)
    workers = psutil.Process(server.pid).children(recursive=True)
    assert workers
    server.kill()
    server.wait()
    until(lambda: not any(one.is_running() for one in workers))


async def test_a_client_with_slow_texts_keeps_nobody_else_waiting(any_box):
    slow = [asyncio.ensure_future(any_box.run(job("slow"), "attacker")) for _ in range(20)]
    await asyncio.sleep(0)
    found = [await any_box.run(job("plain", n), "other") for n in range(5)]
    assert len(found) == 5 and not any(one.done() for one in slow)
    for one in slow:
        one.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


def test_the_home_of_workers_imports_no_compiler_and_no_model():
    code = "import sys, nmt.serve.box.home, nmt.serve.box.text_work; print(*sys.modules)"
    found = set(python(code).stdout.split())
    assert not {"numba", "llvmlite", "pydantic", "starlette", "nmt.rnn", "nmt.model"} & found


async def test_turns_are_by_client_and_no_place_is_lost():
    turns, order, open_ = Turns(2, 1), [], asyncio.Event()

    async def work(client):
        async with turns.of(client):
            order.append(client)
            await open_.wait()

    many = [asyncio.ensure_future(work("a")) for _ in range(5)]
    await asyncio.sleep(0)
    assert order == ["a"]
    other = [asyncio.ensure_future(work(client)) for client in "bc"]
    await asyncio.sleep(0)
    assert order == ["a", "b"]
    many[1].cancel()
    open_.set()
    await asyncio.gather(*many, *other, return_exceptions=True)
    assert sorted(order) == ["a", "a", "a", "a", "b", "c"]
    assert (turns._free, dict(turns._taken), dict(turns._waiting)) == (2, {}, {})


def test_a_shelf_makes_room_at_the_cost_of_who_has_most():
    shelf = Shelf(100, 10)
    shelf.put("b", "b1", "small", 10)
    for n in range(20):
        shelf.put("a", f"a{n}", n, 30)
    assert shelf.of("b") == ["small"] and shelf.of("a") == [17, 18, 19] and shelf.bytes_of("a") == 90
    assert shelf.pop("a18") == 18 and shelf.get("a18") is None and len(shelf) == 3
    kept = Shelf(2, 2, lambda one: one != "in work")
    kept.put("a", "1", "in work")
    kept.put("a", "2", "over")
    kept.put("a", "3", "in work")
    assert kept.of("a") == ["in work", "in work"]


def test_bodies_are_bounded_together_and_by_client():
    bodies = Bodies(Limits(all_bytes=1000, file_bytes=300, body_bytes=100))
    rooms = [Room(bodies, client) for client in "abcd"]
    for room in rooms[:3]:
        room.add(300)
        with pytest.raises(RequestError) as told:
            room.add(1)
        assert told.value.status == 429
    with pytest.raises(RequestError) as told:
        rooms[3].add(101)
    assert told.value.status == 503
    for room in rooms * 2:
        room.leave()
    assert bodies.total == 0 and not bodies._of


def test_ranks_are_those_of_the_translations():
    passages = [read_passage("one\ntwo"), read_passage("  ")]
    found = [
        [Translation("a", 0.0, -1.0, length=2), Translation("b", 0.0, -5.0, length=2)],
        [Translation("c", 0.0, -1.0, length=2)],
    ]
    first, second, blank = ("a\nc", 0.6065), ("b\nc", 0.2231), ("  ", 1.0)  # exp(-2 / 4), exp(-6 / 4)
    assert text_work.joined(passages, found, 3) == [[first, second], [blank]]


@pytest.fixture
def queue():
    return FairQueue(100)


@dataclass(eq=False)
class Ticket:
    name: str
    is_bulk: bool = False
    gone: bool = False


def put(queue, client, names, **more):
    tickets = [Ticket(name, **more) for name in names.split()]
    queue.put(client, tickets)
    return tickets


def names(tickets):
    return " ".join(ticket.name for ticket in tickets)


def test_clients_take_turns_and_so_do_their_requests(queue):
    put(queue, "a", "a1 a2 a3")
    put(queue, "a", "b1 b2")
    put(queue, "c", "c1 c2")
    assert names(queue.take(4, 9, wait=False)) == "a1 c1 b1 c2"
    assert names(queue.take(9, 9, wait=False)) == "a2 b2 a3"
    assert queue.take(9, 9, wait=False) == [] and len(queue) == 0


def test_who_is_gone_is_passed_over(queue):
    put(queue, "a", "x y z")[1].gone = True
    assert names(queue.take(9, 9, wait=True)) == "x z"


def test_who_is_gone_keeps_nobody_out(queue):
    gone = put(queue, "a", " ".join(60 * "x")) + put(queue, "a", " ".join(39 * "l"), is_bulk=True)
    put(queue, "a", "y")
    for ticket in gone:
        ticket.gone = True
    queue.drop("a")
    queue.drop("nobody")
    put(queue, "b", " ".join(99 * "z"))
    assert len(queue) == 100 and names(queue.take(2, 9, wait=True)) == "y z"


def test_long_texts_have_a_lane_of_their_own(queue):
    put(queue, "a", "l1 l2 l3", is_bulk=True)
    put(queue, "b", "s1 s2")
    assert names(queue.take(1, 2, wait=False)) == "s1 l1 l2"
    assert names(queue.take(0, 1, wait=True)) == "l3"
    assert queue.take(0, 9, wait=False) == [] and names(queue.take(9, 0, wait=True)) == "s2"


def test_no_more_than_may_wait(queue):
    put(queue, "a", " ".join(f"l{n}" for n in range(150)))  # a request by itself may be of any length
    with pytest.raises(FullError):
        put(queue, "b", "x")
    queue.put("b", [Ticket("y")], accepted=True)  # a piece of a request that has begun
    queue.take(100, 9, wait=False)
    put(queue, "b", "x")


def test_what_waits_at_the_end_is_still_given(queue):
    put(queue, "a", "x y")
    queue.close()
    with pytest.raises(ClosedError):
        put(queue, "a", "z")
    assert names(queue.take(1, 9, wait=True)) == "x" and names(queue.take(1, 9, wait=True)) == "y"
    assert queue.take(1, 9, wait=True) is None and queue.take(1, 9, wait=False) is None


def test_who_waits_is_woken(queue):
    found = []
    for wake in (lambda: put(queue, "a", "x"), queue.close):
        with beside(lambda: found.append(queue.take(1, 9, wait=True)), seconds=10):
            wake()
    assert names(found[0]) == "x" and found[1] is None
