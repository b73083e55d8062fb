"""Read blocks through the tiers of a cache."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from datafeed._native import Block, Decoder
from datafeed.buffers import Make
from datafeed.cache.config import Cache
from datafeed.cache.due import Due, Run
from datafeed.cache.entry import HEADER_NBYTES
from datafeed.cache.extents import Extents
from datafeed.cache.memory import HostTier
from datafeed.cache.staging import Demand, Fetches, Staged, Staging
from datafeed.cache.stats import TierStats, sum_up
from datafeed.cache.tiers import Tiers, check_budgets
from datafeed.errors import CorruptData, ShardMissing
from datafeed.localstore import LocalStore
from datafeed.reader import BlockReader

_FAR_EXTENTS = 64  # due soon: at 2 MiB each and 120 ms a GET, enough for 1 GB/s
_STAGED_EXTENTS = 160  # those, and one for each of twice the default lanes whose window ends inside an extent
_FAR_RECORDS = 2**20  # planned ahead: 8 MB
_MOST_STEPS = 4  # planned at a time: the first batches must not wait for the plan of later ones

S = TypeVar("S", bound=Due)


class _State:
    """Hold what one process reads through."""

    def __init__(self, blocks: BlockReader, cache: Cache, extents: Extents, make: Make | None) -> None:
        self.pid = os.getpid()
        self.blocks = blocks
        self.extents = extents
        local = isinstance(blocks.store, LocalStore)
        limit = _staged_nbytes(extents)
        self.tiers = Tiers(cache, blocks, self.extents, _reserved(blocks, cache, extents), make)
        self.served: dict[str, list[int]] = {}
        self.lock = threading.Lock()
        # A local dataset without disk tiers is read where it lies.
        self.staging = Staging(blocks, self.extents, self.tiers, limit) if not local or self.tiers.disks else None

    @cached_property
    def decoder(self) -> Decoder | None:
        """What decodes from entries, in which an extent's blocks begin behind the header; None for plain records."""
        if self.blocks.manifest.codec != "zstd":
            return None
        index = self.blocks.index
        counts = np.diff(self.extents.bounds)
        first = np.repeat(index.offset[self.extents.bounds[:-1]] - HEADER_NBYTES, counts)
        return Decoder(index.offset - first, index.stored, index.raw, index.records, index.checksum)

    def serve(self, name: str, blocks: Sequence[Block]) -> None:
        if not blocks:
            return
        with self.lock:
            counts = self.served.setdefault(name, [0, 0])
            counts[0] += len(blocks)
            counts[1] += sum(block.nbytes for block in blocks)


