"""Read rows of arrays that lie in .npy and .npz files."""

from __future__ import annotations

import itertools
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from datafeed.columns import Array
from datafeed.converters.files import Files
from datafeed.converters.npy_header import Header
from datafeed.converters.source import Numbers, Stamp

Bytes = npt.NDArray[np.uint8]

READ_NBYTES = 2**20  # of a remote file, behind the rows that are asked for
PAGE_NBYTES = 4096  # what a disk reads at least: rows that lie no further apart are read as one
SPAN_NBYTES = 2**20
INFLATED_NBYTES = 2**28
"""What a compressed array in Fortran order may take: its first row is whole when all of it is unpacked."""

Rows = Callable[[int, int], Array]
"""Reads rows start <= i < end of an array, which the caller may keep."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Say where an array lies.

    Args:
        file: Its file.
        header: What its header says.
        start: Where its numbers begin: in the file, or in the unpacked member.
        member: Its name in a zip file; empty elsewhere.
        packed: Whether that is compressed.
    """

    file: Stamp
    header: Header
    start: int
    member: str = ""
    packed: bool = False

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.header.shape[0]

    @property
    def row_nbytes(self) -> int:
        """The size of a row."""
        return math.prod(self.header.shape[1:]) * self.header.dtype.itemsize

    @property
    def scattered(self) -> bool:
        """Whether the values of a row lie far apart."""
        return self.header.fortran and len(self.header.shape) > 1


@contextmanager
def opened(files: Files, array: Stored, start: int, end: int) -> Iterator[Rows]:
    """Open an array to read some rows, in order.

    Args:
        files: What reaches its file.
        array: The array.
        start: The first row.
        end: The one behind the last.

    Yields:
        What reads them. Opening and reading raise `npz.ZIP_ERRORS`.
    """
    with files.open(array.file.path, read_ahead=READ_NBYTES) as file:
        if array.packed:
            with zipfile.ZipFile(file) as archive, archive.open(array.member) as member:
                _filled(member, array.start)
                yield _unpacked(member, array)
        elif array.scattered:
            block = _block(file, array, start, end)
            yield lambda low, high: block[low - start : high - start]
        else:
            yield lambda low, high: _run(file, array, low, high)


def pick(file: int, array: Stored, rows: Numbers) -> Array:
    """Read rows from anywhere in an array.

    Args:
        file: Its local file, open; the array is neither packed nor scattered.
        array: The array.
        rows: (n,) The rows' numbers, ascending.

    Returns:
        (n, *shape) The rows.

    Raises:
        EOFError: The file ends too early.
        OSError: It cannot be read.
    """
    size = array.row_nbytes
    out = np.empty((len(rows), size), np.uint8)
    spans = [(low, high, int(rows[low]), int(rows[high - 1]) + 1) for low, high in _spans(rows, size)]
    for _, _, start, end in spans:  # so that a disk has many requests at once
        os.posix_fadvise(file, array.start + start * size, (end - start) * size, os.POSIX_FADV_WILLNEED)
    for low, high, start, end in spans:
        if high - low == end - start:
            _read_at(file, out[low:high], array.start + start * size)
        else:
            span = np.empty((end - start, size), np.uint8)
            _read_at(file, span, array.start + start * size)
            out[low:high] = span[rows[low:high] - start]
    return _shaped(out, array)


def _spans(rows: Numbers, size: int) -> Iterator[tuple[int, int]]:
    """Yield runs of rows that lie close to each other, by their places among the rows."""
    apart = np.diff(rows) > 1 + PAGE_NBYTES // size
    bounds = [0, *(np.flatnonzero(apart) + 1).tolist(), len(rows)]
    most = max(SPAN_NBYTES // size, 1)
    for low, end in itertools.pairwise(bounds):
        start = low
        while rows[end - 1] - rows[start] >= most:
            cut = int(np.searchsorted(rows, rows[start] + most))
            yield start, cut
            start = cut
        yield start, end


def _read_at(file: int, out: Bytes, at: int) -> None:
    view = out.reshape(-1).data
    while view:
        count = os.preadv(file, [view], at)
        if not count:
            raise EOFError("it ends too early")
        view, at = view[count:], at + count


def _run(file: BinaryIO, array: Stored, start: int, end: int) -> Array:
    file.seek(array.start + start * array.row_nbytes)
    return _shaped(_filled(file, (end - start) * array.row_nbytes), array)


def _shaped(data: Bytes, array: Stored) -> Array:
    return data.view(array.header.dtype).reshape(-1, *array.header.shape[1:])


def _block(file: BinaryIO, array: Stored, start: int, end: int) -> Array:
    """Return rows of an array in Fortran order: a run of values for each place in a row."""
    rows, size = array.rows, array.header.dtype.itemsize
    runs = np.empty((array.row_nbytes // size, (end - start) * size), np.uint8)
    for place, run in enumerate(runs):
        file.seek(array.start + (place * rows + start) * size)
        _fill(file, run)
    return _turned(runs, array)


def _turned(data: Bytes, array: Stored) -> Array:
    """Return the bytes of an array in Fortran order as that array."""
    return data.view(array.header.dtype).reshape(*array.header.shape[:0:-1], -1).T


def _unpacked(member: IO[bytes], array: Stored) -> Rows:
    """Return what reads a compressed array from front to back."""
    if array.scattered:
        whole = _turned(_filled(member, array.header.data_nbytes), array)
        return lambda low, high: whole[low:high]
    return lambda low, high: _shaped(_filled(member, (high - low) * array.row_nbytes), array)


def _filled(file: IO[bytes], nbytes: int) -> Bytes:
    out = np.empty(nbytes, np.uint8)
    _fill(file, out)
    return out


def _fill(file: IO[bytes], out: Bytes) -> None:
    view = out.data
    while view:
        count = cast("BinaryIO", file).readinto(view)  # type: ignore[attr-defined]  # every file that is opened here has it
        if not count:
            raise EOFError("it ends too early")
        view = view[count:]
