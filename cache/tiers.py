"""Put extents into tiers and find them there, the fastest first."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from datafeed.buffers import Make
from datafeed.cache.config import Cache
from datafeed.cache.disk import DiskTier
from datafeed.cache.entry import HEADER_NBYTES, ExtentKey, is_whole
from datafeed.cache.extents import Extents
from datafeed.cache.files import Descriptor
from datafeed.cache.memory import HostTier, Packer
from datafeed.errors import ConfigError
from datafeed.localstore import LocalStore
from datafeed.reader import BlockReader
from datafeed.sizes import format_size

_ALONE_S = 120.0  # until an extent that another process fetches is fetched here too
_log = logging.getLogger("datafeed.cache")


@dataclass(frozen=True, slots=True)
class Found:
    """Hold an extent that a disk tier keeps.

    Args:
        tier: The tier.
        file: Its open entry.
    """

    tier: DiskTier
    file: Descriptor


class Tiers:
    """Hold the tiers of one reader in one process. Safe to share between threads.

    Args:
        cache: Which there are.
        blocks: What reads the dataset.
        extents: Its extents.
        reserved: Bytes of memory that what is in flight takes from the host tier's budget.
        make: Makes the host tier's memory; None for plain memory.

    Raises:
        ConfigError: A budget is too small, or a directory is not there.
    """

    def __init__(
        self, cache: Cache, blocks: BlockReader, extents: Extents, reserved: int, make: Make | None = None
    ) -> None:
        self.extents = extents
        self.disks = [
            DiskTier(name, options)
            for name, options in cache.disks().items()
            if not _left_out(blocks, name, options.path)
        ]
        about = extents.about()
        for disk in self.disks:
            check_budget(disk.name, disk.options.budget, extents)
            disk.read_by(blocks.manifest.content_id, None)
            disk.describe(blocks.manifest.content_id, about)
        self.host = _host(cache, extents, reserved, Packer(blocks.manifest.schema, make))
        # Where the disks hold all of it, what memory holds is on a disk too: the next run finds it, and other ranks do.
        stored = extents.nbytes + len(extents) * HEADER_NBYTES
        self._keeps_all = cache.policy == "lru" or sum(disk.options.budget for disk in self.disks) >= stored
        self._promotes = True

    def find(self, key: ExtentKey) -> Found | None:
        """Find an extent on a disk."""
        for position, disk in enumerate(self.disks):
            file = disk.find(key)
            if file is not None:
                if self.host is not None:
                    self.host.admit(key.number, int(self.extents.raw[key.number]), copied=True)
                if position and self._keeps_all and self._promotes:
                    self._promote(key, disk, file, self.disks[:position])
                return Found(disk, file)
        return None

    def _promote(self, key: ExtentKey, disk: DiskTier, file: Descriptor, faster: list[DiskTier]) -> None:
        """Copy an extent to a faster disk; only where slower ones hold all of the dataset, since a copy takes room."""
        entry = memoryview(bytearray(key.file_nbytes))
        try:
            whole = disk.read_into(file, entry, 0) == key.file_nbytes
        except OSError:  # which the read that follows meets, and tells
            return
        data = entry[HEADER_NBYTES:]
        if whole and is_whole(bytes(entry[:HEADER_NBYTES]), data):
            self._promotes = any(other.admit(key, data) for other in faster)

    def place(self, key: ExtentKey, data: memoryview) -> None:
        """Put an extent that came from the store where the policy wants it."""
        raw = int(self.extents.raw[key.number])
        if not self._keeps_all and self.host is not None and self.host.admit(key.number, raw, copied=False):
            return
        kept = any(disk.admit(key, data) for disk in self.disks)
        if self._keeps_all and self.host is not None:
            self.host.admit(key.number, raw, copied=kept)

    def discard(self, key: ExtentKey) -> None:
        """Delete an extent from the disks: what the store gave was wrong."""
        for disk in self.disks:
            disk.discard(key)

    @contextmanager
    def alone(self, key: ExtentKey) -> Iterator[None]:
        """Hold an extent's lock among the processes that share the fastest disk."""
        if not self.disks:
            yield
            return
        with self.disks[0].alone(key, _ALONE_S):
            yield

    def close(self) -> None:
        """Leave the disks."""
        for disk in self.disks:
            disk.close()


def check_budgets(cache: Cache, extents: Extents, reserved: int) -> None:
    """Check those budgets of a cache that are given as bytes, wherever its tiers are.

    Args:
        cache: The cache.
        extents: Those of the dataset.
        reserved: As in `Tiers`.

    Raises:
        ConfigError: One is too small.
    """
    for name, budget in cache.budgets().items():
        if name == "host":
            _check_host(cache, budget, extents, reserved)
        else:
            check_budget(name, budget, extents)


def check_budget(name: str, budget: int, extents: Extents) -> None:
    """Check that a disk tier can hold any extent of a dataset.

    Raises:
        ConfigError: Its budget is too small.
    """
    least = extents.largest + HEADER_NBYTES
    if budget < least:
        raise ConfigError(
            f"{name}: its budget of {format_size(budget)} is below the largest extent of the "
            f"dataset: give at least {format_size(least)}"
        )


def reads_in_place(blocks: BlockReader, path: str) -> bool:
    """Tell whether a dataset is read where it is: it is local, and on the volume that a tier's directory is on."""
    store = blocks.store
    return isinstance(store, LocalStore) and os.stat(store.url).st_dev == os.stat(path).st_dev


def _left_out(blocks: BlockReader, name: str, path: str) -> bool:
    left_out = reads_in_place(blocks, path)
    if left_out:
        _log.info("%s is read where it is: the %s cache is on the same volume", blocks.store.url, name)
    return left_out


def _host(cache: Cache, extents: Extents, reserved: int, packer: Packer) -> HostTier | None:
    budget = cache.host_nbytes()
    if not budget:
        return None
    _check_host(cache, budget, extents, reserved)
    return HostTier(budget - reserved, cache.policy, packer.pack)


def _check_host(cache: Cache, budget: int, extents: Extents, reserved: int) -> None:
    largest = int(extents.raw.max(initial=0))
    if budget < reserved + largest:
        raise ConfigError(
            f"host={cache.host!r} is too small: what is in flight from the store takes {format_size(reserved)}, and "
            f"the largest extent {format_size(largest)} decoded: give at least {format_size(reserved + largest)}"
        )
