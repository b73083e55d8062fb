"""Encode the units of a task to blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from datafeed._native import Encoder
from datafeed.converters.cut import Raw, cut_blocks
from datafeed.converters.source import Chunk, OnBad, OnError, Source, Unit
from datafeed.converters.tasks import Task
from datafeed.errors import BadItem, DatafeedError
from datafeed.frames import compress
from datafeed.schema import Schema

U32 = npt.NDArray[np.uint32]
PART_NBYTES = 16 * 2**20
KEPT_REASONS = 5


@dataclass(frozen=True, slots=True)
class Recipe:
    """Say how every task of a conversion is encoded.

    Args:
        source: Where the samples come from.
        schema: What a record holds.
        block_size: Raw bytes at which a block is closed.
        level: The zstd level.
        on_error: What to do with bad items.
        limit: Records after which a task may stop, because no more are wanted of the whole source; None for no limit.
    """

    source: Source
    schema: Schema
    block_size: int
    level: int
    on_error: OnError
    limit: int | None


@dataclass(frozen=True, slots=True)
class Bad:
    """Hold a bad item that was passed over.

    Args:
        where: File, and row where there is one.
        reason: What is wrong with it.
        number: Its number among the bad items of its task.
        block: The block of the task in which it would have been.
        data: Its bytes, where they are wanted and there are any.
    """

    where: str
    reason: str
    number: int
    block: int
    data: bytes | None


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Hold some consecutive blocks of a task, as arrays so that they travel without copies.

    Args:
        frames: The blocks' frames.
        raw: Each block's raw bytes.
        records: Each block's records.
        skipped: The bad items that belong to each block; one more entry for those after the task's last block.
        bad: Those bad items whose reason is kept: all for quarantine, else the first few of a task.
    """

    frames: tuple[npt.NDArray[np.uint8], ...]
    raw: U32
    records: U32
    skipped: U32
    bad: tuple[Bad, ...]

    def __len__(self) -> int:
        return len(self.frames)


@dataclass(slots=True)
class _Bin:
    """Gather what makes the next part."""

    frames: list[bytes] = field(default_factory=list)
    raw: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    nbytes: int = 0

    def close(self, rest: int) -> Part:
        frames = tuple(np.frombuffer(frame, np.uint8) for frame in self.frames)
        raw, records, skipped = (
            np.array(values, np.uint32) for values in (self.raw, self.records, [*self.skipped, rest])
        )
        return Part(frames, raw, records, skipped, tuple(self.bad))


class _BadItems:
    """Count the bad items of a task, or raise the first."""

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error
        self._total = 0
        self.pending = 0
        self.kept: list[Bad] = []
        self.nbytes = 0
        self.block = 0

    def __call__(self, item: BadItem) -> None:
        if self._on_error == "raise":
            raise item
        quarantine = self._on_error == "quarantine"
        if quarantine or self._total < KEPT_REASONS:
            data = item.data if quarantine else None
            self.kept.append(Bad(item.where, item.reason, self._total, self.block, data))
            self.nbytes += len(data or b"")
        self._total += 1
        self.pending += 1

    def take(self) -> int:
        """Return how many came since the last call."""
        pending, self.pending = self.pending, 0
        return pending


def encode_task(recipe: Recipe, task: Task, first_block: int = 0) -> Iterator[Part]:
    """Encode a task, a part at a time: what is held is one chunk of the source and one part, however large the task.

    Args:
        recipe: How to encode.
        task: What to encode.
        first_block: The block to begin with; those before are cut but not kept.

    Yields:
        Parts of `PART_NBYTES` or a little more, the last one possibly empty.

    Raises:
        BadItem: An item is bad and `on_error` is "raise".
        SourceChanged: A file is not as it was listed.
        RecordTooLarge: A record passes the format's limit and `on_error` is "raise".
    """
    bad = _BadItems(recipe.on_error)
    features = list(recipe.schema)
    chunks = read_chunks(recipe.source, task.units, bad)
    blocks = cut_blocks(Encoder(features), features, chunks, recipe.block_size, bad)
    full = _Bin()
    try:
        for block in _limited(blocks, recipe.limit):
            keep = bad.block >= first_block
            _put(full, block, recipe.level if keep else None, bad)
            if full.nbytes + bad.nbytes >= PART_NBYTES:
                yield _part(full, bad, 0, first_block)
                full = _Bin()
    except DatafeedError:
        if full.frames:
            yield _part(full, bad, 0, first_block)
        raise
    yield _part(full, bad, bad.take(), first_block)


def _put(full: _Bin, block: Raw, level: int | None, bad: _BadItems) -> None:
    skipped = bad.take()
    bad.block += 1
    if level is None:
        return
    frame = compress(block.raw, level)
    full.frames.append(frame)
    full.raw.append(len(block.raw))
    full.records.append(block.records)
    full.skipped.append(skipped)
    full.nbytes += len(frame)


def _part(full: _Bin, bad: _BadItems, rest: int, first_block: int) -> Part:
    full.bad = [item for item in bad.kept if item.block >= first_block]
    bad.kept, bad.nbytes = [], 0
    return full.close(rest)


def _limited(blocks: Iterator[Raw], limit: int | None) -> Iterator[Raw]:
    if limit is None:
        yield from blocks
        return
    taken = 0
    for block in blocks:
        yield block
        taken += block.records
        if taken >= limit:
            return


def read_chunks(source: Source, units: Sequence[Unit], on_bad: OnBad) -> Iterator[Chunk]:
    """Read units one after the other; each file must be as it was listed, before and after.

    Args:
        source: Where they come from.
        units: What to read.
        on_bad: What to do with bad items; a unit that cannot be read at all is one.

    Yields:
        The samples.

    Raises:
        SourceChanged: A file is not as it was listed.
        BadItem: Whatever `on_bad` raises.
    """
    check_unchanged = source.asked.files.check_unchanged
    for unit in units:
        check_unchanged(unit.files)
        try:
            yield from source.read(unit, on_bad)
        except BadItem as exc:
            check_unchanged(unit.files)
            on_bad(exc)
        check_unchanged(unit.files)
