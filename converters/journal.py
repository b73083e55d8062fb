"""Remember the finished shards of a conversion until it is committed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from datafeed.footer import Place, read_footer
from datafeed.header import DatasetHeader, Fields, canonical
from datafeed.manifest import PLAN_NAME
from datafeed.seektable import BlockColumns
from datafeed.shard import ShardInfo, read_info, shard_name
from datafeed.storage import Store

JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class BadLine:
    """Describe a bad item that was passed over.

    Args:
        where: File, and row where there is one.
        reason: What is wrong with it.
        file: The object that holds its bytes; empty where there is none.
    """

    where: str
    reason: str
    file: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Finished:
    """Hold what a rerun must know of a finished shard.

    Args:
        info: What the manifest says of it.
        end: Where the next shard begins.
        last: Whether it ends the dataset.
        blocks: Its blocks.
        bad: Bad items that belong to it: all for quarantine, else the first few.
        on_error: What was done with bad items.
    """

    info: ShardInfo
    end: Place
    last: bool
    blocks: BlockColumns
    bad: tuple[BadLine, ...]
    on_error: str


class Journal:
    """Keep one object per finished shard beside the shards.

    Args:
        store: The destination.
        header: The conversion's header; shards of another one do not count.
        dataset: The header that the shards carry, where they are appended to a dataset.
        first: The number of the first shard.
    """

    def __init__(
        self, store: Store, header: DatasetHeader, dataset: DatasetHeader | None = None, first: int = 0
    ) -> None:
        self._store = store
        self._header = header
        self._dataset = dataset or header
        self._first = first

    def begin(self) -> None:
        """Write down which conversion this is."""
        with self._store.writer(PLAN_NAME) as sink:
            sink.write(canonical(self._header.to_json()))

    def add(self, number: int, done: Finished) -> None:
        """Write down a shard that stands under its final name."""
        value = {
            "shard": asdict(done.info),
            "plan": self._header.dataset_id,
            "on_error": done.on_error,
            "bad": [asdict(line) for line in done.bad],
        }
        with self._store.writer(_entry(number)) as sink:
            sink.write(canonical(value))

    def finished(self) -> list[Finished]:
        """Return the shards that stand whole, from the first up to the first gap.

        A shard counts when its entry names this plan and its size, and its footer agrees; its bytes are not read again.
        """
        found: list[Finished] = []
        while True:
            done = self._read(self._first + len(found))
            if done is None:
                return found
            found.append(done)
            if done.last:
                return found

    def _read(self, number: int) -> Finished | None:
        try:
            value = Fields(json.loads(self._store.read(_entry(number))), _entry(number))
            info = read_info(value.within("shard"))
            bad = tuple(_bad_line(line) for line in value.items("bad"))
            plan, on_error = value.text("plan"), value.text("on_error")
            if plan != self._header.dataset_id or info.nbytes != self._store.size(shard_name(number)):
                return None
            footer = read_footer(self._store, shard_name(number))
        except (FileNotFoundError, ValueError):
            return None
        if footer.header.dataset_id != self._dataset.dataset_id or footer.number != number:
            return None
        return Finished(info, footer.end, footer.last, footer.blocks, bad, on_error)

    def remove(self, shards: int) -> None:
        """Delete it, once the dataset is committed."""
        for name in [*(_entry(self._first + number) for number in range(shards)), PLAN_NAME]:
            with suppress(FileNotFoundError):
                self._store.delete(name)


def read_plan(store: Store) -> DatasetHeader | None:
    """Return the header of the conversion that was begun in a store; None where there was none, or it is unreadable."""
    try:
        return DatasetHeader.from_json(json.loads(store.read(PLAN_NAME)), name=PLAN_NAME)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _entry(number: int) -> str:
    return f"{JOURNAL}/{number:06d}.json"


def _bad_line(value: object) -> BadLine:
    fields = Fields(value, JOURNAL)
    return BadLine(fields.text("where"), fields.text("reason"), fields.text("file"))


def bad_lines(shards: Sequence[Finished]) -> list[BadLine]:
    """Return the bad items of all shards, in order."""
    return [line for done in shards for line in done.bad]
