"""Sum up how well a loader kept its caller fed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from datafeed.cache.stats import TierStats
from datafeed.work import Counters


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """Hold the figures of a loader's newest iterator.

    Attributes:
        samples: Samples handed out.
        batches: Batches handed out.
        wait_s: Seconds that the caller waited for batches (the stall), the first one included.
        step_s: Seconds that the caller spent between batches (its steps).
        first_batch_s: Seconds from `iter` to the first batch.
        blocks: Blocks read and decompressed.
        load_s: Seconds of reading and decompressing, summed over threads.
        gather_s: Seconds of parsing and gathering, summed over threads.
        transform_s: Seconds of decoding images and of transforms, summed over threads.
        tiers: What this process read from each tier of the cache, the fastest first, the store last; empty for a
            local dataset without a cache.
    """

    samples: int = 0
    batches: int = 0
    wait_s: float = 0.0
    step_s: float = 0.0
    first_batch_s: float = 0.0
    blocks: int = 0
    load_s: float = 0.0
    gather_s: float = 0.0
    transform_s: float = 0.0
    tiers: tuple[TierStats, ...] = ()

    @property
    def samples_per_s(self) -> float:
        """Samples a second, waiting and steps together; 0 before the first batch."""
        seconds = self.wait_s + self.step_s
        return self.samples / seconds if seconds else 0.0

    @property
    def stall_percent(self) -> float:
        """The share of time, in percent, that the caller waited; the first batch's start-up is left out."""
        wait_s = self.wait_s - self.first_batch_s
        return 100 * wait_s / (wait_s + self.step_s) if wait_s + self.step_s else 0.0


class Meter:
    """Time the waits and the steps of one caller. Made when the iteration begins."""

    def __init__(self) -> None:
        self._started = self._turned = time.perf_counter()
        self._samples = self._batches = 0
        self._wait_s = self._step_s = self._first_batch_s = 0.0

    def ask(self) -> None:
        """Note that the caller asks for a batch: a step ends, a wait begins."""
        now = time.perf_counter()
        if self._batches:
            self._step_s += now - self._turned
            self._turned = now

    def get(self) -> None:
        """Note that the caller goes on, with a batch or without: the wait ends. All before a first batch is one."""
        now = time.perf_counter()
        self._wait_s += now - self._turned
        self._turned = now

    def count(self, samples: int) -> None:
        """Count a batch that was just got."""
        if not self._batches:
            self._first_batch_s = self._wait_s
        self._batches += 1
        self._samples += samples

    def stats(self, counters: Counters, tiers: tuple[TierStats, ...] = ()) -> LoaderStats:
        """Return the figures.

        Args:
            counters: What the threads did meanwhile.
            tiers: What was read from each tier.
        """
        return LoaderStats(
            samples=self._samples,
            batches=self._batches,
            wait_s=self._wait_s,
            step_s=self._step_s,
            first_batch_s=self._first_batch_s,
            blocks=counters.blocks,
            load_s=counters.load_s,
            gather_s=counters.gather_s,
            transform_s=counters.part_s,
            tiers=tiers,
        )
