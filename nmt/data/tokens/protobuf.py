"""Read and write the fields of a message in Protocol Buffers' wire format (protobuf.dev, "Encoding").

The caller must know the message's type to interpret numbers and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

_FIXED = {1: 8, 5: 4}
"""The size of a field in bytes, by its wire type."""
_DELIMITED = 2


class WireError(Exception):
    """A damaged message; the text completes an error's `got`."""


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it. Raises WireError."""
    found = 0
    for n in range(10):
        if at + n >= len(content):
            raise WireError("a part of one")
        byte = content[at + n]
        found |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:
            return found, at + n + 1
    raise WireError("a number without an end")


def varint(number: int) -> bytes:
    """Return a number encoded in groups of seven bits, the lowest first."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value (an integer or bytes) of each field of a message. Raises WireError."""
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = read_varint(message, at)
            yield number, value
            continue
        size = _FIXED.get(wire)
        if wire == _DELIMITED:
            size, at = read_varint(message, at)
        if size is None:
            raise WireError("something else")
        if at + size > len(message):
            raise WireError("a part of one")
        yield number, message[at : at + size]
        at += size
