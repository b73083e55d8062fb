"""Decide what a byte-budgeted cache keeps: the least recently used goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(Generic[K, V]):
    """Keep values up to a number of bytes. A pure data structure: it does no I/O and takes no lock.

    Args:
        budget: Bytes, at least 0; a value larger than the whole budget is not kept.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return a value, which becomes the most recently used; None if it is not kept."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, nbytes: int) -> list[tuple[K, V]]:
        """Keep a value.

        Args:
            key: Its key; a value already kept under it is replaced.
            value: The value.
            nbytes: Its size, not negative.

        Returns:
            What was evicted for it, least recently used first; a replaced value is not among it.
        """
        self.discard(key)
        if nbytes > self.budget:
            return []
        self._entries[key] = (value, nbytes)
        self.nbytes += nbytes
        evicted = []
        while self.nbytes > self.budget:
            old, (old_value, old_nbytes) = self._entries.popitem(last=False)
            self.nbytes -= old_nbytes
            evicted.append((old, old_value))
        return evicted

    def discard(self, key: K) -> None:
        """Forget a value, if it is kept."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.nbytes -= entry[1]
