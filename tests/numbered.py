"""Offer numbered rows as a source, real but in memory, and read them back."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from tiny import framed

from datafeed._native import Block, Parser, bytes_list
from datafeed.blockindex import read_index
from datafeed.columns import Column
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit
from datafeed.errors import BadItem
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.schema import Schema, stored
from datafeed.storage import open_store

SCHEMA = Schema([stored("x", "int64"), stored("blob", "bytes")])


@dataclass(frozen=True)
class Numbered:
    """Offer rows 0, 1, ...: `x` is the row's number, `blob` some bytes that follow from it.

    Args:
        rows: How many rows.
        unit_rows: How many of them a unit has.
        chunk_rows: How many of them a chunk has at most.
        blob: The most bytes of a blob; the least is 0.
        letters: How many different bytes there are in it; 256 cannot be compressed.
        claim: What a unit claims as its raw bytes, so that few rows can make many tasks.
        bad: Rows that cannot become samples.
        folder: Where unit i has a file `i`, which must not change; empty for no files.
        read_s: How long reading a unit takes.
    """

    kind: ClassVar[str] = "numbered"
    asked: ClassVar[SourceOptions] = SourceOptions()
    rows: int
    unit_rows: int = 50
    chunk_rows: int = 17
    blob: int = 120
    letters: int = 20
    claim: int = 20_000_000
    bad: frozenset[int] = frozenset()
    folder: str = ""
    read_s: float = 0.0

    def schema(self) -> Schema:
        """Return the schema."""
        return SCHEMA

    def units(self) -> Sequence[Unit]:
        """List the units."""
        starts = range(0, self.rows, self.unit_rows)
        return [Unit(f"rows#{i}", self.claim, self._stamps(i), start) for i, start in enumerate(starts)]

    def _stamps(self, number: int) -> tuple[Stamp, ...]:
        if not self.folder:
            return ()
        path = Path(self.folder, str(number))
        found = path.stat()
        return (Stamp(str(path), found.st_size, found.st_mtime_ns),)

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit."""
        assert isinstance(unit.detail, int)
        time.sleep(self.read_s)
        stop = min(unit.detail + self.unit_rows, self.rows)
        good = []
        for row in range(unit.detail, stop):
            if row in self.bad:
                on_bad(BadItem(f"rows:{row}", "it is bad", b"bad %d" % row))
            else:
                good.append(row)
            if good and (len(good) == self.chunk_rows or row == stop - 1):
                yield self._chunk(good)
                good = []
        if good:
            yield self._chunk(good)

    def _chunk(self, rows: list[int]) -> Chunk:
        blobs = [self.expected(row) for row in rows]
        offsets = np.cumsum([0, *map(len, blobs)], dtype=np.int64)
        blob = Column(np.frombuffer(b"".join(blobs), np.uint8), offsets)
        x = Column(np.array(rows, np.int64))
        return Chunk({"x": x, "blob": blob}, len(rows), where=lambda i: f"rows:{rows[i]}")

    def expected(self, row: int) -> bytes:
        """Return the blob of a row."""
        rng = np.random.Generator(np.random.PCG64(row))
        return rng.integers(0, self.letters, rng.integers(0, self.blob + 1), np.uint8).tobytes()

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"rows": self.rows, "blob": self.blob, "letters": self.letters, "bad": sorted(self.bad)}

    def notes(self) -> Sequence[str]:
        """Say nothing."""
        return ()


def records(url: str) -> list[bytes]:
    """Read all records of a dataset, in order."""
    store = open_store(url)
    manifest = read_manifest(store)
    index = read_index(store, manifest)
    reader = BlockReader(store, manifest, index)
    return [bytes(block.record(row)) for block in map(reader.read, range(len(index))) for row in range(len(block))]


def rows_of(url: str) -> list[tuple[int, bytes]]:
    """Read `x` and `blob` of all records of a dataset, in order."""
    found = records(url)
    which, rows = np.zeros(len(found), np.int32), np.arange(len(found), dtype=np.int32)
    x, blob = Parser(list(SCHEMA)).parse([Block(framed(found))], which, rows)
    assert blob.offsets is not None
    return list(zip(x.values.tolist(), bytes_list(blob.values, blob.offsets), strict=True))


def digests(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Return the SHA-256 of every file of a directory, by its relative path."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
