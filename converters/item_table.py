"""Read files of items behind a table of where each begins, as MosaicML's shards and LitData's chunks are.

Such a file begins with the number of items (u32) and the table: where each item begins, then where the last one ends
(u32 each). All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from datafeed.columns import Offsets

Bytes = npt.NDArray[np.uint8]

PIECE_NBYTES = 4 * 2**20


class Readable(Protocol):
    """Read bytes at any position."""

    def seek(self, at: int, /) -> int:
        """Go to a position."""
        ...

    def read(self, nbytes: int, /) -> bytes:
        """Return the next bytes, fewer at the end."""
        ...


class TableError(ValueError):
    """Tell that a file as a whole is not what its index says."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Hold some consecutive items.

    Args:
        data: Their bytes, end to end.
        offsets: (n + 1) Where each begins in these, then where the last one ends.
        first: The number of the first in its file.
    """

    data: Bytes
    offsets: Offsets
    first: int

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class Table:
    """Read items by their places.

    Args:
        file: The file; it stays open.
        nbytes: Its size.
        items: How many items it must hold.
    """

    file: Readable
    nbytes: int
    items: int

    @staticmethod
    def nbytes_of(items: int) -> int:
        """Return how many bytes stand before what items may fill."""
        return 4 * (items + 2)

    @property
    def table_nbytes(self) -> int:
        """How many bytes stand before what these items may fill."""
        return self.nbytes_of(self.items)

    def check(self) -> None:
        """Compare the file's number of items with the one expected.

        Raises:
            TableError: They differ, or the table does not fit the file.
        """
        self.file.seek(0)
        found = int.from_bytes(self.file.read(4), "little")
        if found != self.items:
            raise TableError(f"its index says {self.items} items, it says {found}")
        if self.table_nbytes > self.nbytes:
            raise TableError(f"it is cut short: {self.nbytes} bytes are less than a table of {self.items} items")

    def pieces(self, start: int, end: int, on_bad: Callable[[int, str], None]) -> Iterator[Piece]:
        """Yield items, some MB at a time.

        Args:
            start: The first of them.
            end: The one behind the last.
            on_bad: Takes the number of an item whose place is wrong, and what is wrong with it.

        Raises:
            TableError: The file is not what its index says.
            OSError: It cannot be read.
        """
        self.check()
        offsets = self._offsets(start, end)
        wrong = (offsets[:-1] < self.table_nbytes) | (offsets[1:] < offsets[:-1]) | (offsets[1:] > self.nbytes)
        at = 0
        for stop in [*np.flatnonzero(wrong).tolist(), end - start]:
            for low, high in runs(offsets[at : stop + 1]):
                yield Piece(
                    self._bytes(offsets[at + low], offsets[at + high]),
                    _from_0(offsets, at, low, high),
                    start + at + low,
                )
            if stop < end - start:
                low, high = offsets[stop : stop + 2].tolist()
                on_bad(
                    start + stop,
                    f"it should fill the bytes {low} to {high} of {self.nbytes}, behind {self.table_nbytes}",
                )
            at = stop + 1

    def _offsets(self, start: int, end: int) -> Offsets:
        self.file.seek(4 * (start + 1))
        data = self.file.read(4 * (end - start + 1))
        return np.frombuffer(data, "<u4").astype(np.int64)

    def _bytes(self, start: int, end: int) -> Bytes:
        self.file.seek(int(start))
        data = self.file.read(int(end - start))
        if len(data) < end - start:
            raise TableError(f"it is cut short: bytes {start} to {end} are expected, {len(data)} are there")
        return np.frombuffer(data, np.uint8)


def _from_0(offsets: Offsets, at: int, low: int, high: int) -> Offsets:
    found: Offsets = offsets[at + low : at + high + 1] - offsets[at + low]
    return found


def runs(offsets: Offsets) -> Iterator[tuple[int, int]]:
    """Cut items into runs of about `PIECE_NBYTES`.

    Args:
        offsets: (n + 1) Where each begins, then where the last one ends; none for no item.

    Yields:
        The first item of a run, and the one behind its last.
    """
    low, count = 0, len(offsets) - 1
    while low < count:
        high = int(np.searchsorted(offsets, offsets[low] + PIECE_NBYTES, "right")) - 1
        high = min(max(high, low + 1), count)
        yield low, high
        low = high
