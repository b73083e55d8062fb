"""Write tiny datasets with the real writer, from records built byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from crc32c import crc32c

from datafeed.commit import commit
from datafeed.footer import Place
from datafeed.frames import compress
from datafeed.header import DatasetHeader, make_header
from datafeed.manifest import Manifest
from datafeed.schema import Schema, stored
from datafeed.seektable import BlockColumns
from datafeed.shard import ShardInfo, ShardWriter, shard_name
from datafeed.storage import Store, open_store

Value = bytes | Sequence[bytes] | Sequence[int] | Sequence[float]
SCHEMA = Schema([stored("x", "int64"), stored("name", "utf8")])


def varint(value: int) -> bytes:
    """Encode an integer of 64 bits as protobuf does, negative ones in ten bytes."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def part(number: int, data: bytes) -> bytes:
    """Encode a length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(value: Value) -> bytes:
    """Encode a tf.train.Feature: bytes, a list of bytes, of ints (packed) or of floats (packed)."""
    values = [value] if isinstance(value, bytes) else list(value)
    if values and isinstance(values[0], bytes):
        return part(1, b"".join(part(1, item) for item in values))
    if values and isinstance(values[0], float):
        return part(2, part(1, struct.pack(f"<{len(values)}f", *values)))
    return part(3, part(1, b"".join(varint(item) for item in values)) if values else b"")


def example(features: Mapping[str, Value]) -> bytes:
    """Encode a tf.train.Example, its features in the order given."""
    entries = [part(1, part(1, name.encode()) + part(2, feature(value))) for name, value in features.items()]
    return part(1, b"".join(entries))


def feature_lists(lists: Mapping[str, Sequence[bytes]]) -> bytes:
    """Encode the feature lists of a tf.train.SequenceExample, whose steps are encoded Features."""
    entries = [
        part(1, part(1, name.encode()) + part(2, b"".join(part(1, step) for step in steps)))
        for name, steps in lists.items()
    ]
    return part(2, b"".join(entries))


def sequence_example(context: Mapping[str, Value], lists: Mapping[str, Sequence[Value]]) -> bytes:
    """Encode a tf.train.SequenceExample."""
    return example(context) + feature_lists({name: [feature(step) for step in steps] for name, steps in lists.items()})


def mask(crc: int) -> int:
    """Mask a CRC as TFRecord does."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record: bytes) -> bytes:
    """Frame one record as TFRecord does."""
    length = struct.pack("<Q", len(record))
    return b"".join([length, struct.pack("<I", mask(crc32c(length))), record, struct.pack("<I", mask(crc32c(record)))])


def framed(records: Sequence[bytes]) -> bytes:
    """Frame records end to end."""
    return b"".join(map(frame, records))


def record(number: int) -> bytes:
    """Return record `number` of a tiny dataset."""
    return example({"x": [number], "name": f"sample {number}".encode()})


def write_shard(
    store: Store, header: DatasetHeader, number: int, blocks: Sequence[Sequence[bytes]], *, last: bool
) -> tuple[ShardInfo, BlockColumns]:
    """Write one shard of blocks of records."""
    with store.writer(shard_name(number)) as sink:
        writer = ShardWriter(sink, header, number)
        for records in blocks:
            raw = framed(records)
            writer.add(compress(raw, header.level), len(raw), len(records))
        info = writer.finish(begin=Place(number, 0), end=Place(number + 1, 0), skipped=0, last=last)
    return info, writer.columns()


def write_dataset(
    url: str,
    *,
    shards: int = 2,
    blocks: int = 3,
    records: int = 4,
    seed: str = "",
    extent_size: int = 2 * 2**20,
) -> tuple[Store, Manifest]:
    """Write a dataset of equal shards, whose record i is `record(i)`."""
    store = open_store(url)
    provenance = {"source": "tiny", "seed": seed}
    header = make_header(SCHEMA, block_size=4096, level=3, provenance=provenance, extent_size=extent_size)
    pairs = []
    number = 0
    for shard in range(shards):
        parts = []
        for _ in range(blocks):
            parts.append([record(number + row) for row in range(records)])
            number += records
        pairs.append(write_shard(store, header, shard, parts, last=shard == shards - 1))
    return store, commit(store, header, "zstd", [info for info, _ in pairs], [columns for _, columns in pairs])


def damage(store: Store, name: str, data: bytes) -> None:
    """Replace an object's bytes."""
    with store.writer(name) as sink:
        sink.write(data)


def shard_of(store: Store, header: DatasetHeader, frames: Sequence[tuple[bytes, int, int]]) -> ShardInfo:
    """Write and commit a dataset of one shard from frames as they are: stored bytes, raw size, records."""
    with store.writer(shard_name(0)) as sink:
        writer = ShardWriter(sink, header, 0)
        for block, raw, records in frames:
            writer.add(block, raw, records)
        info = writer.finish(begin=Place(0, 0), end=Place(1, 0), skipped=0, last=True)
    commit(store, header, "zstd", [info], [writer.columns()])
    return info


def odd_dataset(folder: Path) -> str:
    """Write one record with values of many kinds, some of which a terminal would obey."""
    schema = Schema(
        [
            stored("a\x1b[31m", "utf8"),
            stored("blob", "bytes", media="image/png"),
            stored("label", "int64", classes=("cat", "dog\n")),
            stored("x", "float32", (3,)),
            stored("tags", "utf8", (None,)),
            stored("gone", "utf8", optional=True),
        ]
    )
    header = make_header(schema, block_size=4096, level=3, provenance={"source": "odd\x07", "options": {"limit": None}})
    record = example(
        {
            "a\x1b[31m": "red\x1b]0;title\x07 \u202e".encode(),
            "blob": bytes(range(40)),
            "label": [1],
            "x": [1.5, float("nan"), float("-inf")],
            "tags": [b"one", "zw\u00f6lf".encode()],
        }
    )
    store = open_store(str(folder))
    info, columns = write_shard(store, header, 0, [[record]], last=True)
    commit(store, header, "zstd", [info], [columns])
    return str(folder)
