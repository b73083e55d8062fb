"""Index plain TFRecord files where they lie."""

from __future__ import annotations

import hashlib
import logging
import struct
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from datafeed import __version__
from datafeed._native import Block, Parser, crc32c, masked_crc32c
from datafeed.commit import commit
from datafeed.errors import (
    CorruptData,
    CorruptRecord,
    DatasetNotFound,
    EmptySource,
    NotAShard,
    OutputDiffers,
    RecordTooLarge,
    SchemaError,
)
from datafeed.footer import read_footer
from datafeed.frames import zstd_version
from datafeed.framing import FRAMING_NBYTES, LARGEST_NBYTES
from datafeed.header import canonical, make_header
from datafeed.infer import has_feature_lists, infer_schema
from datafeed.manifest import (
    INDEX_NAME,
    MANIFEST_NAME,
    PLAN_NAME,
    Manifest,
    check_name,
    how_to_finish,
    read_manifest,
)
from datafeed.packing import packing
from datafeed.rebuild import shard_numbers
from datafeed.schema import Schema
from datafeed.seektable import BlockColumns
from datafeed.shard import ShardInfo, shard_name
from datafeed.sizes import counted
from datafeed.storage import Store

_LOG = logging.getLogger(__name__)
_HEAD = struct.Struct("<QI")
_READ_NBYTES = 8 * 2**20
_SAMPLE_RECORDS = 1000
_Pairs = list[tuple[ShardInfo, BlockColumns]]
_SUFFIXES = (".tfrecord", ".tfrecords", ".tfrec", ".record")


def index_foreign(store: Store, *, schema: Schema | None = None, block_size: int = 256 * 2**10) -> Manifest:
    """Walk the plain TFRecord files of a store once, checking every CRC, and commit an index over them.

    Files are taken by what they hold, so `train-00000-of-01024` is found too; others are left alone.

    Args:
        store: Where the files are; the index is written beside them.
        schema: What the records hold, compared with the first 1,000; drawn from them where it is None.
        block_size: Bytes at which a block, the unit of reading, is closed.

    Returns:
        The manifest, with codec "none".

    Raises:
        EmptySource: No file holds TFRecords.
        NotAShard: A file is compressed, or named as a TFRecord file while it holds something else.
        CorruptRecord: A record is damaged or cut; with `shard` (the file), `record` and `offset`.
        RecordTooLarge: A record passes 2**31 - 1 bytes.
        SchemaError: A record is no tf.train.Example, or does not fit the schema that was given.
        OutputDiffers: A converted dataset stands there, or a part of one.
        OutputError: The index cannot be written.
    """
    _refuse_converted(store)
    names = [name for name in store.names() if name not in {MANIFEST_NAME, INDEX_NAME} and _is_tfrecord(store, name)]
    if not names:
        raise EmptySource(f"no plain TFRecord file at {store.url}: name the directory that holds them")
    _report_collisions(names)
    pairs = [_index_file(store, name, block_size) for name in names]
    if schema is None:
        schema = infer_schema(_examples(islice(_records(store, pairs), _SAMPLE_RECORDS)))
    else:
        _check_fit(store, pairs, schema)
    listing = hashlib.sha256(canonical([[info.name, info.nbytes, info.sha256] for info, _ in pairs])).hexdigest()
    provenance = {
        "kind": "tfrecord",
        "source": ".",
        "options": {},
        "writer": f"datafeed {__version__}",
        "zstd": zstd_version(),
        "listing": listing,
    }
    header = make_header(schema, block_size=block_size, level=0, provenance=provenance)
    return commit(store, header, "none", [info for info, _ in pairs], [blocks for _, blocks in pairs])


def _refuse_converted(store: Store) -> None:
    try:
        codec = read_manifest(store).codec
    except (DatasetNotFound, CorruptData):
        if store.exists(PLAN_NAME) or any(_is_shard(store, shard_name(number)) for number in shard_numbers(store)):
            raise OutputDiffers(f"{store.url} holds {how_to_finish(store, store.names())}") from None
        return
    if codec != "none":
        raise OutputDiffers(f"a converted dataset stands at {store.url}: `datafeed index --rebuild` renews its index")


def _is_shard(store: Store, name: str) -> bool:
    try:
        read_footer(store, name)
    except CorruptData:
        return False
    return True


def _is_tfrecord(store: Store, name: str) -> bool:
    wrong = check_name(name)
    if wrong:
        raise NotAShard(f"its name is refused: {wrong}", shard=repr(name))
    named_so = name.lower().endswith(_SUFFIXES) or ".tfrecord-" in name
    nbytes = store.size(name)
    head = store.read_range(name, 0, min(nbytes, _HEAD.size))
    if not nbytes or (nbytes >= _HEAD.size and _HEAD.unpack(head)[1] == masked_crc32c(head[:8])):
        return named_so or bool(nbytes)
    packed = packing(head)
    if packed and (named_so or ".tfrec" in name):
        advice = "unpack it with `zstd -d`" if packed == "zstd" else "run `datafeed convert`"
        raise NotAShard(f"it is packed with {packed}, which has no random access: {advice}", shard=name)
    if named_so:
        reason = f"expected a TFRecord, whose length carries its CRC, found {head!r} in {counted(nbytes, 'byte')}"
        raise CorruptRecord(reason, shard=name, record=0, offset=0)
    _LOG.info("%r holds no TFRecords: left alone", name)
    return False


