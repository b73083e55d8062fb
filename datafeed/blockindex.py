"""Encode the block index, which says where every block of a dataset lies.

`blocks.idx`, little-endian: magic "DFBLKIDX", u32 version, u32 shards, 16-byte dataset id; per shard u64 offset, u32
nbytes, u32 blocks; u32 CRC32C of all before; then per shard one zstd frame of the columns stored, raw, records and
checksum, u32 each. Where a block begins is the sum of the stored sizes before it, so blocks cannot overlap.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datafeed._native import crc32c, cut_extents
from datafeed.errors import CorruptData, CorruptIndex, IndexMismatch, StaleIndex, UnsupportedVersion
from datafeed.frames import compress, decompress
from datafeed.framing import FRAMING_NBYTES
from datafeed.header import VERSION
from datafeed.manifest import Manifest
from datafeed.seektable import BlockColumns
from datafeed.shard import ShardInfo
from datafeed.sizes import counted
from datafeed.storage import Store

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
MAGIC = b"DFBLKIDX"
REBUILD = "run `datafeed index --rebuild`"
_HEAD = struct.Struct("<8sII16s")
_U32 = struct.Struct("<I")
_TABLE = np.dtype([("offset", "<u8"), ("nbytes", "<u4"), ("blocks", "<u4")])
_LEVEL = 3
_BLOCK_NBYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class BlockIndex:
    """Hold where every block of a dataset lies, in the dataset's order. Immutable.

    Args:
        shard: The number of its shard.
        offset: Its first byte in the shard.
        stored: Its stored bytes.
        raw: Its raw bytes.
        records: Its records.
        checksum: The low 32 bits of the XXH64 of its raw bytes; their CRC32C for codec "none".
        first: (blocks + 1) The number of its first record; the dataset's records at the end.
        extents: (extents + 1) The block at which each extent begins; the number of blocks at the end.
    """

    shard: npt.NDArray[np.int32]
    offset: I64
    stored: U32
    raw: U32
    records: U32
    checksum: U32
    first: I64
    extents: I64

    def __len__(self) -> int:
        return len(self.shard)


def build_index(shards: Sequence[BlockColumns], extent_size: int) -> BlockIndex:
    """Join the columns of shards.

    Args:
        shards: Each shard's blocks, in order.
        extent_size: Stored bytes at which an extent is closed; it also ends with its shard.

    Returns:
        The index.
    """
    joined = (
        np.concatenate([np.empty(0, np.uint32), *(blocks.columns()[column] for blocks in shards)])
        for column in range(4)
    )
    return _index(BlockColumns(*joined), np.array([len(blocks) for blocks in shards], np.int64), extent_size)


def _index(blocks: BlockColumns, counts: I64, extent_size: int) -> BlockIndex:
    """Make the index of the blocks of all shards, of which each has so many."""
    offset, extents = cut_extents(blocks.stored, counts, extent_size)
    first = np.zeros(len(blocks) + 1, np.int64)
    np.cumsum(blocks.records, dtype=np.int64, out=first[1:])
    return BlockIndex(
        shard=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        offset=offset,
        stored=blocks.stored,
        raw=blocks.raw,
        records=blocks.records,
        checksum=blocks.checksum,
        first=first,
        extents=extents,
    )


def encode_index(dataset_id: str, shards: Sequence[BlockColumns]) -> bytes:
    """Return the bytes of `blocks.idx`.

    Args:
        dataset_id: The dataset's id.
        shards: Each shard's blocks, in order.

    Returns:
        The bytes: equal for equal arguments on one libzstd.
    """
    frames = [compress(_packed(blocks), _LEVEL) if len(blocks) else b"" for blocks in shards]
    table = np.zeros(len(shards), _TABLE)
    table["nbytes"] = [len(frame) for frame in frames]
    table["blocks"] = [len(blocks) for blocks in shards]
    start = _HEAD.size + table.nbytes + _U32.size
    table["offset"] = start + np.cumsum(table["nbytes"], dtype=np.uint64) - table["nbytes"]
    head = _HEAD.pack(MAGIC, VERSION, len(shards), bytes.fromhex(dataset_id)) + table.tobytes()
    return b"".join([head, _U32.pack(crc32c(head)), *frames])


def _packed(blocks: BlockColumns) -> bytes:
    return b"".join(column.astype("<u4").tobytes() for column in blocks.columns())


def read_index(store: Store, manifest: Manifest) -> BlockIndex:
    """Read a dataset's block index; every count, size and sum is checked against the manifest.

    Args:
        store: Where the dataset is.
        manifest: The dataset's manifest.

    Returns:
        The index.

    Raises:
        CorruptIndex: It is damaged, missing, or speaks of blocks that the shards cannot hold.
        IndexMismatch: It belongs to another dataset.
        StaleIndex: It belongs to another state of this dataset.
        UnsupportedVersion: A later release wrote it.
    """
    counts = np.array([shard.blocks for shard in manifest.shards], np.int64)
    return _index(_read_blocks(store, manifest), counts, manifest.header.extent_size)


def read_columns(store: Store, manifest: Manifest) -> list[BlockColumns]:
    """Read what `read_index` reads, as the columns of each shard; raises as it does."""
    return _by_shard(_read_blocks(store, manifest), manifest)


def _by_shard(blocks: BlockColumns, manifest: Manifest) -> list[BlockColumns]:
    ends = np.cumsum([0, *(shard.blocks for shard in manifest.shards)]).tolist()
    parts = itertools.starmap(slice, itertools.pairwise(ends))
    return [BlockColumns(*(column[part] for column in blocks.columns())) for part in parts]


def _read_blocks(store: Store, manifest: Manifest) -> BlockColumns:
    try:
        return _checked_blocks(store, manifest)
    except CorruptData as exc:
        exc.dataset = store.url
        raise


def _checked_blocks(store: Store, manifest: Manifest) -> BlockColumns:
    """Read the blocks of all shards, end to end."""
    name = manifest.index_name
    try:
        data = store.read(name)
    except FileNotFoundError as exc:
        raise CorruptIndex(f"it is missing: {REBUILD}", shard=name) from exc
    table = _decode_table(data, name)
    dataset_id = _HEAD.unpack_from(data)[3].hex()
    if dataset_id != manifest.dataset_id:
        reason = f"it belongs to dataset {dataset_id}, dataset.json names {manifest.dataset_id}"
        raise IndexMismatch(f"{reason}: {REBUILD}", shard=name)
    found = [int(blocks) for blocks in table["blocks"]]
    if found != [shard.blocks for shard in manifest.shards]:
        reason = f"it speaks of {counted(len(found), 'shard')} and {counted(sum(found), 'block')}, dataset.json of "
        reason += f"{len(manifest.shards):,} and {sum(shard.blocks for shard in manifest.shards):,}"
        raise StaleIndex(f"{reason}: {REBUILD}", shard=name)
    blocks = np.empty((4, sum(found)), np.uint32)
    begin = 0
    for row in table.tolist():
        _decode_shard(data, row, blocks[:, begin : begin + row[2]], name)
        begin += row[2]
    if len(data) != manifest.index_nbytes or hashlib.sha256(data).hexdigest() != manifest.index_sha256:
        reason = (
            f"expected {manifest.index_nbytes:,} bytes of SHA-256 {manifest.index_sha256}, found {len(data):,} others"
        )
        raise StaleIndex(f"{reason}: {REBUILD}", shard=name)
    columns = BlockColumns(*blocks)
    if not _fit(columns, manifest):
        for part, shard in zip(_by_shard(columns, manifest), manifest.shards, strict=True):
            _check_shard(part, shard, manifest)
    return columns


def _decode_table(data: bytes, name: str) -> npt.NDArray[np.void]:
    if len(data) < _HEAD.size or data[:8] != MAGIC:
        raise CorruptIndex(
            f"expected {MAGIC!r}, found {data[:8]!r} in {counted(len(data), 'byte')}: {REBUILD}", shard=name
        )
    _, version, shards, _ = _HEAD.unpack_from(data)
    if version > VERSION:
        reason = f"version {version} of the format is unknown, the latest known is {VERSION}: install a newer datafeed"
        raise UnsupportedVersion(reason, shard=name)
    end = _HEAD.size + shards * _TABLE.itemsize
    if version < 1 or end + 4 > len(data) or crc32c(data[:end]) != _U32.unpack_from(data, end)[0]:
        raise CorruptIndex(f"the CRC32C of its table does not match: {REBUILD}", shard=name)
    table = np.frombuffer(data, _TABLE, shards, _HEAD.size)
    ends = end + 4 + np.cumsum(table["nbytes"], dtype=np.uint64)
    if not np.array_equal(table["offset"], ends - table["nbytes"]) or (int(ends[-1]) if shards else end + 4) != len(
        data
    ):
        raise CorruptIndex(f"its parts are not end to end: {REBUILD}", shard=name)
    return table


def _decode_shard(data: bytes, row: tuple[int, int, int], into: U32, name: str) -> None:
    start, nbytes, blocks = row
    if not blocks:
        return
    try:
        packed = decompress(memoryview(data)[start : start + nbytes], blocks * _BLOCK_NBYTES)
    except CorruptData as exc:
        raise CorruptIndex(f"{exc.reason}: {REBUILD}", shard=name, offset=start) from exc
    into[:] = np.frombuffer(packed, "<u4").reshape(4, blocks)


def _fit(blocks: BlockColumns, manifest: Manifest) -> bool:
    """Tell whether all shards have the blocks that the manifest and the format ask for: as `_check_shard`, at once."""
    shards = manifest.shards
    if not shards or not all(shard.blocks for shard in shards):
        return False
    begins = np.cumsum([0, *(shard.blocks for shard in shards[:-1])])
    stored, raw, records = (np.add.reduceat(column, begins, dtype=np.int64) for column in blocks.columns()[:3])
    nbytes = np.array([shard.nbytes for shard in shards])
    return bool(
        np.array_equal(raw, [shard.raw_bytes for shard in shards])
        and np.array_equal(records, [shard.records for shard in shards])
        and (np.array_equal(stored, nbytes) if manifest.codec == "none" else (stored <= nbytes).all())
        and blocks.stored.min() > 0
        and blocks.records.min() > 0
        and (blocks.raw // np.uint32(FRAMING_NBYTES) >= blocks.records).all()
    )


def _check_shard(blocks: BlockColumns, shard: ShardInfo, manifest: Manifest) -> None:
    stored, raw, records, _ = (int(column.sum(dtype=np.int64)) for column in blocks.columns())
    if (len(blocks), raw, records) != (shard.blocks, shard.raw_bytes, shard.records):
        found = f"{counted(len(blocks), 'block')} of {counted(raw, 'byte')} and {counted(records, 'record')}"
        expected = f"{shard.blocks:,} of {shard.raw_bytes:,} and {shard.records:,}"
        raise CorruptIndex(f"expected {expected} in {shard.name!r}, found {found}", shard=manifest.index_name)
    if stored > shard.nbytes or (manifest.codec == "none" and stored != shard.nbytes):
        reason = f"the blocks of {shard.name!r} take {counted(stored, 'byte')}, the shard has {shard.nbytes:,}"
        raise CorruptIndex(reason, shard=manifest.index_name)
    least = blocks.records.astype(np.int64) * FRAMING_NBYTES
    if len(blocks) and (min(int(blocks.stored.min()), int(blocks.records.min())) < 1 or (blocks.raw < least).any()):
        reason = f"blocks of {shard.name!r} are empty, or hold fewer bytes than their records take"
        raise CorruptIndex(reason, shard=manifest.index_name)
