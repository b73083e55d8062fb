"""Read tables of FlatBuffers, as https://flatbuffers.dev/internals describes them, checking every position."""

from __future__ import annotations

import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Stand at a table of a buffer.

    Args:
        data: The buffer.
        at: Where the table begins.

    Raises:
        ValueError: From any method: the buffer is none, or it is damaged.
    """

    data: bytes
    at: int

    @staticmethod
    def root(data: bytes) -> Table:
        """Return the table that a buffer begins with."""
        return Table(data, _unpack("<I", data, 0))

    def _place(self, field: int) -> int:
        """Return where a field's value stands; 0 where the table has none."""
        vtable = self.at - _unpack("<i", self.data, self.at)
        nbytes = _unpack("<H", self.data, vtable)
        offset = _unpack("<H", self.data, vtable + 4 + 2 * field) if 4 + 2 * field < nbytes else 0
        return self.at + offset if offset else 0

    def number(self, field: int, code: str) -> int:
        """Return an integer field, 0 by default; `code` is its type as `struct` writes it."""
        place = self._place(field)
        return _unpack(f"<{code}", self.data, place) if place else 0

    def table(self, field: int) -> Table | None:
        """Return the table that a field refers to."""
        place = self._place(field)
        return Table(self.data, place + _unpack("<I", self.data, place)) if place else None

    def structs(self, field: int, nbytes: int) -> memoryview:
        """Return the bytes of a vector of structs of that size; none where there is no vector."""
        place = self._place(field)
        if not place:
            return memoryview(b"")
        start = place + _unpack("<I", self.data, place)
        end = start + 4 + nbytes * _unpack("<I", self.data, start)
        if end > len(self.data):
            raise ValueError(f"expected a vector up to byte {end} of {len(self.data)}")
        return memoryview(self.data)[start + 4 : end]


def _unpack(code: str, data: bytes, at: int) -> int:
    if not 0 <= at <= len(data) - struct.calcsize(code):
        raise ValueError(f"expected a value at byte {at} of {len(data)}")
    value: int = struct.unpack_from(code, data, at)[0]
    return value