def _report_collisions(names: list[str]) -> None:
    by_case: dict[str, str] = {}
    for name in names:
        other = by_case.setdefault(name.casefold(), name)
        if other != name:
            _LOG.warning("%r and %r differ by case alone: some file systems cannot hold both", other, name)


def _index_file(store: Store, name: str, block_size: int) -> tuple[ShardInfo, BlockColumns]:
    sha256 = hashlib.sha256()
    rows: list[tuple[int, int, int]] = []
    records = offset = 0
    for raw, count in _blocks(store, name, block_size):
        try:
            Block(raw, count, check_payload=True)
        except CorruptRecord as exc:
            raise CorruptRecord(
                exc.reason, shard=name, record=records + exc.record, offset=offset + exc.offset
            ) from exc
        sha256.update(raw)
        rows.append((raw.nbytes, count, crc32c(raw)))
        records += count
        offset += raw.nbytes
    columns = np.array(rows, np.uint32).reshape(len(rows), 3).T.copy()
    blocks = BlockColumns(columns[0], columns[0], columns[1], columns[2])
    return ShardInfo(name, offset, offset, records, len(rows), sha256.hexdigest(), 0), blocks


def _blocks(store: Store, name: str, block_size: int) -> Iterator[tuple[memoryview, int]]:
    """Yield the bytes of whole records, up to `block_size` unless one alone is larger, with their count."""
    nbytes = store.size(name)
    data = memoryview(b"")
    start = position = count = record = 0  # start and position in `data`, which ends at byte `end` of the file
    end = 0
    while True:
        if data.nbytes - position < _HEAD.size and end < nbytes:
            data, end = _more(store, name, data[start:], (end, nbytes, _READ_NBYTES))
            position -= start
            start = 0
        if position == data.nbytes:
            break
        place = (name, record, end - data.nbytes + position)
        stop = position + _record_nbytes(data[position : position + _HEAD.size], place, nbytes)
        if count and stop - start > block_size:
            yield data[start:position], count
            start, count = position, 0
        if stop > data.nbytes:
            data, end = _more(store, name, data[start:], (end, nbytes, max(_READ_NBYTES, stop - data.nbytes)))
            stop, position, start = stop - start, position - start, 0
        position = stop
        count += 1
        record += 1
    if count:
        yield data[start:position], count


def _more(store: Store, name: str, rest: memoryview, span: tuple[int, int, int]) -> tuple[memoryview, int]:
    start, nbytes, wanted = span
    end = min(start + wanted, nbytes)
    return memoryview(bytes(rest) + store.read_range(name, start, end)), end


def _record_nbytes(head: memoryview, place: tuple[str, int, int], nbytes: int) -> int:
    name, record, offset = place
    if head.nbytes < _HEAD.size:
        raise CorruptRecord("the file ends inside the record's head", shard=name, record=record, offset=offset)
    length, crc = _HEAD.unpack(head)
    if masked_crc32c(head[:8]) != crc:
        raise CorruptRecord("the CRC of its length is wrong", shard=name, record=record, offset=offset)
    if length > nbytes - offset - FRAMING_NBYTES:
        reason = f"it has {counted(length, 'byte')} by its head, the file ends at byte {nbytes}"
        raise CorruptRecord(reason, shard=name, record=record, offset=offset)
    if length > LARGEST_NBYTES:
        raise RecordTooLarge(f"record {record} of {name!r} has {length:,} bytes, the limit is {LARGEST_NBYTES:,}")
    return int(length) + FRAMING_NBYTES


def _records(store: Store, pairs: _Pairs) -> Iterator[memoryview]:
    for _, _, block in _indexed(store, pairs):
        yield from (block.record(row) for row in range(len(block)))


def _examples(records: Iterable[memoryview]) -> Iterator[memoryview]:
    """Hand on Examples; what is no message is left for the schema to refuse by its row."""
    for record in records:
        try:
            sequence = has_feature_lists(record)
        except SchemaError:
            sequence = False
        if sequence:
            raise SchemaError(
                "the records are tf.train.SequenceExamples, whose feature lists cannot be read in place: convert them"
            )
        yield record


def _check_fit(store: Store, pairs: _Pairs, schema: Schema) -> None:
    parser = Parser(schema.features)
    left = _SAMPLE_RECORDS
    for name, first, block in _indexed(store, pairs):
        rows = np.arange(min(left, len(block)), dtype=np.int32)
        try:
            parser.parse([block], np.zeros(len(rows), np.int32), rows)
        except SchemaError as exc:
            place = f"record {first + exc.row} of {name!r}"
            raise SchemaError(f"{place} does not fit the schema given: {exc.reason}", feature=exc.feature) from exc
        left -= len(rows)
        if not left:
            return


def _indexed(store: Store, pairs: _Pairs) -> Iterator[tuple[str, int, Block]]:
    """Yield each file's blocks, with the number of their first record in it."""
    for info, blocks in pairs:
        start = first = 0
        for nbytes, count in zip(blocks.raw.tolist(), blocks.records.tolist(), strict=True):
            yield info.name, first, Block(store.read_range(info.name, start, start + nbytes), count)
            start += nbytes
            first += count
