"""Infer a schema from tf.train.Example records that come without one."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from typing_extensions import Buffer

from datafeed.errors import SchemaError
from datafeed.schema import Feature, Kind, Schema, Shape
from datafeed.sizes import counted

_KINDS: dict[int, Kind] = {1: "bytes", 2: "float", 3: "int64"}
_SPACE = frozenset("\t\n\r\f\v")
_SNIFF_NBYTES = 16
_FEATURE_LISTS = 2  # the field of a SequenceExample; an Example has field 1 alone
_Value = int | memoryview


@dataclass(slots=True)
class _Seen:
    """Hold what the records so far say of one feature."""

    kind: Kind
    records: int = 0
    lengths: set[int] = field(default_factory=set)
    media: set[str] = field(default_factory=set)
    text: bool = True
    filled: bool = False


def infer_schema(records: Iterable[Buffer]) -> Schema:
    """Draw a schema from records.

    An int64 or float list that always has one value becomes a scalar, one of constant length a fixed shape, others are
    ragged. One bytes value becomes an image (by its magic), utf8 (where all are text) or bytes; bytes lists are ragged.
    What some records lack is optional. A feature that never has a kind is left out, as TensorFlow leaves it.

    Args:
        records: Encoded tf.train.Example messages, the first few hundred of a data set.

    Returns:
        The features, sorted by name: protobuf keeps no order.

    Raises:
        SchemaError: A record is no Example, or a feature has two kinds; with `row` and `feature` set.
    """
    seen: dict[str, _Seen] = {}
    count = 0
    for row, record in enumerate(records):
        count += 1
        try:
            _look(memoryview(record).cast("B"), seen)
        except SchemaError as exc:
            raise SchemaError(exc.reason, row, exc.feature) from exc
    return Schema([_feature(name, seen[name], count) for name in sorted(seen)])


def has_feature_lists(record: Buffer) -> bool:
    """Whether a record is a tf.train.SequenceExample with feature lists, of which an Example has none.

    Raises:
        SchemaError: It is no protobuf message.
    """
    return any(number == _FEATURE_LISTS for number, _ in _fields(memoryview(record).cast("B")))


def image_media(head: bytes) -> str:
    """Return the media type of an encoded image by its first 16 bytes; empty for anything else."""
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""


def _look(record: memoryview, seen: dict[str, _Seen]) -> None:
    for name, (kind, values) in _example(record).items():
        if not kind:
            continue
        if not name:
            raise SchemaError("a feature has no name, so no schema can hold it")
        known = seen.setdefault(name, _Seen(kind))
        if known.kind != kind:
            raise SchemaError(f"it is a {kind} list here, a {known.kind} list before", feature=name)
        known.records += 1
        known.lengths.add(len(values))
        for value in values if kind == "bytes" else ():
            _look_at_bytes(value, known)


def _look_at_bytes(value: _Value, known: _Seen) -> None:
    assert isinstance(value, memoryview)
    known.media.add(image_media(bytes(value[:_SNIFF_NBYTES])))
    known.text = known.text and _is_text(bytes(value))
    known.filled = known.filled or bool(value.nbytes)


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return not any(unicodedata.category(char) == "Cc" and char not in _SPACE for char in set(text))


def _feature(name: str, known: _Seen, records: int) -> Feature:
    optional = known.records < records
    if known.kind != "bytes":
        dtype = "float32" if known.kind == "float" else "int64"
        return Feature(name, known.kind, dtype, _numeric_shape(known.lengths), optional=optional)
    single = known.lengths == {1}
    media = ""
    if single and "" not in known.media:
        media = next(iter(known.media)) if len(known.media) == 1 else "image"
    dtype = "utf8" if known.text and known.filled else "bytes"
    return Feature(name, "bytes", dtype, () if single else (None,), media, optional=optional)


def _numeric_shape(lengths: set[int]) -> Shape:
    if len(lengths) > 1:
        return (None,)
    return () if lengths == {1} else tuple(lengths)


def _example(record: memoryview) -> dict[str, tuple[Kind | Literal[""], list[_Value]]]:
    found: dict[str, tuple[Kind | Literal[""], list[_Value]]] = {}
    for features in _messages(record, 1):
        for entry in _messages(features, 1):
            name = ""
            value: tuple[Kind | Literal[""], list[_Value]] = ("", [])
            for number, part in _fields(entry):
                if number == 1 and isinstance(part, memoryview):
                    name = _utf8(part)
                elif number == 2 and isinstance(part, memoryview):
                    value = _kind_and_values(part)
            found[name] = value
    return found


def _kind_and_values(feature: memoryview) -> tuple[Kind | Literal[""], list[_Value]]:
    found: Kind | Literal[""] = ""
    values: list[_Value] = []
    for number, part in _fields(feature):
        kind = _KINDS.get(number)
        if kind is None or not isinstance(part, memoryview):
            continue
        if kind != found:
            found, values = kind, []
        values += _values(part, kind)
    return found, values


def _values(message: memoryview, kind: Kind) -> Iterator[_Value]:
    """Yield the items of a list, packed or not; numbers are counted, not decoded."""
    for number, part in _fields(message):
        if number != 1:
            continue
        if kind == "bytes" or not isinstance(part, memoryview):
            yield part
        elif kind == "float":
            if part.nbytes % 4:
                raise SchemaError(f"a packed float list of {counted(part.nbytes, 'byte')}")
            yield from range(part.nbytes // 4)
        else:
            yield from range(sum(byte < 0x80 for byte in part))


def _messages(message: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, part in _fields(message):
        if number == wanted:
            if not isinstance(part, memoryview):
                raise SchemaError("expected a tf.train.Example: field 1 is no message")
            yield part


def _fields(message: memoryview) -> Iterator[tuple[int, _Value]]:
    position = 0
    while position < message.nbytes:
        key, position = _varint(message, position)
        wire = key & 7
        if wire == 0:
            value, position = _varint(message, position)
            yield key >> 3, value
            continue
        if wire == 2:
            nbytes, position = _varint(message, position)
        elif wire in {1, 5}:
            nbytes = 8 if wire == 1 else 4
        else:
            raise SchemaError(f"expected a tf.train.Example: wire type {wire} at byte {position}")
        if nbytes > message.nbytes - position:
            raise SchemaError(
                f"expected a tf.train.Example: {counted(nbytes, 'byte')} at {position} of {message.nbytes}"
            )
        part = message[position : position + nbytes]
        position += nbytes
        yield key >> 3, part if wire == 2 else 0


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= message.nbytes:
            raise SchemaError("expected a tf.train.Example: it ends inside a number")
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise SchemaError(f"expected a tf.train.Example: a number of more than 10 bytes at {position}")


def _utf8(part: memoryview) -> str:
    try:
        return bytes(part).decode()
    except UnicodeDecodeError as exc:
        raise SchemaError(f"a feature's name is no UTF-8: {bytes(part)!r:.100}") from exc
