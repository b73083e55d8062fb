"""Fetch extents to a disk tier ahead of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from datafeed.cache.disk import DiskTier
from datafeed.cache.extents import Extents
from datafeed.reader import BlockReader

Outcome = Literal["fetched", "there", "no room"]
_ALONE_S = 120.0


@dataclass(slots=True)
class StageCounts:
    """Count what became of the extents, and the stored bytes of those fetched."""

    fetched: int = 0
    fetched_nbytes: int = 0
    there: int = 0
    no_room: int = 0


def stage(
    blocks: BlockReader,
    disk: DiskTier,
    numbers: Sequence[int],
    on_done: Callable[[int, int, Outcome], None],
    *,
    threads: int = 16,
) -> StageCounts:
    """Fetch extents, in turn, until all are there or one finds no room. What is there already is not fetched again.

    Args:
        blocks: What reads the dataset.
        disk: The tier.
        numbers: The extents.
        on_done: Called after each with its number, its stored bytes and what became of it; one call at a time.
        threads: How many are fetched at once.

    Returns:
        What was done.

    Raises:
        CorruptData: The store does not give what was indexed.
        ShardMissing: A shard is gone.
    """
    staging = _Stage(blocks, disk, on_done)
    with ThreadPoolExecutor(threads, thread_name_prefix="datafeed-stage") as pool:
        try:
            for _ in pool.map(staging.one, numbers):
                pass
        finally:
            staging.ended = True
    return staging.counts


class _Stage:
    def __init__(self, blocks: BlockReader, disk: DiskTier, on_done: Callable[[int, int, Outcome], None]) -> None:
        self.counts = StageCounts()
        self.ended = False
        self._blocks = blocks
        self._extents = Extents(blocks)
        self._disk = disk
        self._on_done = on_done
        self._lock = threading.Lock()
        disk.read_by(blocks.manifest.dataset_id, None)

    def one(self, number: int) -> None:
        if self.ended:
            return
        key = self._extents.key(number)
        outcome: Outcome = "there"
        with self._disk.alone(key, _ALONE_S):
            if self._disk.find(key) is None:
                outcome = "fetched" if self._fetch(number) else "no room"
        with self._lock:
            if outcome == "no room":
                self.ended = True
            self.counts.fetched += outcome == "fetched"
            self.counts.fetched_nbytes += key.nbytes if outcome == "fetched" else 0
            self.counts.there += outcome == "there"
            self.counts.no_room += outcome == "no room"
            self._on_done(number, key.nbytes, outcome)

    def _fetch(self, number: int) -> bool:
        """Fetch and keep an extent; all of it is decoded, since nobody else does before it counts as good."""
        key = self._extents.key(number)
        start, stop = self._extents.blocks(number)
        data = memoryview(bytearray(key.nbytes))
        shard = int(self._blocks.index.shard[start])
        self._blocks.store.read_into(self._blocks.names[shard], key.offset, data)
        self._blocks.decode(data, start, stop)
        return self._disk.admit(key, data)
