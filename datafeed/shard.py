"""Write one shard: blocks, the footer that describes them, the seek table."""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass

import numpy as np
from typing_extensions import Buffer

from datafeed.footer import Place, Run, encode_footer
from datafeed.frames import checksum
from datafeed.header import DatasetHeader, Fields
from datafeed.seektable import BlockColumns, encode_table
from datafeed.storage import Sink

_FIRST_RUN = Run()


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Hold what the manifest says of a shard.

    Args:
        name: Its object in the store.
        nbytes: Its stored bytes, the whole file.
        raw_bytes: What its blocks hold when decompressed.
        records: How many records.
        blocks: How many blocks.
        sha256: The hexadecimal SHA-256 of the whole file.
        skipped: Items of the source that it should hold, but that were skipped as bad.
    """

    name: str
    nbytes: int
    raw_bytes: int
    records: int
    blocks: int
    sha256: str
    skipped: int


def read_info(fields: Fields) -> ShardInfo:
    """Read the JSON object that a ShardInfo became.

    Raises:
        CorruptIndex: A field is missing, or is not as it should be.
    """
    return ShardInfo(
        name=fields.text("name"),
        nbytes=fields.integer("nbytes"),
        raw_bytes=fields.integer("raw_bytes"),
        records=fields.integer("records"),
        blocks=fields.integer("blocks"),
        sha256=fields.hex("sha256", 64),
        skipped=fields.integer("skipped"),
    )


def shard_name(number: int) -> str:
    """Return the object's name of a shard."""
    return f"shard-{number:06d}.tfrecord.zst"


class ShardWriter:
    """Write blocks to a sink, then what describes them. Not for several threads.

    Args:
        sink: Where the bytes go, in order.
        header: What the shard says about its dataset.
        number: Its number in the dataset.
    """

    def __init__(self, sink: Sink, header: DatasetHeader, number: int) -> None:
        self._sink = sink
        self._header = header
        self._number = number
        self._sha256 = hashlib.sha256()
        self._columns = array("I"), array("I"), array("I"), array("I")
        self.stored = 0
        self.raw = 0
        self.records = 0

    def columns(self) -> BlockColumns:
        """Return what is known of each block so far."""
        return BlockColumns(*(np.array(column, np.uint32) for column in self._columns))

    def add(self, frame: Buffer, raw: int, records: int) -> None:
        """Append a block.

        Args:
            frame: Its zstd frame, as `frames.compress` makes it.
            raw: Its raw bytes, 1 to 2**32 - 1.
            records: Its records, at least 1.

        Raises:
            OutputError: The sink failed.
            OverflowError: A size passes 32 bits.
        """
        nbytes = memoryview(frame).nbytes
        for column, value in zip(self._columns, (nbytes, raw, records, checksum(frame)), strict=True):
            column.append(value)
        self._write(frame)
        self.raw += raw
        self.records += records

    def finish(self, *, begin: Place, end: Place, skipped: int, last: bool, run: Run = _FIRST_RUN) -> ShardInfo:
        """Write the footer and the seek table; nothing may be added afterwards.

        Args:
            begin: Where in the conversion's plan the shard begins.
            end: Where the next one begins.
            skipped: Items of the source that were skipped as bad on the way.
            last: Whether the shard ends its run.
            run: The run that writes it.

        Returns:
            What the manifest says of it.

        Raises:
            OutputError: The sink failed.
        """
        blocks = self.columns()
        facts: dict[str, object] = {
            "header": self._header.to_json(),
            "number": self._number,
            "begin": {"task": begin.task, "block": begin.block},
            "end": {"task": end.task, "block": end.block},
            "skipped": skipped,
            "last": last,
            "records": self.records,
        }
        if run.number:
            facts["run"] = {"number": run.number, "provenance": dict(run.provenance)}
        footer = encode_footer(facts, blocks.records, self._sha256.digest())
        self._write(footer)
        self._write(encode_table(blocks.stored, blocks.raw, blocks.checksum, len(footer)))
        name, digest = shard_name(self._number), self._sha256.hexdigest()
        return ShardInfo(name, self.stored, self.raw, self.records, len(blocks), digest, skipped)

    def _write(self, data: Buffer) -> None:
        self._sink.write(data)
        self._sha256.update(data)
        self.stored += memoryview(data).nbytes
