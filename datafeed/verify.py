"""Check every byte of a dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from datafeed._native import Block, Parser, crc32c
from datafeed.batches import to_texts
from datafeed.blockindex import read_columns
from datafeed.errors import (
    CorruptData,
    CorruptFrame,
    CorruptIndex,
    IndexMismatch,
    SchemaError,
    ShardMissing,
    StaleIndex,
)
from datafeed.footer import Footer, read_footer
from datafeed.frames import decompress
from datafeed.manifest import MANIFEST_NAME, Manifest, read_manifest
from datafeed.reader import check_place
from datafeed.rebuild import misplaced, shard_numbers
from datafeed.scan import scan_blocks, scan_rest
from datafeed.schema import Schema
from datafeed.seektable import BlockColumns
from datafeed.shard import ShardInfo, shard_name
from datafeed.sizes import counted
from datafeed.storage import Store

Problem = CorruptData | ShardMissing | SchemaError


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """Hold what a check of every byte found.

    Args:
        problems: Each thing that is wrong, with its place in the error's fields and text.
        shards: Shards that were read.
        blocks: Blocks that were read, the damaged ones included.
        records: Records of the blocks that are whole, whether or not they fit the schema.
        nbytes: Stored bytes that were read.
    """

    problems: tuple[Problem, ...]
    shards: int
    blocks: int
    records: int
    nbytes: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(store: Store, *, on_progress: Callable[[int], None] | None = None) -> VerifyReport:
    """Check every checksum, count and record of a dataset, its shards' SHA-256, its index and manifest.

    Records are parsed to the schema; of those of a block that do not fit, the first is named and the others counted.
    Nothing that is wrong with the data ends the check: with a damaged manifest or index, the shards are checked by
    what they say of themselves.

    Args:
        store: Where the dataset is.
        on_progress: Called after each block with its stored bytes.

    Returns:
        What was found.

    Raises:
        DatasetNotFound: Nothing is committed there.
        OSError: The store itself failed.
    """
    check = _Check(store, on_progress or _unseen)
    try:
        manifest = read_manifest(store)
    except CorruptData as exc:
        check.problems.append(exc)
        check.shards_alone()
        return check.report()
    columns: list[BlockColumns] | None = None
    try:
        columns = read_columns(store, manifest)
    except CorruptData as exc:
        check.problems.append(exc)
    check.dataset(manifest, columns)
    return check.report()


class _Check:
    """Gather problems and counts."""

    def __init__(self, store: Store, on_progress: Callable[[int], None]) -> None:
        self.store = store
        self.on_progress = on_progress
        self.problems: list[Problem] = []
        self.counts = {"shards": 0, "blocks": 0, "records": 0, "nbytes": 0}

    def report(self) -> VerifyReport:
        return VerifyReport(tuple(self.problems), **self.counts)

    def parse_to(self, schema: Schema) -> None:
        self.schema, self.parser = schema, Parser(schema.features)

    def shards_alone(self) -> None:
        """Check shards without a manifest."""
        footers: list[Footer] = []
        for number in shard_numbers(self.store):
            footer = self.footer(shard_name(number))
            if footer is not None:
                self.place(footer, number, footers)
                self.parse_to(footer.header.schema)
                self.shard(shard_name(number), "zstd", footer.blocks, (None, footer))

    def dataset(self, manifest: Manifest, columns: list[BlockColumns] | None) -> None:
        """Check the shards that a manifest names."""
        footers: list[Footer] = []
        self.parse_to(manifest.schema)
        for number, info in enumerate(manifest.shards):
            if not self.store.exists(info.name):
                self.problems.append(ShardMissing(f"{info.name!r} is missing, {MANIFEST_NAME} names it"))
                continue
            blocks = columns[number] if columns else None
            footer = self.footer(info.name) if manifest.codec == "zstd" else None
            if footer is not None:
                self.place(footer, number, footers)
                self.agree(footer, manifest, number, blocks)
                blocks = footer.blocks if blocks is None else blocks
            self.shard(info.name, manifest.codec, blocks, (info, footer))
        extra = set(shard_numbers(self.store)) - set(range(len(manifest.shards))) if manifest.codec == "zstd" else ()
        for number in sorted(extra):
            self.problems.append(IndexMismatch(f"{MANIFEST_NAME} does not name it", shard=shard_name(number)))

    def footer(self, name: str) -> Footer | None:
        try:
            return read_footer(self.store, name)
        except CorruptData as exc:
            self.problems.append(exc)
            return None

    def place(self, footer: Footer, number: int, footers: list[Footer]) -> None:
        """Check a shard's place among those before it."""
        follows = footers and footers[-1].number == number - 1
        wrong = misplaced(footer, number, footers[0] if footers else footer, footers[-1] if follows else None)
        if wrong:
            self.problems.append(IndexMismatch(wrong, shard=shard_name(number)))
        footers.append(footer)

    def agree(self, footer: Footer, manifest: Manifest, number: int, blocks: BlockColumns | None) -> None:
        """Compare a footer with the manifest and the index."""
        info = manifest.shards[number]
        if footer.header != manifest.header:
            reason = f"its header names dataset {footer.header.dataset_id}, {MANIFEST_NAME} {manifest.dataset_id}"
            self.problems.append(IndexMismatch(reason, shard=info.name))
        if number == len(manifest.shards) - 1 and not footer.last:
            self.problems.append(IndexMismatch("it does not end its run, and none follows", shard=info.name))
        if (footer.nbytes, footer.skipped) != (info.nbytes, info.skipped):
            reason = f"it has {counted(footer.nbytes, 'byte')} and skipped {footer.skipped:,}"
            reason += f", {MANIFEST_NAME} names {info.nbytes:,} and {info.skipped:,}"
            self.problems.append(StaleIndex(reason, shard=info.name))
        if blocks is not None and footer.blocks != blocks:
            self.problems.append(CorruptIndex("its seek table and the block index differ", shard=info.name))

    def shard(
        self, name: str, codec: str, blocks: BlockColumns | None, known: tuple[ShardInfo | None, Footer | None]
    ) -> None:
        """Check a shard's bytes."""
        info, footer = known
        sha256 = hashlib.sha256()
        start = 0
        try:
            if blocks is not None:
                start = self.blocks(name, codec, blocks, sha256)
                if footer is not None and sha256.digest() != footer.digest:
                    self.problems.append(CorruptFrame("its blocks and its footer's SHA-256 differ", shard=name))
            nbytes = scan_rest(self.store, name, start, sha256.update)
        except CorruptData as exc:
            self.problems.append(exc)
            return
        self.counts["shards"] += 1
        self.counts["nbytes"] += nbytes
        if info is not None and sha256.hexdigest() != info.sha256:
            reason = f"its SHA-256 is {sha256.hexdigest()}, {MANIFEST_NAME} names {info.sha256}"
            self.problems.append(CorruptFrame(reason, shard=name))

    def blocks(self, name: str, codec: str, blocks: BlockColumns, sha256: hashlib._Hash) -> int:
        """Check each block, and return where the last one ends."""
        offset = 0
        for number, (frame, facts) in enumerate(
            zip(scan_blocks(self.store, name, blocks.stored, sha256.update), _facts(blocks), strict=True)
        ):
            self.counts["blocks"] += 1
            raw, records, checksum = facts
            try:
                block = Block(_raw(codec, frame, raw, checksum), records, check_payload=True)
                self.counts["records"] += records
                self.fit(block, f"{name}, block {number}")
            except CorruptData as exc:
                exc.shard, exc.block = name, number
                exc.offset = offset if exc.offset < 0 else exc.offset
                self.problems.append(exc)
            offset += frame.nbytes
            self.on_progress(frame.nbytes)
        return offset

    def fit(self, block: Block, where: str) -> None:
        """Parse a block's records."""
        if self.misfit(block, range(len(block))) is None:
            return
        wrong = [exc for row in range(len(block)) if (exc := self.misfit(block, [row])) is not None]
        more = f"; {len(wrong) - 1} more of the block's {len(block)} records do not fit" if len(wrong) > 1 else ""
        first = wrong[0]
        reason = f"{where}, record {first.row}: {first.reason}{more}"
        self.problems.append(SchemaError(reason, first.row, first.feature))

    def misfit(self, block: Block, rows: Sequence[int]) -> SchemaError | None:
        """Return what is wrong with the first of some records that does not fit the schema, with its row."""
        try:
            columns = self.parser.parse([block], np.zeros(len(rows), np.int32), np.array(rows, np.int32))
            for feature, column in zip(self.schema, columns, strict=True):
                if feature.dtype == "utf8":
                    to_texts(feature, column)
        except SchemaError as exc:
            return SchemaError(exc.reason, rows[exc.row], exc.feature)
        return None


def _unseen(nbytes: int) -> None:
    """Show progress to nobody."""


def _facts(blocks: BlockColumns) -> Iterator[tuple[int, int, int]]:
    return zip(blocks.raw.tolist(), blocks.records.tolist(), blocks.checksum.tolist(), strict=True)


def _raw(codec: str, frame: memoryview, raw: int, checksum: int) -> memoryview | bytes:
    if codec == "zstd":
        check_place(frame, raw, checksum)
        return decompress(frame, raw)
    Block(frame, check_payload=True)
    if crc32c(frame) != checksum:
        raise StaleIndex("its records are whole, but not those that were indexed: run `datafeed index` again")
    return frame
