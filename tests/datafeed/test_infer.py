"""Inferring a schema: one rule at a time."""

from __future__ import annotations

import struct

import pytest
import tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import Value, part

from datafeed.errors import SchemaError
from datafeed.infer import image_media, infer_schema
from datafeed.schema import Feature

_JPEG = b"\xff\xd8\xff\xe0" + bytes(20)
_PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
_WEBP = b"RIFF\0\0\0\0WEBPVP8 "
_LIST_BYTES = b"\x0a\x00"  # a bytes list without values
_LIST_FLOAT = b"\x12\x00"
_LIST_INT64 = b"\x1a\x00"


def raw_example(value: bytes) -> bytes:
    """Encode an Example whose feature `f` has these bytes as its Feature."""
    return part(1, part(1, part(1, b"f") + part(2, value)))


def inferred(*values: Value) -> Feature:
    """Infer the one feature of records that hold these values."""
    return infer_schema(tiny.example({"f": value}) for value in values)["f"]


@pytest.mark.parametrize(
    ("values", "feature"),
    [
        (([1], [2], [-3]), Feature("f", "int64", "int64")),
        (([1, 2], [3, 4]), Feature("f", "int64", "int64", (2,))),
        (([1], [3, 4]), Feature("f", "int64", "int64", (None,))),
        (([1], []), Feature("f", "int64", "int64", (None,))),
        (([1.5],), Feature("f", "float", "float32")),
        (([1.0, 2.0, 3.0],), Feature("f", "float", "float32", (3,))),
        (([1.0], [1.0, 2.0]), Feature("f", "float", "float32", (None,))),
        ((_JPEG, _JPEG), Feature("f", "bytes", "bytes", media="image/jpeg")),
        ((_PNG,), Feature("f", "bytes", "bytes", media="image/png")),
        ((_WEBP,), Feature("f", "bytes", "bytes", media="image/webp")),
        ((_JPEG, _PNG), Feature("f", "bytes", "bytes", media="image")),
        ((_JPEG, b"\xff"), Feature("f", "bytes", "bytes")),
        ((b"word", "é\n".encode(), b""), Feature("f", "bytes", "utf8")),
        ((b"word", b"\xff"), Feature("f", "bytes", "bytes")),
        ((b"\x01\x00\x00\x00",), Feature("f", "bytes", "bytes")),
        ((b"",), Feature("f", "bytes", "bytes")),
        (([b"a", b"b"], [b"c", b"d"]), Feature("f", "bytes", "utf8", (None,))),
        (([b"a"], [b"b", b"\xff"]), Feature("f", "bytes", "bytes", (None,))),
    ],
)
def test_infer_follows_its_rules(values: tuple[Value, ...], feature: Feature) -> None:
    """Lengths, magic and text decide."""
    assert inferred(*values) == feature


def test_infer_sorts_features_and_marks_missing_ones() -> None:
    """The order of a protobuf map says nothing; what some records lack is optional."""
    schema = infer_schema([tiny.example({"b": [1], "a": [2]}), tiny.example({"a": [3]}), tiny.example({"c": b"x"})])
    assert [(feature.name, feature.optional) for feature in schema] == [("a", True), ("b", True), ("c", True)]
    assert [feature.optional for feature in infer_schema([tiny.record(0), tiny.record(1)])] == [False, False]


def test_f93_feature_without_a_kind_is_absent() -> None:
    """First without a kind, then filled: optional. Never with a kind: left out. An empty list has its kind."""
    assert infer_schema([raw_example(b""), tiny.example({"f": [5]})])["f"] == Feature(
        "f", "int64", "int64", optional=True
    )
    assert len(infer_schema([raw_example(b"")])) == 0
    for empty, kind in ((_LIST_BYTES, "bytes"), (_LIST_FLOAT, "float"), (_LIST_INT64, "int64")):
        feature = infer_schema([raw_example(empty)])["f"]
        assert feature.kind == kind
        assert feature.shape in {(0,), (None,)}


def test_infer_reads_unpacked_lists() -> None:
    """Numbers each with a tag of their own count as packed ones do."""
    floats = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.0, 2.0))
    assert infer_schema([raw_example(part(2, floats))])["f"] == Feature("f", "float", "float32", (2,))
    assert infer_schema([raw_example(part(3, b"\x08\x05"))])["f"] == Feature("f", "int64", "int64")
    negative = b"\x08" + tiny.varint(-1) + b"\x08\x01"
    assert infer_schema([raw_example(part(3, negative))])["f"] == Feature("f", "int64", "int64", (2,))


def test_f58_two_kinds_of_one_feature_are_refused() -> None:
    """The record and the feature are named."""
    with pytest.raises(SchemaError, match="a float list here, a int64 list before") as caught:
        inferred([1], [2], [1.5])
    assert (caught.value.row, caught.value.feature) == (2, "f")


def test_f58_feature_without_a_name_is_refused() -> None:
    """With its record."""
    with pytest.raises(SchemaError, match="no name") as caught:
        infer_schema([tiny.record(0), tiny.example({"": [1]})])
    assert caught.value.row == 1


def test_f58_record_cut_anywhere_is_refused() -> None:
    """A length that passes the record's end is not cut to fit."""
    whole = tiny.example({"x": [1, 2], "y": b"abc"})
    for nbytes in range(1, len(whole)):
        with pytest.raises(SchemaError, match=r"expected a tf\.train\.Example"):
            infer_schema([whole[:nbytes]])


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_f58_hostile_bytes_are_a_schema_error_or_a_schema(data: bytes) -> None:
    """Nothing else comes out of any bytes."""
    try:
        infer_schema([data])
    except SchemaError as exc:
        assert exc.row == 0  # noqa: PT017  (the error is one of two right ends)


@given(st.integers(0, 10**6), st.integers(0, 255))
@settings(deadline=None)
def test_f58_damaged_example_is_a_schema_error_or_a_schema(place: int, value: int) -> None:
    """Nor out of an Example with a byte changed."""
    data = bytearray(tiny.example({"x": [1, 2], "y": b"abc", "z": [0.5]}))
    data[place % len(data)] = value
    try:
        infer_schema([bytes(data)])
    except SchemaError as exc:
        assert exc.row == 0  # noqa: PT017  (the error is one of two right ends)


def test_image_media_knows_three_formats() -> None:
    """By magic; anything else is nothing."""
    assert [image_media(data[:16]) for data in (_JPEG, _PNG, _WEBP, b"GIF89a", b"")] == [
        "image/jpeg",
        "image/png",
        "image/webp",
        "",
        "",
    ]
