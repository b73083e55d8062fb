"""Keep decoded blocks in the memory of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from datafeed._native import Block
from datafeed.cache.policy import Contents, Policy


class HostTier:
    """Keep decoded blocks, by extent. Safe to share between threads.

    An extent is admitted or evicted as a whole, with the bytes that all its blocks take; its blocks come one by one, as
    they are decoded. A block that somebody uses stays valid when its extent is evicted.

    Args:
        budget: Bytes.
        policy: What is kept.

    Attributes:
        evicted: Extents that gave way.
    """

    def __init__(self, budget: int, policy: Policy) -> None:
        self.evicted = 0
        self._policy = policy
        self._contents: Contents[int] = Contents(budget, policy)
        self._blocks: dict[int, Block] = {}
        self._numbers: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """The bytes that are taken, also by blocks still to come."""
        return self._contents.nbytes

    def get(self, start: int, stop: int, extent: int) -> list[Block] | None:
        """Return consecutive blocks of an extent, if all of them are here."""
        get = self._blocks.get  # one dict look-up is atomic: no lock
        found = [block for number in range(start, stop) if (block := get(number)) is not None]
        if len(found) < stop - start:
            return None
        if self._policy == "lru":
            with self._lock:
                self._contents.use(extent)
        return found

    def admit(self, extent: int, nbytes: int, *, copied: bool) -> bool:
        """Take room for an extent, if the policy finds some.

        Args:
            extent: Its number.
            nbytes: What its blocks take, decoded.
            copied: Whether a disk tier holds it too.

        Returns:
            Whether its blocks are kept when they come.
        """
        with self._lock:
            if extent in self._contents:
                return True
            evicted = self._contents.admit(extent, nbytes, copied=copied)
            for old in evicted or ():
                self.evicted += 1
                for number in self._numbers.pop(old, ()):
                    del self._blocks[number]
            return evicted is not None

    def put(self, extent: int, start: int, blocks: Sequence[Block]) -> None:
        """Keep consecutive blocks of an extent, if it was admitted and is still here."""
        if extent not in self._contents:  # read without the lock: the usual answer where the tier is full
            return
        with self._lock:
            if extent in self._contents:
                numbers = self._numbers.setdefault(extent, [])
                for number, block in enumerate(blocks, start):
                    if number not in self._blocks:
                        self._blocks[number] = block
                        numbers.append(number)
