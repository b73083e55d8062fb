"""Sum up what came from which tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from datafeed.cache.staging import Fetches
from datafeed.cache.tiers import Tiers


@dataclass(frozen=True, slots=True)
class TierStats:
    """Hold what one process did with one tier.

    Attributes:
        name: "vram", "host", "nvme", "ebs", or "store" for what is behind them.
        blocks: Blocks that were read from it.
        nbytes: What they take as they came from it: decoded from disks and the store, packed from memory.
        admitted: Extents that were put there; for the store, those that were fetched; for "vram", samples.
        admitted_nbytes: Their stored bytes; for "vram", what they take.
        evicted: Extents, for "vram" samples, that gave way to others.
        damaged: Entries that the disk had changed.
        refetched: Extents that were fetched a second time within an epoch.
        samples: Samples that were taken from it, for "vram".
    """

    name: str
    blocks: int = 0
    nbytes: int = 0
    admitted: int = 0
    admitted_nbytes: int = 0
    evicted: int = 0
    damaged: int = 0
    refetched: int = 0
    samples: int = 0

    def since(self, before: TierStats) -> TierStats:
        """Return what was done since an earlier look."""
        counts = {
            field.name: getattr(self, field.name) - getattr(before, field.name)
            for field in fields(self)
            if field.name != "name"
        }
        return TierStats(self.name, **counts)


def sum_up(tiers: Tiers, served: Mapping[str, tuple[int, int]], fetches: Fetches) -> tuple[TierStats, ...]:
    """Return the figures of each tier, the fastest first, the store last.

    Args:
        tiers: The tiers.
        served: By tier, the blocks that were read from it, and what they take.
        fetches: What came from the store.
    """
    found = []
    if tiers.host is not None:
        blocks, nbytes = served.get("host", (0, 0))
        found.append(TierStats("host", blocks, nbytes, evicted=tiers.host.evicted))
    for disk in tiers.disks:
        blocks, nbytes = served.get(disk.name, (0, 0))
        counts = disk.counters
        admitted = (counts.admitted, counts.admitted_nbytes)
        found.append(TierStats(disk.name, blocks, nbytes, *admitted, evicted=disk.evicted, damaged=counts.damaged))
    blocks, nbytes = served.get("store", (0, 0))
    found.append(TierStats("store", blocks, nbytes, fetches.extents, fetches.nbytes, refetched=fetches.refetched))
    return tuple(found)
