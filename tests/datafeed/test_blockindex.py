"""The block index: its bytes, its sums, and what reading it refuses."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest
import tiny
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from datafeed._native import cut_extents
from datafeed.blockindex import build_index, encode_index, read_index
from datafeed.errors import CorruptData, CorruptIndex, IndexMismatch, StaleIndex, UnsupportedVersion
from datafeed.frames import compress
from datafeed.manifest import Manifest
from datafeed.seektable import BlockColumns
from datafeed.storage import Store


def columns(*rows: tuple[int, int, int, int]) -> BlockColumns:
    """Build the columns of a shard from its rows."""
    return BlockColumns(*np.array(rows, np.uint32).reshape(len(rows), 4).T.copy())


_SHARDS = (columns((10, 100, 2, 7), (20, 100, 3, 8)), columns(), columns((5, 50, 1, 9)))


def test_encode_index_has_the_documented_bytes() -> None:
    """Magic, version, shards, id, table, CRC, then a frame of columns per shard."""
    data = encode_index("00112233445566778899aabbccddeeff", _SHARDS)
    frames = [
        compress(struct.pack("<8I", 10, 20, 100, 100, 2, 3, 7, 8), 3),
        compress(struct.pack("<4I", 5, 50, 1, 9), 3),
    ]
    start = 32 + 3 * 16 + 4
    head = b"DFBLKIDX" + struct.pack("<II", 1, 3) + bytes.fromhex("00112233445566778899aabbccddeeff")
    head += struct.pack("<QII", start, len(frames[0]), 2)
    head += struct.pack("<QII", start + len(frames[0]), 0, 0)
    head += struct.pack("<QII", start + len(frames[0]), len(frames[1]), 1)
    assert data == head + struct.pack("<I", crc32c(head)) + b"".join(frames)


def test_build_index_sums_sizes() -> None:
    """Offsets begin anew in each shard, record numbers go on."""
    index = build_index(_SHARDS, 1000)
    assert index.shard.tolist() == [0, 0, 2]
    assert index.offset.tolist() == [0, 10, 0]
    assert index.first.tolist() == [0, 2, 5, 6]
    assert index.extents.tolist() == [0, 2, 3]
    assert (index.stored.tolist(), index.raw.tolist()) == ([10, 20, 5], [100, 100, 50])
    assert len(build_index((), 1000)) == 0
    assert build_index((), 1000).extents.tolist() == [0]


@given(sizes=st.lists(st.lists(st.integers(1, 50), max_size=12), max_size=4), extent_size=st.integers(1, 120))
@settings(deadline=None)
def test_extents_close_when_they_reach_the_size(sizes: list[list[int]], extent_size: int) -> None:
    """An extent has just as many blocks as bring it to the size, and none crosses a shard."""
    index = build_index([columns(*((size, 16, 1, 0) for size in shard)) for shard in sizes], extent_size)
    expected = [0]
    block = 0
    for shard in sizes:
        stored = 0
        for position, size in enumerate(shard):
            block += 1
            stored += size
            if stored >= extent_size or position == len(shard) - 1:
                expected.append(block)
                stored = 0
    assert index.extents.tolist() == expected


def _dataset() -> tuple[Store, Manifest]:
    return tiny.write_dataset("memory://blockindex")


def _replace(store: Store, manifest: Manifest, data: bytes) -> Manifest:
    """Put an index in place whose size and digest the manifest names."""
    tiny.damage(store, "blocks.idx", data)
    return replace(manifest, index_nbytes=len(data), index_sha256=hashlib.sha256(data).hexdigest())


def test_read_index_returns_what_was_committed() -> None:
    """Every block of every shard is there."""
    store, manifest = _dataset()
    index = read_index(store, manifest)
    assert index.shard.tolist() == [0, 0, 0, 1, 1, 1]
    assert index.first.tolist() == [0, 4, 8, 12, 16, 20, 24]


def test_f48_every_flipped_bit_of_the_index_is_found() -> None:
    """Each is an error that names blocks.idx and the way out."""
    store, manifest = _dataset()
    data = store.read("blocks.idx")
    for bit in range(len(data) * 8):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        tiny.damage(store, "blocks.idx", bytes(wrong))
        with pytest.raises(CorruptData, match=r"blocks\.idx.*(--rebuild|newer datafeed)"):
            read_index(store, manifest)


def test_f48_every_shorter_index_is_refused() -> None:
    """Cut anywhere, or missing."""
    store, manifest = _dataset()
    data = store.read("blocks.idx")
    for nbytes in range(len(data)):
        tiny.damage(store, "blocks.idx", data[:nbytes])
        with pytest.raises(CorruptIndex, match=r"blocks\.idx"):
            read_index(store, manifest)
    store.delete("blocks.idx")
    with pytest.raises(CorruptIndex, match=r"blocks\.idx: it is missing: .*--rebuild"):
        read_index(store, manifest)


def test_f49_index_of_an_older_state_is_stale() -> None:
    """A whole index that dataset.json does not mean is not used."""
    store, manifest = _dataset()
    shards = [columns(*((30, 80, 4, 1),) * 3), columns(*((30, 80, 4, 1),) * 3)]
    tiny.damage(store, "blocks.idx", encode_index(manifest.dataset_id, shards))
    with pytest.raises(StaleIndex, match="SHA-256"):
        read_index(store, manifest)
    tiny.damage(store, "blocks.idx", encode_index(manifest.dataset_id, shards[:1]))
    with pytest.raises(StaleIndex, match="of 1 shard and 3 blocks, "):
        read_index(store, manifest)


def test_f49_index_that_differs_in_a_checksum_alone_is_stale() -> None:
    """Equal in size, counts and sums, whole by its own CRC: its SHA-256 still differs."""
    store, manifest = _dataset()
    data = store.read("blocks.idx")
    index = read_index(store, manifest)
    facts = [index.stored, index.raw, index.records, index.checksum ^ np.uint32(1)]
    shards = [BlockColumns(*(values[part].astype(np.uint32) for values in facts)) for part in (slice(3), slice(3, 6))]
    other = encode_index(manifest.dataset_id, shards)
    assert len(other) == len(data)
    assert other != data
    tiny.damage(store, "blocks.idx", other)
    with pytest.raises(StaleIndex, match="SHA-256"):
        read_index(store, manifest)


def test_f48_table_has_a_checksum_of_its_own() -> None:
    """Even where the manifest's SHA-256 is that of the damaged file, a flip in the table is found."""
    store, manifest = _dataset()
    data = store.read("blocks.idx")
    for byte in range(12, 32 + 2 * 16 + 4):
        wrong = bytearray(data)
        wrong[byte] ^= 1
        with pytest.raises(CorruptIndex, match="CRC32C of its table"):
            read_index(store, _replace(store, manifest, bytes(wrong)))


