"""Lend buffers of one size again and again."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

# Memory comes in slabs, which numpy asks huge pages for from 4 MiB on: a fresh buffer of 256 KiB alone cost 64 page
# faults, 60 to 150 us, and a frame of JPEGs decompresses in less; rows gathered from all over them miss the TLB less.
_FIRST_SLAB_NBYTES = 4 * 2**20
_LARGEST_SLAB_NBYTES = 32 * 2**20
_MOST_BUFFERS = 1024  # of one slab: tiny buffers need no huge pages
# Below, malloc has memory at hand that was touched before; from here on it gives back each piece, to be zeroed anew.
_LEAST_NBYTES = 2**16
_CLASS_BITS = 4  # eight sizes an octave: at most an eighth is wasted
_Bytes = npt.NDArray[np.uint8]


Make = Callable[[tuple[int, ...]], _Bytes]
"""Return bytes in some shape, whose content is undefined."""


def _plain(shape: tuple[int, ...]) -> _Bytes:
    return np.empty(shape, np.uint8)


class _Loan(weakref.ref[_Bytes]):
    """Know the buffer behind the array that is lent."""

    __slots__ = ("buffer",)
    buffer: _Bytes


class ArrayPool:
    """Lend arrays of any size, their memory used again. Safe to share between threads.

    Args:
        keep: How many free buffers of each size class to keep; None for all, which then come in slabs.
        make: Makes the memory.
    """

    __slots__ = ("_keep", "_make", "_pools")

    def __init__(self, keep: int | None = None, make: Make | None = None) -> None:
        self._keep = keep
        self._make = make
        self._pools: dict[int, BufferPool] = {}

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Lend an array as `numpy.empty` makes one; it comes back when the last view of it dies."""
        kind = np.dtype(dtype)
        nbytes = kind.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
        if nbytes < _LEAST_NBYTES:
            return np.empty(shape, kind)
        step = 1 << (nbytes.bit_length() - _CLASS_BITS)
        size = -(-nbytes // step) * step
        pool = self._pools.get(size)
        if pool is None:
            pool = self._pools.setdefault(size, BufferPool(size, self._keep, self._make))
        return np.frombuffer(pool.take(nbytes), kind).reshape(shape)


class BufferPool:
    """Lend buffers, and take each back when the last view of it dies. Safe to share between threads.

    Unless told how many to keep, it holds as much memory as was ever lent at once, until it is dropped.

    Args:
        nbytes: The size of the buffers; longer ones are made afresh.
        keep: How many free ones to keep; None for all, which then come in slabs.
        make: Makes the memory; None for `numpy.empty`.
    """

    __slots__ = ("_free", "_keep", "_loans", "_make", "_nbytes", "_slab_nbytes")

    def __init__(self, nbytes: int, keep: int | None = None, make: Make | None = None) -> None:
        self._make = make or _plain
        self._nbytes = nbytes
        self._keep = keep
        self._slab_nbytes = _FIRST_SLAB_NBYTES
        self._free: list[_Bytes] = []
        self._loans: dict[int, _Loan] = {}

    @property
    def free(self) -> int:
        """How many buffers wait to be lent."""
        return len(self._free)

    def take(self, nbytes: int) -> memoryview:
        """Lend a writable view of so many bytes, whose content is undefined.

        The view, and each that is made from it (a slice, an array by `numpy.frombuffer`), keeps the bytes from being
        lent again.
        """
        if nbytes > self._nbytes:
            return memoryview(bytearray(nbytes))
        try:
            buffer = self._free.pop()
        except IndexError:
            buffer = self._grow()
        # A new array for each loan: every memoryview made from it, or from another of it, holds it, so its death is
        # that of the last view. The death of a memoryview would say nothing of its slices.
        array = buffer[:nbytes]
        loan = _Loan(array, cast("Callable[[weakref.ref[_Bytes]], None]", self._give_back))
        loan.buffer = buffer
        self._loans[id(loan)] = loan  # by id: a weak reference hashes what it refers to, and arrays are not hashable
        return array.data

    def _grow(self) -> _Bytes:
        if self._keep is not None:
            return self._make((self._nbytes,))
        count = min(max(1, self._slab_nbytes // self._nbytes), _MOST_BUFFERS)
        self._slab_nbytes = min(2 * self._slab_nbytes, _LARGEST_SLAB_NBYTES)
        first: _Bytes
        first, *rest = self._make((count, self._nbytes))
        self._free += rest
        return first

    def _give_back(self, loan: _Loan) -> None:
        del self._loans[id(loan)]
        if self._keep is None or len(self._free) < self._keep:
            self._free.append(loan.buffer)
