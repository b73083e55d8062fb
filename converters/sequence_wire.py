"""Read the wire format of tf.train.SequenceExample records.

A record is {context = 1: Features, feature_lists = 2: map of name to {feature = 1: a Feature for each step}}. Spans are
walked in place, five messages deep whatever the bytes say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from datafeed.errors import SchemaError
from datafeed.schema import Kind
from datafeed.sizes import counted

FIRST, SECOND = 0x0A, 0x12  # the keys of fields 1 and 2, length-delimited
KINDS: dict[int, Kind] = {0x0A: "bytes", 0x12: "float", 0x1A: "int64"}
"""The kinds of lists, by the key of the field of a Feature that holds them."""

_KEYS = {0: 0x0A, **{key >> 3: key for key in KINDS}}
_BYTES, _FLOAT, _INT64 = KINDS
_UNPACKED = {_FLOAT: 0x0D, _INT64: 0x08}
_FIXED_NBYTES = {1: 8, 5: 4}
_GOES_ON = bytes(range(0x80, 0x100))
_HEADS = {
    bytes([FIRST, size, kind, size - 2, FIRST, size - 4]): kind for kind in KINDS for size in range(5, 0x80)
}  # what a step begins with that is one list of one text or one packed run, in under 128 bytes
_FEW_STEPS = 8  # below, walking them one by one costs less than NumPy's calls
Span = tuple[int, int]


class Steps(NamedTuple):
    """Hold the values of a feature list.

    Attributes:
        kinds: The keys of its steps' kinds: one, or none where no step has a kind; more make no feature.
        widths: How many values the steps hold, each number once.
        values: All of them end to end, as one list holds them: numbers packed, bytes each with its key and length.
    """

    kinds: frozenset[int]
    widths: frozenset[int]
    values: bytes


def encoded(key: int, data: bytes) -> bytes:
    """Return a length-delimited field."""
    size = len(data)
    head = bytearray([key])
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data


def split(record: bytes) -> tuple[bytes, dict[str, Span]]:
    """Return the Features of a record's context, and where its feature lists lie, by name.

    Raises:
        SchemaError: It is no SequenceExample.
    """
    context = b""
    lists: dict[str, Span] = {}
    for key, start, end in fields(record, 0, len(record)):
        if key == FIRST:
            context += record[start:end]
        elif key == SECOND:
            lists.update(_entry(record, span) for span in _messages(record, (start, end), "feature list"))
        elif key >> 3 in {1, 2}:
            raise _wrong(f"field {key >> 3} of wire type {key & 7}")
    return context, lists


def has_steps(record: bytes) -> bool:
    """Whether a record has a feature list with values, as no tf.train.Example has.

    Raises:
        SchemaError: It is no SequenceExample.
    """
    return any(steps_of(record, span).kinds for span in split(record)[1].values())


def names_of(features: bytes) -> set[str]:
    """Return the names in a Features message.

    Raises:
        SchemaError: It is none.
    """
    return {_entry(features, span)[0] for span in _messages(features, (0, len(features)), "feature")}


def steps_of(record: bytes, span: Span) -> Steps:
    """Return the values of a feature list.

    Raises:
        SchemaError: It is none.
    """
    return _regular(record, span) or _walked(record, span)


def fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the key of each field of a message, and where its content begins and ends.

    Raises:
        SchemaError: The bytes are no message.
    """
    while at < end:
        key, at = _varint(data, at, end) if data[at] > 0x7F else (data[at], at + 1)
        wire = key & 7
        if wire == 2:
            size, at = (data[at], at + 1) if at < end and data[at] < 0x80 else _varint(data, at, end)
        elif wire == 0:
            size = _varint(data, at, end)[1] - at
        elif wire in _FIXED_NBYTES:
            size = _FIXED_NBYTES[wire]
        else:
            raise _wrong(f"wire type {wire} at byte {at}")
        if size > end - at:
            raise _wrong(f"a field of {counted(size, 'byte')} at byte {at}, where {end - at} are left")
        yield key, at, at + size
        at += size


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number that begins at a place, and where it ends."""
    value = 0
    for place, byte in enumerate(data[at : min(at + 10, end)]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise _wrong(f"a number at byte {at} without an end")


def _messages(data: bytes, span: Span, what: str) -> Iterator[Span]:
    """Yield the messages of field 1."""
    for key, start, end in fields(data, *span):
        if key == FIRST:
            yield start, end
        elif key >> 3 == 1:
            raise _wrong(f"a {what} of wire type {key & 7}")


def _entry(data: bytes, span: Span) -> tuple[str, Span]:
    """Return the name and the value of an entry of a map."""
    name, value = b"", (span[1], span[1])
    for key, start, end in fields(data, *span):
        if key == FIRST:
            name = data[start:end]
        elif key == SECOND:
            value = start, end
        elif key >> 3 in {1, 2}:
            raise _wrong(f"an entry's field {key >> 3} of wire type {key & 7}")
    try:
        return name.decode(), value
    except UnicodeDecodeError as exc:
        raise SchemaError(f"a feature's name is no UTF-8: {name!r:.100}") from exc


def _regular(data: bytes, span: Span) -> Steps | None:
    """Return the values of steps that all take the same bytes but for their numbers; None for others."""
    start, end = span
    first = next(fields(data, start, end), (0, 0, 0))
    stride = first[2] - start
    if first[0] != FIRST or (end - start) % stride or (end - start) // stride < _FEW_STEPS:
        return None
    kind, at = _alone(data, *first[1:])
    key, at = _alone(data, at, first[2]) if kind in _UNPACKED else (0, 0)
    if key != FIRST:
        return None
    table = np.frombuffer(data, np.uint8, end - start, start).reshape(-1, stride)
    head = at - start
    if (table[:, :head] != table[0, :head]).any():
        return None
    numbers = table[:, head:]
    if kind == _FLOAT:
        widths = frozenset([_floats(stride - head)])
    else:
        if (numbers[:, -1] > 0x7F).any():
            raise _cut_number()
        widths = frozenset(np.unique((numbers < 0x80).sum(1)).tolist())
    return Steps(frozenset([kind]), widths, numbers.tobytes())


def _alone(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the key of the one field that fills a message, and where its content begins; zeros for other messages."""
    key, at, stop = next(fields(data, start, end), (0, 0, 0))
    return (key, at) if at < stop == end else (0, 0)


