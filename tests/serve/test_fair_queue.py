"""Turns: of clients, of their requests, and of long texts, which give way."""

import threading
from dataclasses import dataclass

import pytest

from nmt.serve import fair_queue
from nmt.serve.fair_queue import FairQueue, FullError


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


@pytest.fixture
def queue():
    return FairQueue(100, 32)


def test_clients_take_turns_and_so_do_their_requests(queue):
    put(queue, "a", "a1 a2 a3")
    put(queue, "a", "b1 b2")
    put(queue, "c", "c1 c2")
    assert names(queue.take(4, wait=False)) == "a1 c1 b1 c2"
    assert names(queue.take(9, wait=False)) == "a2 b2 a3"
    assert queue.take(9, wait=False) == [] and len(queue) == 0


def test_who_is_gone_is_passed_over(queue):
    put(queue, "a", "x y z")[1].gone = True
    assert names(queue.take(9, wait=True)) == "x z"


def test_long_texts_give_way(queue, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(fair_queue.time, "monotonic", lambda: now[0])
    long = put(queue, "a", " ".join(f"l{n}" for n in range(60)), is_bulk=True)
    assert len(queue.take(32, wait=False)) == 24
    put(queue, "b", "s1")
    assert names(queue.take(8, wait=False)) == "s1"
    for ticket in long[:23]:
        queue.ended(ticket)
    assert names(queue.take(8, wait=False)) == "l24"
    assert queue.take(8, wait=False) == []
    now[0] += 1.5
    assert len(queue.take(30, wait=False)) == 22


def test_no_more_than_may_wait(queue):
    put(queue, "a", " ".join(f"l{n}" for n in range(150)))  # a request by itself may be of any length
    with pytest.raises(FullError):
        put(queue, "b", "x")
    queue.take(100, wait=False)
    put(queue, "b", "x")


def test_what_waits_at_the_end_is_still_given(queue):
    put(queue, "a", "x y")
    queue.close()
    with pytest.raises(RuntimeError):
        put(queue, "a", "z")
    assert names(queue.take(1, wait=True)) == "x" and names(queue.take(1, wait=True)) == "y"
    assert queue.take(1, wait=True) is None and queue.take(1, wait=False) is None


def test_who_waits_is_woken(queue):
    found = []
    thread = threading.Thread(target=lambda: found.append(queue.take(1, wait=True)))
    thread.start()
    put(queue, "a", "x")
    thread.join(10)
    assert names(found[0]) == "x"
    thread = threading.Thread(target=lambda: found.append(queue.take(1, wait=True)))
    thread.start()
    queue.close()
    thread.join(10)
    assert found[1] is None
