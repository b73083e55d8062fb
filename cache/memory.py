"""Keep decoded and parsed blocks in the memory of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from datafeed._native import Block, Parser
from datafeed.buffers import ArrayPool, Make
from datafeed.cache.policy import Contents, Policy
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema


class Packer:
    """Pack blocks of one schema. Safe to share between threads.

    Args:
        schema: All features of the dataset, so that a batch of any of them is gathered from the same blocks.
        make: Makes the memory that packed blocks take; None for plain memory.
    """

    def __init__(self, schema: Schema, make: Make | None = None) -> None:
        self._parser = _parser(tuple(schema.features))
        self._arrays = ArrayPool(make=make)

    def pack(self, block: Block) -> Block:
        """Return a block packed.

        One that would take more stays as it is; so does one with a record that does not fit the schema, of which those
        who need that record are told.
        """
        try:
            packed = self._parser.pack(block, self._take)
        except SchemaError:
            return block
        return packed if packed.nbytes <= block.nbytes else block

    def _take(self, nbytes: int) -> memoryview:
        return self._arrays.empty(nbytes, np.uint8).data


@lru_cache(maxsize=64)
def _parser(features: tuple[Feature, ...]) -> Parser:
    """Return the parser of a schema, one for all its datasets: a mix of them gathers from blocks of all."""
    return Parser(features)


class HostTier:
    """Keep blocks, by extent. Safe to share between threads.

    An extent is admitted or evicted as a whole, with the bytes that all its blocks take decoded; its blocks come one by
    one, as they are decoded, and give room back where they take less once they are packed. A block that somebody uses
    stays valid when its extent is evicted.

    Args:
        budget: Bytes.
        policy: What is kept.
        pack: Turns a block into the form in which it is kept; called on any thread.

    Attributes:
        evicted: Extents that gave way.
    """

    def __init__(self, budget: int, policy: Policy, pack: Callable[[Block], Block]) -> None:
        self.evicted = 0
        self._pack = pack
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

    def put(self, extent: int, start: int, blocks: list[Block]) -> list[Block]:
        """Keep consecutive blocks of an extent, if it was admitted and is still here; return them as they are kept."""
        if extent not in self._contents:  # read without the lock: the usual answer where the tier is full
            return blocks
        packed = [self._pack(block) for block in blocks]
        with self._lock:
            if extent in self._contents:
                numbers = self._numbers.setdefault(extent, [])
                for number, block, kept in zip(range(start, start + len(blocks)), blocks, packed, strict=True):
                    if number not in self._blocks:
                        self._blocks[number] = kept
                        numbers.append(number)
                        self._contents.grow(extent, kept.nbytes - block.nbytes)
        return packed
