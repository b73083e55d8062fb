"""Hold the extents that are in use or due soon, each fetched once, ahead of those who decode them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from datafeed.buffers import BufferPool
from datafeed.cache.extents import Extents
from datafeed.cache.tiers import Found, Tiers
from datafeed.reader import BlockReader

_THREADS = 32  # GETs in flight: at 120 ms and 2 MiB each they carry 560 MB/s; fast stores need a few
_IDLE_FILES = 64  # open entries that nobody needs just now
_WAIT_S = 600.0  # for another thread's fetch, which has deadlines of its own
_JOIN_S = 5.0


@dataclass(slots=True, eq=False)
class Staged:
    """Hold an extent: its stored bytes, or the entry of a disk tier that has them."""

    extent: int
    done: threading.Event = field(default_factory=threading.Event)
    data: memoryview | None = None
    found: Found | None = None
    error: BaseException | None = None
    wrong: bool = False
    """Whether somebody found its bytes wrong, and let go of it."""
    mending: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True, eq=False)
class Demand:
    """Hold what one epoch still needs.

    Args:
        left: By extent, blocks that it will still load; None where it returns to any at any time.
    """

    left: npt.NDArray[np.int64] | None
    pending: dict[int, int] = field(default_factory=dict)
    """By extent, blocks that are due soon."""


@dataclass(slots=True)
class Fetches:
    """Count what came from the store."""

    extents: int = 0
    nbytes: int = 0
    refetched: int = 0


class Staging:
    """Fetch extents ahead on threads of its own, and give them out. Safe to share between threads.

    Args:
        blocks: What reads the dataset.
        extents: Its extents.
        tiers: Where they are looked for first, and put.
        limit: Bytes from the store that are held, beyond which nothing is fetched ahead.
    """

    def __init__(self, blocks: BlockReader, extents: Extents, tiers: Tiers, limit: int) -> None:
        self._blocks = blocks
        self._extents = extents
        self._tiers = tiers
        self._limit = limit
        self._take = BufferPool(max(1, extents.largest)).take
        self._staged: OrderedDict[int, Staged] = OrderedDict()
        self._nbytes = 0
        self._demands: list[Demand] = []
        self._queue: deque[int] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        # Threads that may take the next extent at once: one suffices until it turns to the store and has to wait.
        self._looking: set[threading.Thread] = set()
        self._seen = np.zeros(len(extents), np.bool_)
        self.fetches = Fetches()

    def begin(self, demand: Demand) -> None:
        """Take note of an epoch."""
        with self._changed:
            self._demands.append(demand)

    def end(self, demand: Demand) -> None:
        """Forget an epoch; with the last one the threads end, and what is held goes."""
        with self._changed:
            if demand not in self._demands:
                return
            self._demands.remove(demand)
            demand.pending.clear()
            self._seen[:] = False
            if self._demands:
                return
            self._queue.clear()
            threads, self._threads = self._threads, []
            for extent in [extent for extent, staged in self._staged.items() if staged.done.is_set()]:
                self._drop(extent)
            self._changed.notify_all()
        end = time.monotonic() + _JOIN_S  # a GET that hangs ends by its own deadline, and its thread with it
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0, end - time.monotonic()))

    def announce(self, demand: Demand, runs: Sequence[tuple[int, int]]) -> None:
        """Fetch ahead what falls due soon.

        Args:
            demand: Whose epoch needs it.
            runs: Runs of blocks of one extent each, in the order in which they fall due.
        """
        host = self._tiers.host
        with self._changed:
            for start, stop in runs:
                extent = self._extents.of(start)
                known = any(extent in other.pending for other in self._demands)
                demand.pending[extent] = demand.pending.get(extent, 0) + stop - start
                held = host is not None and host.get(start, stop, extent) is not None
                if not known and not held and extent not in self._staged:
                    self._queue.append(extent)
            self._wake()

    def get(self, extent: int) -> Staged:
        """Return an extent, which this thread fetches unless another does."""
        with self._changed:
            staged = self._staged.get(extent)
            mine = staged is None
            if staged is None:
                staged = self._claim(extent)
        if mine:
            self._fill(staged)
        elif not staged.done.wait(_WAIT_S):
            raise TimeoutError(f"extent {extent}: another thread fetched it for {_WAIT_S:.0f} s")
        if staged.error is not None:
            raise staged.error
        return staged

    def loaded(self, demand: Demand | None, loads: Sequence[tuple[int, int]]) -> None:
        """Note that blocks were loaded: what nobody needs any more goes.

        Args:
            demand: Whose epoch needed them.
            loads: Extents, each with how many blocks of it.
        """
        with self._changed:
            known = demand in self._demands  # not where this process was forked within an epoch
            for extent, blocks in loads:
                if demand is not None and known:
                    _count_down(demand, extent, blocks)
                staged = self._staged.get(extent)
                if staged is not None and staged.done.is_set() and not self._is_pending(extent):
                    self._release(extent, known=known)

    def _release(self, extent: int, *, known: bool) -> None:
        """Let go of an extent that no epoch needs soon, where none needs it later, or there is no room."""
        if known and not self._is_wanted(extent):
            self._drop(extent)
            return
        self._staged.move_to_end(extent)
        if self._nbytes > self._limit or len(self._staged) > _IDLE_FILES:
            self._trim()

    def forget(self, staged: Staged) -> None:
        """Let go of an extent whose bytes are wrong."""
        with self._changed:
            if self._staged.get(staged.extent) is staged:
                self._drop(staged.extent)

    def _claim(self, extent: int) -> Staged:
        """Note that the caller fills an extent. The lock is held."""
        staged = self._staged[extent] = Staged(extent)
        return staged

    def _fill(self, staged: Staged) -> None:
        """Find or fetch an extent that the caller claimed."""
        try:
            self._find_or_fetch(staged)
        except BaseException as exc:
            staged.error = exc
            self.forget(staged)
            raise
        finally:
            staged.done.set()

    def _find_or_fetch(self, staged: Staged) -> None:
        tiers, key = self._tiers, self._extents.key(staged.extent)
        staged.found = tiers.find(key)
        if staged.found is not None:
            return
        with tiers.alone(key):
            staged.found = tiers.find(key)  # another process was faster
            if staged.found is not None:
                return
            data = self._take(key.nbytes)
            with self._changed:
                self._nbytes += key.nbytes
                staged.data = data
                self._looking.discard(threading.current_thread())
                self._wake()
            shard = int(self._blocks.index.shard[self._extents.blocks(staged.extent)[0]])
            self._blocks.store.read_into(self._blocks.names[shard], key.offset, data)
            with self._changed:
                self.fetches.extents += 1
                self.fetches.nbytes += key.nbytes
                self.fetches.refetched += bool(self._seen[staged.extent])
                self._seen[staged.extent] = True
            self._extents.check(staged.extent, data)
            tiers.place(key, data)

    def _drop(self, extent: int) -> None:
        staged = self._staged.pop(extent)
        if staged.data is not None:
            self._nbytes -= staged.data.nbytes
            self._wake()

    def _trim(self) -> None:
        """Let go of what nobody needs just now, the longest unused first."""
        files = len(self._staged) - _IDLE_FILES
        for extent, staged in list(self._staged.items()):
            if not staged.done.is_set() or self._is_pending(extent):
                continue
            if self._nbytes > self._limit or (staged.data is None and files > 0):
                self._drop(extent)
                files -= 1

    def _is_pending(self, extent: int) -> bool:
        return any(extent in demand.pending for demand in self._demands)

    def _is_wanted(self, extent: int) -> bool:
        return any(demand.left is None or demand.left[extent] > 0 for demand in self._demands)

    def _wake(self) -> None:
        """Let a thread see to the queue, where none does. The lock is held."""
        if not self._queue or self._looking or self._nbytes >= self._limit:
            return
        if self._idle:
            self._changed.notify()
        elif len(self._threads) < _THREADS:
            thread = threading.Thread(target=self._fetch_ahead, name="datafeed-fetch", daemon=True)
            self._threads.append(thread)
            self._looking.add(thread)
            thread.start()

    def _fetch_ahead(self) -> None:
        while (staged := self._next()) is not None:
            with suppress(Exception):  # whoever needs it meets the same error, and tells it
                self._fill(staged)

    def _next(self) -> Staged | None:
        """Wait for the next extent that is to be fetched ahead, and claim it; None when the thread is to end.

        One that is claimed later may have been read and dropped meanwhile, and would be fetched twice.
        """
        with self._changed:
            me = threading.current_thread()
            while me in self._threads:
                self._looking.add(me)
                while self._queue and self._nbytes < self._limit:
                    extent = self._queue.popleft()
                    if extent not in self._staged and self._is_pending(extent):
                        return self._claim(extent)
                self._looking.discard(me)
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            self._looking.discard(me)
        return None


def _count_down(demand: Demand, extent: int, blocks: int) -> None:
    pending = demand.pending.get(extent, 0) - blocks
    if pending > 0:
        demand.pending[extent] = pending
    else:
        demand.pending.pop(extent, None)
    if demand.left is not None:
        demand.left[extent] -= blocks
