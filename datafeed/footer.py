"""Encode the footer by which a shard describes itself.

The footer is a skippable zstd frame between the last block and the seek table, so `zstd -dc` passes over it. Payload,
little-endian: tag "DFSF", u32 version, u32 length of the JSON that follows, canonical JSON, u32 blocks, u32 records of
each block, SHA-256 of the shard's bytes before this frame, u32 CRC32C of the payload before it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from datafeed._native import crc32c
from datafeed.errors import CorruptData, CorruptIndex, NotAShard, TruncatedShard, UnsupportedVersion
from datafeed.frames import MAGIC
from datafeed.header import VERSION, DatasetHeader, Fields, canonical
from datafeed.seektable import HEAD, SEEKABLE_MAGIC, TAIL, U32, BlockColumns, decode_table, table_nbytes
from datafeed.sizes import counted
from datafeed.storage import Store

FOOTER_MAGIC = 0x184D2A5D
_TAG = b"DFSF"
_HEAD = struct.Struct("<4sII")
_U32 = struct.Struct("<I")
_DIGEST_NBYTES = 32
_GUESS = 2**16  # table and footer of a 100 MB shard, 400 blocks, take about 8 KiB: one read serves most


@dataclass(frozen=True, slots=True)
class Place:
    """Name a position in a conversion's plan: block number `block` of task `task`."""

    task: int
    block: int


@dataclass(frozen=True, slots=True)
class Run:
    """Name the run that wrote a shard.

    Args:
        number: 0 for the dataset's own conversion, then one for each time that shards were appended to it.
        provenance: Where the samples of an appended run came from, as JSON values; nothing for run 0, of which the
            header speaks.
    """

    number: int = 0
    provenance: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Footer:
    """Hold what a shard says about itself.

    Args:
        header: What it says about its dataset.
        number: Its number in the dataset.
        begin: Where in the conversion's plan it begins.
        end: Where the next one begins.
        skipped: Items of the source that it should hold, but that were skipped as bad.
        last: Whether it ends its run.
        run: The run that wrote it.
        blocks: Its blocks.
        digest: The SHA-256 of the bytes before the footer.
        nbytes: The shard's stored bytes, footer and table included.
    """

    header: DatasetHeader
    number: int
    begin: Place
    end: Place
    skipped: int
    last: bool
    run: Run
    blocks: BlockColumns
    digest: bytes
    nbytes: int


def encode_footer(facts: dict[str, object], records: U32, digest: bytes) -> bytes:
    """Return the footer frame.

    Args:
        facts: The JSON value, as `Footer` names its fields.
        records: The records of each block.
        digest: The SHA-256 of the shard's bytes before the frame.

    Returns:
        The frame.
    """
    text = canonical(facts)
    payload = b"".join(
        [_HEAD.pack(_TAG, VERSION, len(text)), text, _U32.pack(len(records)), records.astype("<u4").tobytes(), digest]
    )
    payload += _U32.pack(crc32c(payload))
    return HEAD.pack(FOOTER_MAGIC, len(payload)) + payload


def read_footer(store: Store, name: str) -> Footer:
    """Read what a shard says about itself: two or three small reads, none of its blocks.

    Args:
        store: Where the shard is.
        name: The shard.

    Returns:
        The footer; every count in it agrees with every other.

    Raises:
        FileNotFoundError: There is no such shard.
        NotAShard: The object is something else.
        TruncatedShard: It ends too early.
        CorruptIndex: Footer or seek table are damaged.
        UnsupportedVersion: A later release wrote it.
    """
    nbytes = store.size(name)
    tail = store.read_range(name, max(nbytes - _GUESS, 0), nbytes)
    if len(tail) < TAIL.size or _U32.unpack_from(tail, len(tail) - 4)[0] != SEEKABLE_MAGIC:
        raise _no_end(store, name, nbytes)
    frames = TAIL.unpack_from(tail, len(tail) - TAIL.size)[0]
    start = nbytes - table_nbytes(frames)
    if start < 0:
        reason = f"the seek table counts {counted(frames, 'frame')}, more than {counted(nbytes, 'byte')} can hold"
        raise CorruptIndex(reason, shard=name, offset=nbytes - TAIL.size)
    stored, raw, checksum, footer_nbytes = decode_table(_end(store, name, tail, (start, nbytes)), start, name)
    frame = _end(store, name, tail, (start - footer_nbytes, nbytes))[:footer_nbytes]
    facts, records, digest = _decode_footer(frame, len(stored), name)
    return _checked(facts, BlockColumns(stored, raw, records, checksum), digest, (name, nbytes))


