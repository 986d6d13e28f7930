"""What is wrong is told in one line."""

import os
import random

import pytest


def refused(kind, line, call, *arguments, **options):
    """The message of the error that a call raises: of this kind, one line in which `line`, a pattern, is found,
    if there is one."""
    with pytest.raises(kind, match=line or None) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    del caught  # whose traceback keeps files mapped, which Windows does not replace
    assert "\n" not in message
    return message


def refused_of_damaged(kind, path, read, times):
    """How often a file with a few changed bytes, now and then cut, is refused in one line; else it is read."""
    content, drawn, count = path.read_bytes(), random.Random(3), 0
    for number in range(times):
        damaged = bytearray(content)
        for _ in range(drawn.randint(1, 4)):
            damaged[drawn.randrange(len(damaged))] = drawn.randrange(256)
        path.write_bytes(damaged[: drawn.randrange(len(damaged))] if drawn.random() < 0.2 else damaged)
        os.utime(path, ns=(number, number))  # another state of the file, whatever the clock
        try:
            read(path)
        except kind as error:
            assert "\n" not in str(error)
            count += 1
    return count
