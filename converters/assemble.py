"""Join encoded blocks to shards, in the order of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from datafeed._native import Block
from datafeed.converters.encode import KEPT_REASONS, Bad, Part
from datafeed.converters.journal import BadLine, Finished, Journal
from datafeed.converters.progress import Meter
from datafeed.footer import Place, Run
from datafeed.frames import compress, decompress
from datafeed.framing import prefix_nbytes
from datafeed.header import DatasetHeader
from datafeed.shard import ShardWriter, shard_name
from datafeed.storage import Sink, Store


@dataclass(frozen=True, slots=True)
class Target:
    """Say what the shards of a conversion look like.

    Args:
        header: What every shard says about its dataset.
        shard_size: Stored bytes of a shard's blocks, to which each comes as near as a block boundary can.
        limit: How many records to take; None for all.
        on_error: What is done with bad items; "quarantine" writes them aside.
        first: The number of the first shard: how many others stand there already.
        run: The run that writes them.
    """

    header: DatasetHeader
    shard_size: int
    limit: int | None
    on_error: str
    first: int = 0
    run: Run = field(default_factory=Run)

    @property
    def quarantine(self) -> str:
        """The folder for bad items."""
        return f"quarantine-{self.run.number:06d}" if self.run.number else "quarantine"


@dataclass(slots=True)
class _Open:
    """Hold the shard that is being written."""

    publish: AbstractContextManager[Sink]
    writer: ShardWriter
    begin: Place
    end: Place
    skipped: int
    bad: list[BadLine]


class Assembler:
    """Write shards from parts that come in the order of the plan. For one thread.

    A shard is closed when the next block comes, so that the last one knows that it is the last. Leaving the `with`
    block discards a shard that is not closed.

    Args:
        store: The destination.
        journal: Takes note of each finished shard.
        target: What the shards look like.
        finished: The shards that an earlier run finished.
        meter: Counts what is written.
    """

    def __init__(
        self, store: Store, journal: Journal, target: Target, finished: Sequence[Finished], meter: Meter
    ) -> None:
        self._store = store
        self._journal = journal
        self._target = target
        self._meter = meter
        self._shard: _Open | None = None
        self._skipped = 0  # of a task without a block after them: they go with the next block
        self.bad: list[BadLine] = []
        self.finished = list(finished)
        self.at = finished[-1].end if finished else Place(0, 0)
        self.records = sum(done.info.records for done in finished)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        shard, self._shard = self._shard, None
        if shard is not None:
            stop = exc or GeneratorExit()
            shard.publish.__exit__(kind or type(stop), stop, tb)

    @property
    def complete(self) -> bool:
        """Whether no more records are wanted."""
        return self._target.limit is not None and self.records >= self._target.limit

    @property
    def skipped(self) -> int:
        """The bad items met so far."""
        open_shard = self._shard.skipped if self._shard else 0
        return sum(done.info.skipped for done in self.finished) + open_shard + self._skipped

    def take(self, task: int, part: Part) -> None:
        """Append the blocks of a part, until no more records are wanted."""
        if task != self.at.task:
            self.at = Place(task, 0)
        bad = list(part.bad)
        columns = zip(part.frames, part.raw.tolist(), part.records.tolist(), part.skipped[:-1].tolist(), strict=True)
        for frame, raw, records, skipped in columns:
            self._note_bad(bad, skipped)
            self._add(frame.data, raw, records)
            if self.complete:
                return
        self._note_bad(bad, int(part.skipped[-1]))

    def finish(self) -> list[Finished]:
        """Close the last shard.

        Returns:
            All shards of the dataset, in order; none where not a single record came.
        """
        if self._shard is not None:
            self._shard.skipped += self._skipped
            self._shard.bad += self.bad
            self._close(last=True)
        return self.finished

    def _note_bad(self, bad: list[Bad], skipped: int) -> None:
        self._skipped += skipped
        while bad and bad[0].block <= self.at.block:
            self.bad.append(self._line(bad.pop(0)))

    def _line(self, item: Bad) -> BadLine:
        name = ""
        if item.data is not None:
            name = f"{self._target.quarantine}/{self.at.task:06d}-{item.number:06d}.bin"
            with self._store.writer(name) as sink:
                sink.write(item.data)
        return BadLine(item.where, item.reason, name)

    def _add(self, frame: memoryview, raw: int, records: int) -> None:
        wanted = records if self._target.limit is None else self._target.limit - self.records
        data: memoryview | bytes = frame
        if wanted < records:
            data, raw = _trim(frame, raw, records, wanted, self._target.header.level)
            records = wanted
        self._close_if_full(len(data))
        shard = self._shard or self._begin()
        shard.writer.add(data, raw, records)
        shard.skipped += self._skipped
        shard.bad += self.bad
        self._skipped, self.bad = 0, []
        self.records += records
        self.at = shard.end = Place(self.at.task, self.at.block + 1)
        self._meter.add(records, raw, len(data))
        self._meter.tick()

    def _close_if_full(self, nbytes: int) -> None:
        """Close the shard if its end lies nearer to the wanted size now than after the next block."""
        if self._shard is not None:
            stored, wanted = self._shard.writer.stored, self._target.shard_size
            if wanted - stored <= stored + nbytes - wanted:
                self._close(last=False)

    def _begin(self) -> _Open:
        number = self._target.first + len(self.finished)
        publish = self._store.writer(shard_name(number))
        writer = ShardWriter(publish.__enter__(), self._target.header, number)
        begin = self.finished[-1].end if self.finished else Place(0, 0)
        self._shard = _Open(publish, writer, begin, begin, 0, [])
        return self._shard

    def _close(self, *, last: bool) -> None:
        shard = self._shard
        assert shard is not None
        blocks, number = shard.writer.columns(), self._target.first + len(self.finished)
        places = {"begin": shard.begin, "end": shard.end}
        info = shard.writer.finish(**places, skipped=shard.skipped, last=last, run=self._target.run)
        self._shard = None
        shard.publish.__exit__(None, None, None)
        bad = shard.bad if self._target.on_error == "quarantine" else shard.bad[:KEPT_REASONS]
        done = Finished(info, shard.end, last, blocks, tuple(bad), self._target.on_error)
        self._journal.add(number, done)
        self.finished.append(done)
        self._meter.shards += 1


def _trim(frame: memoryview, raw: int, records: int, wanted: int, level: int) -> tuple[bytes, int]:
    """Keep the first records of a block."""
    data = decompress(frame, raw)
    end = prefix_nbytes(Block(data, records), wanted)
    return compress(memoryview(data)[:end], level), end
