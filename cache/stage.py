"""Fetch extents to a disk tier ahead of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from datafeed.cache.disk import DiskTier
from datafeed.cache.entry import HEADER_NBYTES
from datafeed.cache.extents import Extents
from datafeed.cache.tiers import check_budget
from datafeed.reader import BlockReader

Outcome = Literal["fetched", "there", "no room"]
_ALONE_S = 120.0
_JOIN_S = 5.0  # for what is being fetched when it ends early; a GET that hangs is left to the process's end


@dataclass(slots=True)
class StageCounts:
    """Count what became of the extents, and the stored bytes of those fetched."""

    fetched: int = 0
    fetched_nbytes: int = 0
    there: int = 0
    no_room: int = 0


@dataclass(frozen=True, slots=True)
class StagePlan:
    """Say what is to be fetched.

    Args:
        numbers: The extents that are not there, in turn.
        nbytes: What their files will take.
        there: How many are there already.
        room: How many bytes more can be held.
    """

    numbers: tuple[int, ...]
    nbytes: int
    there: int
    room: int

    @property
    def fits(self) -> bool:
        """Whether all of it can be held."""
        return self.nbytes <= self.room

    def cut(self, extents: Extents) -> StagePlan:
        """Return the part that can be held: the first extents."""
        left, numbers = self.room, []
        for number in self.numbers:
            left -= int(extents.stored[number]) + HEADER_NBYTES
            if left < 0:
                break
            numbers.append(number)
        nbytes = sum(int(extents.stored[number]) + HEADER_NBYTES for number in numbers)
        return StagePlan(tuple(numbers), nbytes, self.there, self.room)


def plan_stage(extents: Extents, disk: DiskTier, numbers: Iterable[int]) -> StagePlan:
    """Compare what is wanted with what is there, and with the room that there is.

    Args:
        extents: Those of the dataset.
        disk: The tier.
        numbers: Which of them are wanted.

    Raises:
        ConfigError: The tier's budget is below the largest extent.
        OSError: The volume fails.
    """
    check_budget(disk.name, disk.options.budget, extents)
    if not len(extents):
        return StagePlan((), 0, 0, 0)
    dataset = extents.key(0).dataset
    disk.read_by(dataset, None)
    disk.recount()  # somebody may have removed entries by hand
    held = {int(entry.name): entry.nbytes for entry in disk.entries() if entry.dataset == dataset}
    wanted = list(numbers)
    absent = [number for number in wanted if held.get(number) != int(extents.stored[number]) + HEADER_NBYTES]
    nbytes = sum(int(extents.stored[number]) + HEADER_NBYTES for number in absent)
    return StagePlan(tuple(absent), nbytes, len(wanted) - len(absent), disk.room(dataset))


def stage(
    blocks: BlockReader,
    disk: DiskTier,
    numbers: Iterable[int],
    on_done: Callable[[int, int, Outcome], None],
    *,
    threads: int = 16,
) -> StageCounts:
    """Fetch extents, in turn, until all are there or one finds no room. What is there already is not fetched again.

    Interrupted at any moment it leaves whole entries only.

    Args:
        blocks: What reads the dataset.
        disk: The tier.
        numbers: The extents, taken as threads get to them.
        on_done: Called after each with its number, its stored bytes and what became of it; one call at a time.
        threads: How many are fetched at once.

    Returns:
        What was done. With no room it ends early; `disk.fault` says whether the disk is to blame.

    Raises:
        CorruptData: The store does not give what was indexed.
        ShardMissing: A shard is gone.
    """
    staging = _Stage(blocks, disk, numbers, on_done)
    running = 0
    try:
        for _ in range(threads):
            threading.Thread(target=staging.work, name="datafeed-stage", daemon=True).start()
            running += 1
        while running:
            staging.done.acquire()  # not by join(), which after a Ctrl-C takes a thread that runs for one that ended
            running -= 1
    finally:
        staging.ended = True
        end = time.monotonic() + _JOIN_S
        while running and staging.done.acquire(timeout=max(0.0, end - time.monotonic())):
            running -= 1
    if staging.error is not None:
        raise staging.error
    return staging.counts


class _Stage:
    def __init__(
        self,
        blocks: BlockReader,
        disk: DiskTier,
        numbers: Iterable[int],
        on_done: Callable[[int, int, Outcome], None],
    ) -> None:
        self.counts = StageCounts()
        self.ended = False
        self.done = threading.Semaphore(0)  # raised by each thread at its end
        self.error: BaseException | None = None
        self._blocks = blocks
        self._extents = Extents(blocks)
        self._disk = disk
        self._numbers = iter(numbers)
        self._on_done = on_done
        self._lock = threading.Lock()
        disk.read_by(blocks.manifest.content_id, None)
        disk.describe(blocks.manifest.content_id, self._extents.about())

    def work(self) -> None:
        """Fetch one extent after the other; the first error of any thread ends all."""
        try:
            while (number := self._next()) is not None:
                self._one(number)
        except BaseException as exc:  # noqa: BLE001  (raised again where the caller waits)
            with self._lock:
                self.ended = True
                self.error = self.error or exc
        finally:
            self.done.release()

    def _next(self) -> int | None:
        with self._lock:
            return None if self.ended else next(self._numbers, None)

    def _one(self, number: int) -> None:
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