def _walked(data: bytes, span: Span) -> Steps:
    kinds: set[int] = set()
    widths: set[int] = set()
    values: list[bytes] = []
    for kind, width, found in _each(data, span):
        kinds.add(kind)
        widths.add(width)
        values.append(found)
    return Steps(frozenset(kinds - {0}), frozenset(widths), b"".join(values))


def _each(data: bytes, span: Span) -> Iterator[tuple[int, int, bytes]]:
    """Yield the kind of each step, how many values it holds, and these."""
    at, end = span
    while at < end:
        head = data[at : at + 6]
        kind = _HEADS.get(head, 0)
        if kind and at + 2 + head[1] <= end:
            start, at = at + (4 if kind == _BYTES else 6), at + 2 + head[1]
            values = data[start:at]
            yield kind, 1 if kind == _BYTES else _width(kind, values), values
            continue
        key, start, at = next(fields(data, at, end))
        if key == FIRST:
            yield _step(data, start, at)
        elif key >> 3 == 1:
            raise _wrong(f"a step of wire type {key & 7}")


def _step(data: bytes, start: int, end: int) -> tuple[int, int, bytes]:
    """Return the kind of a Feature, how many values it holds, and these."""
    found, width = 0, 0
    parts: list[bytes] = []
    for key, at, stop in fields(data, start, end):
        if key not in KINDS:
            if key >> 3 in _KEYS:
                raise _wrong(f"a feature's field {key >> 3} of wire type {key & 7}")
            continue
        if key != found:  # of several kinds the last one counts
            found, parts, width = key, [], 0
        for values in _values(data, key, (at, stop)):
            parts.append(values)
            width += 1 if key == _BYTES else _width(key, values)
    return found, width, b"".join(parts)


def _values(data: bytes, kind: int, span: Span) -> Iterator[bytes]:
    """Yield the items of a list: bytes one by one, numbers in packed runs."""
    for key, start, end in fields(data, *span):
        if key == FIRST:
            yield encoded(FIRST, data[start:end]) if kind == _BYTES else data[start:end]
        elif key == _UNPACKED.get(kind):
            yield data[start:end]
        elif key >> 3 == 1:
            raise _wrong(f"a {KINDS[kind]} list's value of wire type {key & 7}")


def _width(kind: int, values: bytes) -> int:
    """Return how many numbers a packed run holds."""
    if kind == _FLOAT:
        return _floats(len(values))
    if values and values[-1] > 0x7F:
        raise _cut_number()
    return len(values.translate(None, _GOES_ON))


def _floats(nbytes: int) -> int:
    if nbytes % 4:
        raise SchemaError(f"a packed float list of {counted(nbytes, 'byte')}")
    return nbytes // 4


def _cut_number() -> SchemaError:
    return _wrong("a packed int64 list that ends inside a number")


def _wrong(found: str) -> SchemaError:
    return SchemaError(f"expected a tf.train.SequenceExample, found {found}")
