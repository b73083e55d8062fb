"""Shards: the bytes of footer and seek table, and what reading them refuses."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import tiny
from crc32c import crc32c

from datafeed.errors import CorruptData, CorruptIndex, NotAShard, TruncatedShard, UnsupportedVersion
from datafeed.footer import Place, encode_footer, read_footer
from datafeed.frames import compress
from datafeed.header import make_header
from datafeed.seektable import decode_table, encode_table
from datafeed.shard import ShardWriter, shard_name
from datafeed.storage import Store, open_store

_HEADER = make_header(tiny.SCHEMA, block_size=4096, level=3, provenance={"source": "tiny"})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Give a store, in memory since it is written a thousand times, with a shard of three blocks."""
    store = open_store(f"memory://shards/{tmp_path.name}")
    tiny.write_shard(store, _HEADER, 7, [[b"a"], [b"b", b"c"], [b""] * 3], last=True)
    return store


def test_shard_name_has_six_digits() -> None:
    """Names sort as numbers do, up to a million."""
    assert shard_name(42) == "shard-000042.tfrecord.zst"
    assert shard_name(1234567) == "shard-1234567.tfrecord.zst"


def test_encode_table_gives_literal_bytes() -> None:
    """Entries of two blocks and the footer, then count, descriptor and magic, as the seekable format has them."""
    columns = (np.array(values, np.uint32) for values in ((10, 20), (100, 200), (0xAABBCCDD, 1)))
    expected = (
        "5e2a4d18 2d000000"
        "0a000000 64000000 ddccbbaa  14000000 c8000000 01000000  4d000000 00000000 99e9d851"
        "03000000 80 b1ea928f"
    )
    table = encode_table(*columns, 77)
    assert table == bytes.fromhex(expected.replace(" ", ""))
    stored, raw, checksum, footer_nbytes = decode_table(table, 107, "x")
    assert (stored.tolist(), raw.tolist(), checksum.tolist()) == ([10, 20], [100, 200], [0xAABBCCDD, 1])
    assert footer_nbytes == 77


def test_footer_has_the_documented_bytes(store: Store) -> None:
    """Every field of the footer frame stands where the format puts it."""
    data = store.read(shard_name(7))
    frames = b"".join(compress(tiny.framed(records), 3) for records in ([b"a"], [b"b", b"c"], [b""] * 3))
    assert data.startswith(frames)
    magic, nbytes, tag, version, length = struct.unpack_from("<II4sII", data, len(frames))
    assert (magic, tag, version) == (0x184D2A5D, b"DFSF", 1)
    payload = data[len(frames) + 8 : len(frames) + 8 + nbytes]
    facts = json.loads(payload[12 : 12 + length])
    assert facts == {
        "header": _HEADER.to_json(),
        "number": 7,
        "begin": {"task": 7, "block": 0},
        "end": {"task": 8, "block": 0},
        "skipped": 0,
        "last": True,
        "records": 6,
    }
    assert struct.unpack_from("<4I", payload, 12 + length) == (3, 1, 2, 3)
    assert payload[-36:-4] == hashlib.sha256(frames).digest()
    assert struct.unpack("<I", payload[-4:])[0] == crc32c(payload[:-4])
    assert len(data) == len(frames) + 8 + nbytes + 8 + 4 * 12 + 9


def test_read_footer_returns_what_was_written(store: Store) -> None:
    """Header, place, counts and columns come back, at one small read's cost."""
    footer = read_footer(store, shard_name(7))
    assert footer.header == _HEADER
    assert (footer.number, footer.begin, footer.end) == (7, Place(7, 0), Place(8, 0))
    assert (footer.skipped, footer.last, footer.nbytes) == (0, True, store.size(shard_name(7)))
    assert footer.blocks.records.tolist() == [1, 2, 3]
    assert footer.blocks.raw.tolist() == [17, 34, 48]


def test_read_footer_reads_on_where_the_first_read_was_too_small(tmp_path: Path) -> None:
    """A shard of 8,000 blocks has a table larger than the first guess."""
    store = open_store(tmp_path)
    tiny.write_shard(store, _HEADER, 0, [[b"%d" % number] for number in range(8000)], last=False)
    footer = read_footer(store, shard_name(0))
    assert len(footer.blocks) == 8000
    assert int(footer.blocks.stored.sum()) < footer.nbytes