def test_f50_index_of_another_dataset_is_refused() -> None:
    """Both ids are named."""
    store, manifest = _dataset()
    other, _ = tiny.write_dataset("memory://blockindex/other", seed="other")
    tiny.damage(store, "blocks.idx", other.read("blocks.idx"))
    with pytest.raises(IndexMismatch, match=manifest.dataset_id):
        read_index(store, manifest)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"stored": 10**6}, "the shard has"),
        ({"raw": 63}, "bytes and 12 records"),
        ({"records": 5}, "and 13 records"),
        ({"stored": 0}, "are empty"),
    ],
)
def test_f51_index_that_contradicts_the_manifest_is_refused(change: dict[str, int], reason: str) -> None:
    """A right checksum does not make a sum right; zero, overlong and past the end are all found."""
    store, manifest = _dataset()
    index = read_index(store, manifest)
    facts = {key: getattr(index, key).astype(np.uint32) for key in ("stored", "raw", "records", "checksum")}
    for key, value in change.items():
        facts[key][1] = value
    shards = [BlockColumns(*(values[part] for values in facts.values())) for part in (slice(3), slice(3, 6))]
    with pytest.raises(CorruptIndex, match=reason):
        read_index(store, _replace(store, manifest, encode_index(manifest.dataset_id, shards)))


def test_f51_blocks_smaller_than_their_records_are_refused() -> None:
    """Every record takes 16 bytes at least, whatever the sums say."""
    store, manifest = _dataset()
    index = read_index(store, manifest)
    facts = {key: getattr(index, key).astype(np.uint32) for key in ("stored", "raw", "records", "checksum")}
    facts["raw"][:3] = [63, facts["raw"][1], int(facts["raw"][0]) + int(facts["raw"][2]) - 63]
    shards = [BlockColumns(*(values[part] for values in facts.values())) for part in (slice(3), slice(3, 6))]
    with pytest.raises(CorruptIndex, match="fewer bytes than their records take"):
        read_index(store, _replace(store, manifest, encode_index(manifest.dataset_id, shards)))


def test_f51_parts_that_overlap_are_refused() -> None:
    """A table whose CRC is right still has to be end to end, up to the file's end."""
    store, manifest = _dataset()
    data = bytearray(store.read("blocks.idx"))
    end = 32 + 2 * 16
    offset = struct.unpack_from("<Q", data, 32 + 16)[0]
    for wrong in (offset - 1, offset + 1, 0, 2**64 - 1):
        struct.pack_into("<Q", data, 32 + 16, wrong)
        struct.pack_into("<I", data, end, crc32c(bytes(data[:end])))
        with pytest.raises(CorruptIndex, match="not end to end"):
            read_index(store, _replace(store, manifest, bytes(data)))
    struct.pack_into("<Q", data, 32 + 16, offset)
    struct.pack_into("<I", data, end, crc32c(bytes(data[:end])))
    with pytest.raises(CorruptIndex, match="not end to end"):
        read_index(store, _replace(store, manifest, bytes(data) + b"x"))


def test_f53_index_frame_that_grows_is_refused() -> None:
    """A frame of another size than the table's count of blocks is not decompressed."""
    store, manifest = _dataset()
    data = store.read("blocks.idx")
    start, nbytes, _ = struct.unpack_from("<QII", data, 32)
    bomb = compress(bytes(10**7), 3)
    head = bytearray(data[:start])
    struct.pack_into("<I", head, 32 + 8, len(bomb))
    struct.pack_into("<Q", head, 32 + 16, start + len(bomb))
    struct.pack_into("<I", head, start - 4, crc32c(bytes(head[:-4])))
    wrong = bytes(head) + bomb + data[start + nbytes :]
    with pytest.raises(CorruptIndex, match="announces 10000000 raw bytes, the index 48"):
        read_index(store, _replace(store, manifest, wrong))


def test_later_version_is_refused_by_its_number() -> None:
    """An index of version 2 names both versions."""
    store, manifest = _dataset()
    data = bytearray(store.read("blocks.idx"))
    data[8] = 2
    with pytest.raises(UnsupportedVersion, match="version 2 of the format is unknown, the latest known is 1"):
        read_index(store, _replace(store, manifest, bytes(data)))


@pytest.mark.parametrize(("counts", "nbytes"), [([1, 1], 10), ([4, -1], 10), ([], 10), ([3], 0)])
def test_cut_extents_when_counts_do_not_fit(counts: list[int], nbytes: int) -> None:
    """Counts that are not those of the blocks, or an extent of nothing, are refused."""
    with pytest.raises(ValueError, match="counts that add up to 3 blocks"):
        cut_extents(np.ones(3, np.uint32), np.array(counts, np.int64), nbytes)
