"""What is idle is lent to one caller at a time, even where a list's own methods are not atomic."""

import threading
import time

from nmt.rnn.arrays.workspace import Idle


class TornList(list):
    """A list whose `pop` and `append` are several steps, with other threads in between."""

    def pop(self):
        last = self[-1]
        time.sleep(0)
        del self[-1]
        return last

    def append(self, one):
        size = len(self)
        time.sleep(0)
        self[size:] = [one]


def test_no_two_callers_get_the_same_object():
    idle = Idle(object)
    idle.kept = TornList()
    lent, twice = set(), []

    def borrow():
        for _ in range(300):
            one = idle.take()
            twice.extend([one] if one in lent else [])
            lent.add(one)
            time.sleep(0)
            lent.discard(one)
            idle.give(one)

    callers = [threading.Thread(target=borrow) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not twice
    assert 1 <= len(idle.kept) == len(set(idle.kept)) <= 4


def test_the_last_given_is_taken_first_and_no_more_are_kept_than_wanted():
    numbers = iter(range(9))
    idle = Idle(lambda: next(numbers), most=2)
    one, two, three = (idle.take() for _ in range(3))
    for number in (one, two, three):
        idle.give(number)
    assert [idle.take() for _ in range(3)] == [two, one, 3]