def _end(store: Store, name: str, tail: bytes, part: tuple[int, int]) -> bytes:
    start, end = part
    return tail[len(tail) - (end - start) :] if end - start <= len(tail) else store.read_range(name, start, end)


def _no_end(store: Store, name: str, nbytes: int) -> CorruptData:
    head = store.read_range(name, 0, min(nbytes, 16))
    if nbytes < 4 or int.from_bytes(head[:4], "little") in {MAGIC, FOOTER_MAGIC}:
        return TruncatedShard(f"the shard ends at byte {nbytes} without its seek table", shard=name, offset=nbytes)
    return NotAShard(f"expected a zstd shard, found {counted(nbytes, 'byte')}, beginning with {head!r}", shard=name)


def _decode_footer(frame: bytes, blocks: int, name: str) -> tuple[Fields, U32, bytes]:
    least = HEAD.size + _HEAD.size + 2 * _U32.size + 4 * blocks + _DIGEST_NBYTES
    if len(frame) < least or HEAD.unpack_from(frame) != (FOOTER_MAGIC, len(frame) - HEAD.size):
        raise CorruptIndex("no footer frame stands before the seek table", shard=name)
    tag, version, length = _HEAD.unpack_from(frame, HEAD.size)
    if tag != _TAG:
        raise CorruptIndex(f"the footer's tag is {tag!r}, expected {_TAG!r}", shard=name)
    if crc32c(frame[HEAD.size : -4]) != _U32.unpack_from(frame, len(frame) - 4)[0]:
        raise CorruptIndex("the footer's CRC32C does not match", shard=name)
    if version > VERSION:
        raise UnsupportedVersion(f"the shard has version {version} of the format, known is {VERSION}", shard=name)
    start = HEAD.size + _HEAD.size
    if version < 1 or least + length != len(frame) or _U32.unpack_from(frame, start + length)[0] != blocks:
        raise CorruptIndex(f"the footer does not speak of the seek table's {counted(blocks, 'block')}", shard=name)
    try:
        facts = Fields(json.loads(frame[start : start + length]), name)
    except (ValueError, RecursionError) as exc:
        raise CorruptIndex(f"the footer holds no JSON: {exc}", shard=name) from exc
    records = np.frombuffer(frame, "<u4", blocks, start + length + 4).astype(np.uint32)
    return facts, records, frame[-4 - _DIGEST_NBYTES : -4]


def _checked(facts: Fields, blocks: BlockColumns, digest: bytes, place: tuple[str, int]) -> Footer:
    name, nbytes = place
    records = facts.integer("records")
    held = int(blocks.records.sum(dtype=np.int64))
    if held != records or (len(blocks) and min(int(column.min()) for column in blocks.columns()[:3]) < 1):
        raise CorruptIndex(
            f"the footer counts {counted(records, 'record')}, its blocks {held:,}, none empty", shard=name
        )
    return Footer(
        header=DatasetHeader.from_json(facts.value("header"), name=name),
        number=facts.integer("number"),
        begin=_place(facts, "begin"),
        end=_place(facts, "end"),
        skipped=facts.integer("skipped"),
        last=facts.flag("last"),
        run=_run(facts),
        blocks=blocks,
        digest=digest,
        nbytes=nbytes,
    )


def _run(facts: Fields) -> Run:
    if not facts.has("run"):
        return Run()
    run = facts.within("run")
    return Run(run.integer("number", least=1), run.mapping("provenance"))


def _place(facts: Fields, key: str) -> Place:
    pair = facts.within(key)
    return Place(pair.integer("task"), pair.integer("block"))
