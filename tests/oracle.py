"""Do what the kernels of datafeed._native do, in plain Python that is easy to check by eye."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from datafeed.columns import Column
from datafeed.errors import CorruptRecord, RecordTooLarge, SchemaError
from datafeed.schema import Feature

RECORD_LIMIT = 2**31 - 1
KINDS = {"bytes": 1, "float": 2, "int64": 3}

Values = list[bytes | int]
"""Bytes values, float values as their 4 bytes (NaNs keep their bits), or integers."""


def as_bytes(value: bytes | int) -> bytes:
    """Return a value of a bytes or float list, which is bytes here."""
    assert isinstance(value, bytes)
    return value


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = [_table_entry(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """Return the CRC32C, a byte at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    """Return the CRC32C as TFRecord masks it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record: bytes) -> bytes:
    """Put a record into TFRecord's framing."""
    length = struct.pack("<Q", len(record))
    return length + struct.pack("<I", masked_crc32c(length)) + record + struct.pack("<I", masked_crc32c(record))


def walk(raw: bytes, records: int = -1, *, check_payload: bool = False) -> list[bytes]:
    """Return the payloads of whole TFRecords; CorruptRecord where `Block` raises it."""
    found: list[bytes] = []
    at = 0
    while at < len(raw):
        bad = CorruptRecord("", record=len(found), offset=at)
        if len(found) == records or len(raw) - at < 16:
            raise bad
        length = int.from_bytes(raw[at : at + 8], "little")
        if masked_crc32c(raw[at : at + 8]) != int.from_bytes(raw[at + 8 : at + 12], "little"):
            raise bad
        end = at + 12 + length
        if end + 4 > len(raw) or length > RECORD_LIMIT:
            raise bad
        payload = raw[at + 12 : end]
        if check_payload and masked_crc32c(payload) != int.from_bytes(raw[end : end + 4], "little"):
            raise bad
        found.append(payload)
        at = end + 4
    if len(found) < records:
        raise CorruptRecord("", record=len(found), offset=at)
    return found


class BrokenWireError(ValueError):
    """Report bytes that are no protobuf message."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint's value, cut to 64 bits, with the byte after it."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value % 2**64, at + i + 1
    raise BrokenWireError


def read_fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Yield number, wire type and value of each field; the value of a fixed-size one is its bytes."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number == 0 or tag >= 2**32 or wire not in {0, 1, 2, 5}:
            raise BrokenWireError
        if wire == 0:
            value, at = read_varint(data, at)
            yield number, wire, value
            continue
        size = {1: 8, 5: 4}.get(wire)
        if size is None:
            size, at = read_varint(data, at)
        if size > len(data) - at:
            raise BrokenWireError
        yield number, wire, data[at : at + size]
        at += size


def _messages(data: bytes, number: int) -> list[bytes]:
    return [value for n, wire, value in read_fields(data) if n == number and wire == 2 and isinstance(value, bytes)]


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _packed(kind: int, data: bytes) -> Values:
    if kind == 2:
        if len(data) % 4:
            raise BrokenWireError
        return [data[i : i + 4] for i in range(0, len(data), 4)]
    at = 0
    numbers: Values = []
    while at < len(data):
        value, at = read_varint(data, at)
        numbers.append(_signed(value))
    return numbers


def _list_values(kind: int, data: bytes) -> Values:
    values: Values = []
    for number, wire, value in read_fields(data):
        if number != 1:
            continue
        if kind == 1:
            values += [value] if wire == 2 else []
        elif wire == 2 and isinstance(value, bytes):
            values += _packed(kind, value)
        elif wire == {2: 5, 3: 0}[kind]:
            values.append(_signed(value) if isinstance(value, int) else value)
    return values


def read_feature(entry: bytes) -> tuple[int, Values]:
    """Return the kind (0 for none) and values that a map entry holds."""
    kind = 0
    values: Values = []
    for feature in _messages(entry, 2):
        for number, wire, body in read_fields(feature):
            if wire != 2 or number > 3 or not isinstance(body, bytes):
                continue
            if number != kind:
                values = []
            kind = number
            values += _list_values(kind, body)
    return kind, values


def read_entries(record: bytes) -> dict[bytes, bytes]:
    """Return the last map entry of each key."""
    entries = {}
    for features in _messages(record, 1):
        for entry in _messages(features, 1):
            entries[(_messages(entry, 1) or [b""])[-1]] = entry
    return entries


def check(feature: Feature, kind: int, values: Values) -> bool:
    """Whether a feature may hold these values."""
    if kind != KINDS[feature.kind]:
        return False
    if feature.raw:
        return _check_raw(feature, [len(as_bytes(value)) for value in values])
    if not feature.numeric:
        return feature.ragged or len(values) == feature.row_items
    if feature.kind == "int64":
        low, high = limits(feature)
        if not all(isinstance(value, int) and low <= value <= high for value in values):
            return False
    return _check_count(feature, len(values), feature.row_items)


def _check_raw(feature: Feature, sizes: list[int]) -> bool:
    if feature.ragged and not sizes:
        return True
    return len(sizes) == 1 and _check_count(feature, sizes[0], feature.row_items * feature.numpy_dtype.itemsize)


def _check_count(feature: Feature, count: int, wanted: int) -> bool:
    if not feature.ragged or not wanted:
        return count == wanted
    return count % wanted == 0


def limits(feature: Feature) -> tuple[int, int]:
    """Return the least and the greatest value of an integer feature."""
    if feature.dtype == "bool":
        return 0, 1
    info = np.iinfo(feature.dtype)
    return int(info.min), int(info.max)


def read_row(features: Sequence[Feature], record: bytes, row: int) -> list[Values | None]:
    """Return each feature's values, None for a missing one; SchemaError where `Parser.parse` raises it."""
    try:
        entries = read_entries(record)
    except BrokenWireError:
        raise SchemaError("", row) from None
    cells: list[Values | None] = []
    for feature in features:
        try:
            kind, values = read_feature(entries.get(feature.name.encode(), b""))
        except BrokenWireError:
            raise SchemaError("", row, feature.name) from None
        if not kind and feature.optional:
            cells.append(None)
        elif check(feature, kind, values):
            cells.append(values)
        else:
            raise SchemaError("", row, feature.name)
    return cells