class TieredReader:
    """Read blocks through tiers. Safe to share between threads, to pickle, and to use in a forked child.

    Args:
        blocks: What reads the dataset without them.
        cache: The tiers.

    Raises:
        ConfigError: At the first use, a budget is too small or a directory is not there.

    Attributes:
        make: Makes the memory of the host tier from its next opening on; None for plain memory.
    """

    def __init__(self, blocks: BlockReader, cache: Cache) -> None:
        self._blocks = blocks
        self._cache = cache
        self.make: Make | None = None
        self._pid = -1
        self._made: _State | None = None
        self._making = threading.Lock()

    def __reduce__(self) -> tuple[type[TieredReader], tuple[BlockReader, Cache]]:
        return TieredReader, (self._blocks, self._cache)

    @cached_property
    def _extents(self) -> Extents:
        return Extents(self._blocks)

    def check(self) -> None:
        """Check the budgets that are given as bytes, without opening the tiers, which may be on another machine.

        Raises:
            ConfigError: One is too small.
        """
        if self._cache.budgets():
            check_budgets(self._cache, self._extents, _reserved(self._blocks, self._cache, self._extents))

    def open(self) -> None:
        """Open the tiers; the first read does it, too.

        Raises:
            ConfigError: A budget is too small, or a directory is not there.
        """
        self._state()

    def read(self, block: int) -> Block:
        """Read one block; see `read_run`."""
        return self.read_run(block, block + 1)[0]

    def read_run(self, start: int, stop: int) -> list[Block]:
        """Read consecutive blocks of one shard, in their records' encoding; see `BlockReader.read_run`.

        Memory, which keeps them in another form, is passed by.
        """
        self._blocks.check_run(start, stop)
        state = self._state()
        bounds = state.extents.bounds
        inside = bounds[(bounds > start) & (bounds < stop)].tolist()
        return self._read(state, list(zip([start, *inside], [*inside, stop], strict=True)), None, None)

    def read_runs(self, runs: Sequence[Run], demand: Demand | None = None) -> list[Block]:
        """Read several runs, each inside one extent; see `BlockReader.read_runs`. Blocks may be packed.

        Args:
            runs: The runs.
            demand: The epoch that needs them.
        """
        state = self._state()
        return self._read(state, runs, demand, state.tiers.host)

    def _read(self, state: _State, runs: Sequence[Run], demand: Demand | None, host: HostTier | None) -> list[Block]:
        found = self._held(state, host, runs)
        missing = [number for number, blocks in enumerate(found) if blocks is None]
        if missing and state.staging is None:
            self._load_in_place(state, runs, found, missing, host)
        elif missing:
            self._load_staged(state, runs, found, missing)
        if host is not None:
            for number in missing:
                start = runs[number][0]
                found[number] = host.put(state.extents.of(start), start, found[number] or [])
        if state.staging is not None:
            state.staging.loaded(demand, [(state.extents.of(start), stop - start) for start, stop in runs])
        return [block for blocks in found for block in blocks or ()]

    def ahead(
        self, steps: Iterator[S], left: npt.NDArray[np.int32] | None, needed: npt.NDArray[np.int32] | None = None
    ) -> Ahead[S]:
        """Read what an epoch needs, ahead of it.

        Args:
            steps: Its schedule.
            left: By block, how often it will be needed, 0 for not at all; None where blocks are returned to.
            needed: By block, 0 for those that this process needs in no epoch, which others may evict; None for all.
        """
        state = self._state()
        by_extent = None if needed is None else _by_extent(state, needed) > 0
        for disk in state.tiers.disks:
            disk.read_by(self._blocks.manifest.content_id, by_extent)
        return Ahead(self, state, steps, left)

    def stats(self) -> tuple[TierStats, ...]:
        """Return what this process did with each tier so far, the fastest first, the store last."""
        state = self._state()
        with state.lock:
            served = {name: (counts[0], counts[1]) for name, counts in state.served.items()}
        return sum_up(state.tiers, served, Fetches() if state.staging is None else state.staging.fetches)

    def figures(self) -> Callable[[], tuple[TierStats, ...]]:
        """Return what tells, whenever it is called, what was done with each tier from now on."""
        return partial(_since, self, self.stats())

    def close(self) -> None:
        """Leave the tiers; what is read later opens them again."""
        made, self._made = self._made, None
        if made is not None and made.pid == os.getpid():
            made.tiers.close()

    def _state(self) -> _State:
        state = self._made
        if state is None or state.pid != os.getpid():
            if self._pid != os.getpid():  # a lock that another thread held while this process was forked
                self._pid, self._making = os.getpid(), threading.Lock()
            with self._making:
                state = self._made
                if state is None or state.pid != os.getpid():
                    state = self._made = _State(self._blocks, self._cache, self._extents, self.make)
        return state

    def _held(self, state: _State, host: HostTier | None, runs: Sequence[Run]) -> list[list[Block] | None]:
        if host is None:
            return [None] * len(runs)
        found = [host.get(start, stop, state.extents.of(start)) for start, stop in runs]
        state.serve("host", [block for blocks in found for block in blocks or ()])
        return found

    def _load_in_place(
        self,
        state: _State,
        runs: Sequence[Run],
        found: list[list[Block] | None],
        missing: Sequence[int],
        host: HostTier | None,
    ) -> None:
        """Load runs of a local dataset from where it lies, in one go."""
        blocks = iter(self._blocks.read_runs([runs[number] for number in missing]))
        for number in missing:
            start, stop = runs[number]
            part = found[number] = list(itertools.islice(blocks, stop - start))
            if host is not None:
                extent = state.extents.of(start)
                host.admit(extent, int(state.extents.raw[extent]), copied=False)
            state.serve("store", part)

    def _load_staged(
        self, state: _State, runs: Sequence[Run], found: list[list[Block] | None], missing: Sequence[int]
    ) -> None:
        """Load runs from staged extents: from those in memory one by one, from entries in one go."""
        files: list[tuple[int, Staged]] = []
        for number in missing:
            staged = self._staged(state, state.extents.of(runs[number][0]))
            if staged is not None and staged.data is None and state.decoder is not None:
                files.append((number, staged))
            else:
                found[number] = self._load(state, *runs[number])
        if files:
            self._load_files(state, runs, found, files)

    def _staged(self, state: _State, extent: int) -> Staged | None:
        """Return an extent; None where it is to be read without staging, which also says what is wrong with it."""
        if state.staging is None:
            return None
        try:
            return state.staging.get(extent)
        except (CorruptData, ShardMissing):
            return None

    def _load_files(
        self, state: _State, runs: Sequence[Run], found: list[list[Block] | None], files: list[tuple[int, Staged]]
    ) -> None:
        """Load runs from entries in one go, without the GIL; one by one where something is wrong."""
        assert state.decoder is not None
        wanted = [runs[number] for number, _ in files]
        places = [staged.found for _, staged in files if staged.found is not None]
        blocks = state.decoder.read(wanted, [place.file.fd for place in places], self._blocks.take)
        done = 0
        for (start, stop), (number, _), place in zip(wanted, files, places, strict=True):
            if blocks is None:
                found[number] = self._load(state, start, stop)
                continue
            part = found[number] = blocks[done : done + stop - start]
            done += stop - start
            state.serve(place.tier.name, part)

    def _load(self, state: _State, start: int, stop: int) -> list[Block]:
        """Load one run: from an entry, or from the store; wrong bytes are fetched again."""
        extent = state.extents.of(start)
        for _ in range(2):
            staged = self._staged(state, extent)
            if staged is None or state.staging is None:
                break
            try:
                blocks = self._decode(state, staged, start, stop)
            except (CorruptData, OSError) as exc:
                self._mend(state, state.staging, staged, str(exc))
                continue
            name = "store" if staged.found is None else staged.found.tier.name
            state.serve(name, blocks)
            return blocks
        blocks = self._blocks.read_run(start, stop)
        state.serve("store", blocks)
        return blocks

    def _mend(self, state: _State, staging: Staging, staged: Staged, reason: str) -> None:
        """Let go of an extent whose bytes are wrong, once: whoever finds it out later, waits and takes the next one."""
        with staged.mending:
            if staged.wrong:
                return
            staged.wrong = True
            key = state.extents.key(staged.extent)
            if staged.found is not None:
                staged.found.tier.read_wrong(key, staged.found.file, reason)
            else:
                state.tiers.discard(key)
            staging.forget(staged)

    def _decode(self, state: _State, staged: Staged, start: int, stop: int) -> list[Block]:
        first = state.extents.blocks(staged.extent)[0]
        offset, nbytes = self._blocks.span(start, stop)
        begin = offset - self._blocks.span(first, first + 1)[0]
        if staged.data is not None:
            return self._blocks.decode(staged.data[begin : begin + nbytes], start, stop)
        assert staged.found is not None
        data = memoryview(bytearray(nbytes))
        if staged.found.tier.read_into(staged.found.file, data, HEADER_NBYTES + begin) != nbytes:
            raise OSError("the entry ended early")
        return self._blocks.decode(data, start, stop)


