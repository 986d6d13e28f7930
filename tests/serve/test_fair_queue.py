"""Turns: of clients, of their requests, and of long texts, which give way."""

import threading
from dataclasses import dataclass

import pytest

from nmt.serve.limits import ClosedError, FairQueue, FullError


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
    return FairQueue(100)


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
    thread = threading.Thread(target=lambda: found.append(queue.take(1, 9, wait=True)))
    thread.start()
    put(queue, "a", "x")
    thread.join(10)
    assert names(found[0]) == "x"
    thread = threading.Thread(target=lambda: found.append(queue.take(1, 9, wait=True)))
    thread.start()
    queue.close()
    thread.join(10)
    assert found[1] is None