def parse(features: Sequence[Feature], records: Sequence[bytes]) -> list[Column]:
    """Return the columns of these records."""
    rows = [read_row(features, record, row) for row, record in enumerate(records)]
    return [to_column(feature, [cells[i] for cells in rows]) for i, feature in enumerate(features)]


def to_column(feature: Feature, cells: Sequence[Values | None]) -> Column:
    """Put one feature's values of each record into its column's form."""
    present = np.array([cell is not None for cell in cells], bool) if feature.optional else None
    dtype = feature.numpy_dtype
    if not feature.numeric:
        data = [list(map(as_bytes, cell or [])) for cell in cells]
        flat = [value for cell in data for value in cell]
        values = np.frombuffer(b"".join(flat), np.uint8)
        ends = _offsets([len(value) for value in flat])
        if feature.shape:
            return Column(values, _offsets([len(cell) for cell in data]), ends, present)
        return Column(values, _offsets([sum(map(len, cell)) for cell in data]), None, present)
    arrays = [_array(feature, cell) for cell in cells]
    if feature.ragged:
        joined = np.concatenate([np.empty((0, *feature.row_shape), dtype), *arrays])
        return Column(joined, _offsets([len(array) for array in arrays]), None, present)
    return Column(np.array(arrays, dtype).reshape(len(cells), *feature.row_shape), None, None, present)


def _array(feature: Feature, cell: Values | None) -> np.ndarray:
    dtype, shape = feature.numpy_dtype, feature.row_shape
    if cell is None:
        missing = np.nan if dtype.kind == "f" else 0
        return np.full((0, *shape) if feature.ragged else shape, missing, dtype)
    if feature.kind == "int64":
        flat = np.array(cell, np.int64).astype(dtype)
    else:
        flat = np.frombuffer(b"".join(map(as_bytes, cell)), dtype)
    return flat.reshape(
        (len(flat) // feature.row_items if feature.row_items else 0, *shape) if feature.ragged else shape
    )


def _offsets(lengths: Sequence[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def varint(value: int) -> bytes:
    """Write a varint, a negative one in two's complement."""
    value %= 2**64
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, payload: bytes) -> bytes:
    """Write a length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


@dataclass(frozen=True, slots=True)
class Style:
    """Say how a list of numbers is written: packed or not, cut into several."""

    packed: bool = True
    lists: int = 1


def feature_message(kind: str, values: Sequence[bytes | int], style: Style = Style()) -> bytes:
    """Write a tf.train.Feature; a float value is its 4 bytes."""
    cuts = [len(values) * i // style.lists for i in range(style.lists + 1)]
    parts = [values[low:high] for low, high in itertools.pairwise(cuts)]
    return b"".join(field(KINDS[kind], _list_message(kind, part, packed=style.packed)) for part in parts)


def _list_message(kind: str, values: Sequence[bytes | int], *, packed: bool) -> bytes:
    if kind == "bytes":
        return b"".join(field(1, as_bytes(value)) for value in values)
    coded = [varint(value) if isinstance(value, int) else value for value in values]
    if packed:
        return field(1, b"".join(coded)) if coded else b""
    return b"".join((b"\x0d" if kind == "float" else b"\x08") + value for value in coded)


def entry_message(name: str, feature: bytes) -> bytes:
    """Write a map entry, with its tag."""
    return field(1, field(1, name.encode()) + field(2, feature))


def cell_of(feature: Feature, column: Column, row: int) -> Values | None:
    """Return the values that one row of a column stands for."""
    if column.present is not None and not column.present[row]:
        return None
    start, end = (row, row + 1) if column.offsets is None else column.offsets[row : row + 2].tolist()
    if not feature.numeric:
        data = column.values.tobytes()
        if column.inner is None:
            return [data[start:end]]
        inner = column.inner.tolist()
        return [data[inner[i] : inner[i + 1]] for i in range(start, end)]
    items = column.values[start:end].reshape(-1)
    if feature.raw:
        return [items.tobytes()]
    if feature.kind == "float":
        return [item.tobytes() for item in items]
    return [int(item) for item in items]


def write_record(features: Sequence[Feature], columns: Sequence[Column], row: int) -> bytes:
    """Write one row as a tf.train.Example."""
    body = b""
    for feature, column in zip(features, columns, strict=True):
        cell = cell_of(feature, column, row)
        if cell is not None:
            body += entry_message(feature.name, feature_message(feature.kind, cell))
    record = field(1, body)
    if len(record) > RECORD_LIMIT:
        raise RecordTooLarge("", row)
    return record


def encode(
    features: Sequence[Feature], columns: Sequence[Column], start: int, stop: int, limit: int
) -> tuple[bytes, int]:
    """Frame rows until `stop` or until one more would pass `limit` bytes; at least one."""
    out, rows = b"", 0
    for row in range(start, stop):
        framed = frame(write_record(features, columns, row))
        if rows and len(out) + len(framed) > limit:
            break
        out += framed
        rows += 1
    return out, rows