class Ahead(Generic[S]):
    """Read one epoch, whose schedule is planned far ahead of those who decode.

    Args:
        reader: What reads.
        state: Its tiers.
        steps: The schedule.
        left: As in `TieredReader.ahead`.
    """

    def __init__(
        self, reader: TieredReader, state: _State, steps: Iterator[S], left: npt.NDArray[np.int32] | None
    ) -> None:
        self._reader = reader
        self._state = state
        self._demand = Demand(None if left is None else _by_extent(state, left))
        self.steps: Iterator[S] = steps
        self.close: Callable[[], object] = lambda: None
        if state.staging is not None:
            state.staging.begin(self._demand)
            self.close = weakref.finalize(self, _end, os.getpid(), state.staging, self._demand)
            self.steps = _planned(state.staging, self._demand, steps)

    def read_runs(self, runs: Sequence[Run]) -> list[Block]:
        """Read several runs; see `TieredReader.read_runs`."""
        return self._reader.read_runs(runs, self._demand)


def _staged_nbytes(extents: Extents) -> int:
    return min(_STAGED_EXTENTS * extents.largest, extents.nbytes)


def _reserved(blocks: BlockReader, cache: Cache, extents: Extents) -> int:
    """Return what is in flight from the store at the most; nothing where a local dataset is read where it lies."""
    staged = not isinstance(blocks.store, LocalStore) or cache.nvme is not None or cache.ebs is not None
    return _staged_nbytes(extents) if staged else 0


def _since(reader: TieredReader, before: tuple[TierStats, ...]) -> tuple[TierStats, ...]:
    return tuple(now.since(then) for now, then in zip(reader.stats(), before, strict=True))


def _planned(staging: Staging, demand: Demand, steps: Iterator[S]) -> Iterator[S]:
    """Give the steps of a schedule, some while after what they load was announced."""
    held: deque[S] = deque()
    records, most, pid = 0, 1, os.getpid()
    while True:
        for step in itertools.islice(steps, 0 if _is_enough(demand, records) else most):
            if os.getpid() == pid:  # a forked child goes on without what its parent fetches
                staging.announce(demand, step.loads)
            held.append(step)
            records += len(step.rows)
        if not held:
            return
        most = _MOST_STEPS
        records -= len(held[0].rows)
        yield held.popleft()


def _is_enough(demand: Demand, records: int) -> bool:
    return records >= _FAR_RECORDS or (records > 0 and len(demand.pending) >= _FAR_EXTENTS)


def _by_extent(state: _State, blocks: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Count, by extent, the blocks that are needed."""
    counted: npt.NDArray[np.int64] = np.add.reduceat(blocks > 0, state.extents.bounds[:-1], dtype=np.int64)
    return counted


def _end(pid: int, staging: Staging, demand: Demand) -> None:
    """End in the process that began: a forked child has no threads to end, but maybe a lock held."""
    if os.getpid() == pid:
        staging.end(demand)
