"""Read blocks, each verified against the index."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from contextlib import suppress

from datafeed._native import Block, Decoder, crc32c
from datafeed.blockindex import BlockIndex
from datafeed.buffers import BufferPool
from datafeed.diagnose import diagnose
from datafeed.errors import (
    CorruptData,
    CorruptFrame,
    CorruptRecord,
    IndexMismatch,
    ShardMissing,
    StaleIndex,
    TruncatedShard,
)
from datafeed.frames import check_header, decompress_into
from datafeed.localstore import LocalStore
from datafeed.manifest import MANIFEST_NAME, Manifest
from datafeed.storage import Store

_KEPT_NBYTES = 16 * 2**20  # eight extents; what a thread keeps of its largest read
_u32 = struct.Struct("<I").unpack_from


class _Scratch(threading.local):
    """Hold the bytes of a thread's latest read: fresh memory for each would cost a page fault every 4 KiB."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray())

    def take(self, nbytes: int) -> memoryview:
        if nbytes <= self.view.nbytes:
            return self.view[:nbytes]
        view = memoryview(bytearray(nbytes))
        if nbytes <= _KEPT_NBYTES:
            self.view = view
        return view


_scratch = _Scratch()


class BlockReader:
    """Read blocks of a dataset. Safe to share between threads, to pickle, and to use in a forked child.

    Args:
        store: Where the dataset is.
        manifest: Its manifest.
        index: Its block index.

    Attributes:
        store: As given, like `manifest` and `index`.
        names: The shards' names.
        take: Lends the memory of blocks.
    """

    def __init__(self, store: Store, manifest: Manifest, index: BlockIndex) -> None:
        self.store = store
        self.manifest = manifest
        self.index = index
        self.take = BufferPool(manifest.header.block_size).take
        self._decoder = Decoder(index.offset, index.stored, index.raw, index.records, index.checksum)
        self.names = [shard.name for shard in manifest.shards]
        # Whatever only behaves like a LocalStore is asked for its bytes.
        self._files = store if type(store) is LocalStore and manifest.codec == "zstd" else None

    def __reduce__(self) -> tuple[type[BlockReader], tuple[Store, Manifest, BlockIndex]]:
        return BlockReader, (self.store, self.manifest, self.index)

    def read(self, block: int) -> Block:
        """Read one block; see `read_run`."""
        return self.read_run(block, block + 1)[0]

    def read_runs(self, runs: Sequence[tuple[int, int]]) -> list[Block]:
        """Read several runs; those of local files in one go, without the GIL.

        Args:
            runs: As `read_run` takes one, each.

        Returns:
            All their blocks, in order.

        Raises:
            ValueError: As `read_run` raises it; CorruptData and ShardMissing, too.
        """
        blocks = None
        if self._files is not None:
            for start, stop in runs:
                self.check_run(start, stop)
            with suppress(ShardMissing):  # which read_run explains
                files = [self._files.open(self.names[self.index.shard[start]]) for start, _ in runs]
                blocks = self._decoder.read(runs, [file.fd for file in files], self.take)
        return [block for run in runs for block in self.read_run(*run)] if blocks is None else blocks

    def check_run(self, start: int, stop: int) -> None:
        """Raise ValueError where blocks are no run inside one shard."""
        if not 0 <= start < stop <= len(self.index) or self.index.shard[start] != self.index.shard[stop - 1]:
            raise ValueError(f"blocks {start} to {stop} of {len(self.index)} are not a run inside one shard")

    def read_run(self, start: int, stop: int) -> list[Block]:
        """Read consecutive blocks of one shard with one ranged read; wrong bytes are read a second time.

        Args:
            start: The first block, as numbered in the dataset.
            stop: The block behind the last.

        Returns:
            The blocks, each owning its memory (with codec "none" they share it).

        Raises:
            ValueError: The run is empty or leaves its shard.
            CorruptData: Twice the bytes were not those that the index names; with `dataset`, `shard`, `block` and a
                class that says what happened: TruncatedShard, CorruptFrame, CorruptRecord, NotAShard, StaleIndex,
                IndexMismatch.
            ShardMissing: The shard is gone.
        """
        self.check_run(start, stop)
        try:
            try:
                return self._once(start, stop)
            except CorruptData:
                return self._once(start, stop)
        except CorruptData as exc:
            explained = self._explained(exc, start)
            if explained is exc:
                raise
            raise explained from exc
        except ShardMissing as exc:
            url = self.store.url
            raise ShardMissing(f"{exc}, which {url}/{MANIFEST_NAME} names: put it back; {_all_damage(url)}") from exc

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first byte of a run of blocks in its shard, and its stored bytes."""
        offset = int(self.index.offset[start])
        return offset, int(self.index.offset[stop - 1]) + int(self.index.stored[stop - 1]) - offset

    def _once(self, start: int, stop: int) -> list[Block]:
        offset, nbytes = self.span(start, stop)
        # Blocks that are not compressed keep the bytes that were read.
        data = _scratch.take(nbytes) if self.manifest.codec == "zstd" else memoryview(bytearray(nbytes))
        self.store.read_into(self.names[self.index.shard[start]], offset, data)
        return self.decode(data, start, stop)

    def decode(self, data: memoryview, start: int, stop: int) -> list[Block]:
        """Turn the stored bytes of a run into its blocks, each verified.

        Args:
            data: The stored bytes; with codec "none" the blocks keep them.
            start: The first block.
            stop: The block behind the last.

        Raises:
            CorruptData: They are not those that the index names; with `block` and `offset`.
        """
        if self.manifest.codec == "none":
            return self._plain(data, start, stop)
        blocks = self._decoder.decode(data, start, stop, self.take)
        return self._each_frame(data, start, stop) if blocks is None else blocks

    def _each_frame(self, data: memoryview, start: int, stop: int) -> list[Block]:
        """Decode frame by frame, which says what is wrong with which: where there is no decoder, or it gave up."""
        index = self.index
        blocks: list[Block] = []
        position = 0
        try:
            for nbytes, raw, records, checksum in zip(
                index.stored[start:stop].tolist(),
                index.raw[start:stop].tolist(),
                index.records[start:stop].tolist(),
                index.checksum[start:stop].tolist(),
                strict=True,
            ):
                frame = data[position : position + nbytes]
                check_place(frame, raw, checksum)
                into = self.take(raw)
                decompress_into(frame, into)
                blocks.append(Block(into, records))
                position += nbytes
        except CorruptData as exc:
            at = int(index.offset[start]) + position
            raise _placed(exc, self._in_shard(start + len(blocks)), at) from exc
        return blocks

    def _plain(self, data: memoryview, start: int, stop: int) -> list[Block]:
        index = self.index
        blocks: list[Block] = []
        position = 0
        try:
            for raw, records, checksum in zip(
                index.raw[start:stop].tolist(),
                index.records[start:stop].tolist(),
                index.checksum[start:stop].tolist(),
                strict=True,
            ):
                part = data[position : position + raw]
                blocks.append(_plain_block(part, records, checksum))
                position += raw
        except CorruptData as exc:
            raise _placed(exc, self._in_shard(start + len(blocks)), int(index.offset[start]) + position) from exc
        return blocks

    def _in_shard(self, block: int) -> int:
        first: int = self.index.shard.searchsorted(self.index.shard[block]).item()
        return block - first

    def _explained(self, exc: CorruptData, start: int) -> CorruptData:
        number = int(self.index.shard[start])
        exc.shard = self.names[number]
        if exc.block < 0 and isinstance(exc, TruncatedShard):
            ends = self.index.offset[start:] + self.index.stored[start:]
            mine = self.index.shard[start:] == number
            exc.block = self._in_shard(start) + int((ends[mine] <= exc.offset).sum())
        explained = diagnose(self.store, self.manifest, self.index, number, exc)
        explained.dataset = self.store.url
        if not isinstance(explained, (StaleIndex, IndexMismatch)):  # these say what to do
            explained.reason += f"; {_all_damage(self.store.url)}"
        return explained


def _all_damage(url: str) -> str:
    return f"`datafeed verify {url}` lists all that is damaged or missing"


def _plain_block(part: memoryview, records: int, checksum: int) -> Block:
    """Check bytes that are not compressed: one CRC over all stands for the payloads' own and for their place."""
    if crc32c(part) == checksum:
        return Block(part, records)
    Block(part, records, check_payload=True)
    raise StaleIndex("the records are whole, but not those that were indexed: run `datafeed index` again")


def _placed(exc: CorruptData, block: int, offset: int) -> CorruptData:
    exc.block = block
    if not isinstance(exc, CorruptRecord):
        exc.offset = offset
    return exc


def check_place(frame: memoryview, raw: int, checksum: int) -> None:
    """Check that a frame is the one that belongs there: another block's, though whole, is a wrong one.

    Args:
        frame: Its stored bytes.
        raw: Its raw bytes, as the index names them.
        checksum: Its checksum, as the index names it.

    Raises:
        CorruptData: It is another frame, or none.
    """
    if frame.nbytes < 4 or _u32(frame, frame.nbytes - 4)[0] != checksum:
        check_header(frame, raw)
        raise CorruptFrame(f"expected a frame of checksum {checksum:#010x}, found it to end with {bytes(frame[-4:])!r}")