def test_writer_tells_sizes_as_it_goes(tmp_path: Path) -> None:
    """`stored` grows by each frame, and the info is that of the file."""
    store = open_store(tmp_path)
    with store.writer(shard_name(0)) as sink:
        writer = ShardWriter(sink, _HEADER, 0)
        frame = compress(tiny.framed([b"x"]), 3)
        writer.add(frame, 17, 1)
        assert (writer.stored, writer.raw, writer.records, len(writer.columns())) == (len(frame), 17, 1, 1)
        info = writer.finish(begin=Place(0, 0), end=Place(0, 1), skipped=3, last=False)
    data = store.read(shard_name(0))
    assert (info.nbytes, info.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (info.name, info.raw_bytes, info.records, info.blocks, info.skipped) == (shard_name(0), 17, 1, 1, 3)


def test_shard_without_blocks_is_read(tmp_path: Path) -> None:
    """A dataset of nothing still has a shard that says so."""
    store = open_store(tmp_path)
    tiny.write_shard(store, _HEADER, 0, [], last=True)
    assert len(read_footer(store, shard_name(0)).blocks) == 0


def test_f44_footer_of_a_cut_shard_is_refused_at_every_length(store: Store) -> None:
    """Whatever is missing at the end, the error names the shard."""
    data = store.read(shard_name(7))
    for nbytes in range(len(data)):
        tiny.damage(store, "cut", data[:nbytes])
        with pytest.raises(TruncatedShard) as caught:
            read_footer(store, "cut")
        assert caught.value.shard == "cut"


def test_f45_flipped_footer_bits_are_found(store: Store) -> None:
    """Every bit behind the blocks is an error, but those of the table that only frames can prove."""
    data = store.read(shard_name(7))
    start = int(read_footer(store, shard_name(7)).blocks.stored.sum())
    table = len(data) - 9 - 4 * 12
    provable_by_frames = {table + 12 * row + byte for row in range(3) for byte in range(4, 12)}
    for bit in range(start * 8, len(data) * 8):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        tiny.damage(store, "flip", bytes(wrong))
        if bit // 8 in provable_by_frames:
            read_any(store)
            continue
        with pytest.raises(CorruptData) as caught:
            read_footer(store, "flip")
        assert caught.value.shard == "flip"


def read_any(store: Store) -> None:
    """Read the flipped footer: it may be refused, never crash."""
    try:
        read_footer(store, "flip")
    except CorruptIndex:
        return


def test_f43_html_is_no_shard(store: Store) -> None:
    """Something else altogether is called that."""
    tiny.damage(store, "page", b"<html>" * 10)
    with pytest.raises(NotAShard, match="<html>"):
        read_footer(store, "page")


def test_later_version_is_refused_by_its_number(store: Store) -> None:
    """A footer of version 2 with a right CRC names both versions."""
    data = bytearray(store.read(shard_name(7)))
    start = data.index(b"DFSF")
    end = data.rindex(b"\x5e\x2a\x4d\x18")
    data[start + 4] = 2
    data[end - 4 : end] = struct.pack("<I", crc32c(data[start : end - 4]))
    tiny.damage(store, "later", bytes(data))
    with pytest.raises(UnsupportedVersion, match="version 2 of the format, known is 1"):
        read_footer(store, "later")


@pytest.mark.parametrize(("records", "total"), [([1, 2, 3], 7), ([1, 0, 5], 6)])
def test_f51_counts_that_contradict_each_other_are_refused(store: Store, records: list[int], total: int) -> None:
    """A footer whose CRC is right still has to add up, and no block is empty."""
    footer = read_footer(store, shard_name(7))
    data = store.read(shard_name(7))
    end = int(footer.blocks.stored.sum())
    facts: dict[str, object] = {
        "header": footer.header.to_json(),
        "number": 7,
        "begin": {"task": 7, "block": 0},
        "end": {"task": 8, "block": 0},
        "skipped": 0,
        "last": True,
        "records": total,
    }
    frame = encode_footer(facts, np.array(records, np.uint32), footer.digest)
    table = encode_table(footer.blocks.stored, footer.blocks.raw, footer.blocks.checksum, len(frame))
    tiny.damage(store, "wrong", data[:end] + frame + table)
    with pytest.raises(CorruptIndex, match=f"counts {total} records, its blocks 6"):
        read_footer(store, "wrong")


def test_missing_shard_is_a_file_not_found_error(store: Store) -> None:
    """No shard, no guess."""
    with pytest.raises(FileNotFoundError):
        read_footer(store, "nope")
