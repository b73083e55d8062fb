"""Test drawing a schema from samples as Python gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch

from datafeed.converters.pythonic import as_sample, draw_schema, nbytes_of
from datafeed.errors import SchemaError

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(20)


class Pair(NamedTuple):
    """Hold an image and its label."""

    image: bytes
    label: int


@dataclass
class Point:
    """Hold two numbers."""

    x: int
    y: float


@pytest.mark.parametrize(
    ("value", "sample"),
    [
        ({"a": 1, "b": {"c": 2, "d": {"e": 3}}}, {"a": 1, "b.c": 2, "b.d.e": 3}),
        (Point(1, 2.0), {"x": 1, "y": 2.0}),
        (Pair(b"i", 3), {"image": b"i", "label": 3}),
        ((b"i", 3), {"0": b"i", "1": 3}),
        ([b"i"], {"0": b"i"}),
        ("text", {"value": "text"}),
        (7, {"value": 7}),
    ],
)
def test_any_sample_becomes_names_and_values(value: object, sample: dict[str, object]) -> None:
    """As torch datasets give them."""
    assert as_sample(value) == sample


@pytest.mark.parametrize("value", [{1: 2}, {"": 1}, {"a.b": 1, "a": {"b": 2}}])
def test_names_that_cannot_be_are_refused(value: object) -> None:
    """Not text, empty, or twice."""
    with pytest.raises(SchemaError, match=r"expected names|stands there twice"):
        as_sample(value)


@pytest.mark.parametrize(
    ("values", "dtype", "shape", "media", "optional"),
    [
        ([True, False], "bool", (), "", False),
        ([1, -(2**63)], "int64", (), "", False),
        ([1, 2**64 - 1], "uint64", (), "", False),
        ([1, 2.5], "float64", (), "", False),
        (["a", ""], "utf8", (), "", False),
        ([b"a", bytearray(b"b")], "bytes", (), "", False),
        ([PNG, PNG], "bytes", (), "image/png", False),
        ([PNG, JPEG], "bytes", (), "image", False),
        ([PNG, b"x"], "bytes", (), "", False),
        ([1, None], "int64", (), "", True),
        ([np.float32(1), np.float32(2)], "float32", (), "", False),
        ([np.uint8(1)], "uint8", (), "", False),
        ([np.zeros((2, 3), np.int16)] * 2, "int16", (2, 3), "", False),
        ([np.zeros((2, 3)), np.zeros((0, 3))], "float64", (None, 3), "", False),
        ([torch.zeros(4, dtype=torch.uint8)], "uint8", (4,), "", False),
        ([[1, 2], []], "int64", (None,), "", False),
        ([[1, 2], [3]], "int64", (None,), "", False),
        ([[1, 2.5], [3]], "float64", (None,), "", False),
        ([["a"], []], "utf8", (None,), "", False),
        ([[], [[1, 2]]], "int64", (None, 2), "", False),
        ([[], []], "float64", (None,), "", False),
        ([["a", "b"], ["c"]], "utf8", (None,), "", False),
        ([[b"a"]], "bytes", (None,), "", False),
        ([[[1, 2], [3, 4]], [[5, 6]]], "int64", (None, 2), "", False),
        ([np.array(["a", "b"])], "utf8", (None,), "", False),
    ],
)
def test_values_of_one_name_have_a_type(
    values: list[object], dtype: str, shape: tuple[int | None, ...], media: str, optional: object
) -> None:
    """The narrowest that holds all of them."""
    (feature,) = draw_schema([{"v": value} for value in values])
    assert (feature.dtype, feature.shape, feature.media, feature.optional) == (dtype, shape, media, optional)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, "a"], "of another kind or shape"),
        ([b"a", "a"], "of another kind or shape"),
        ([1, [1]], "of another kind or shape"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "of another kind or shape"),
        ([object()], "no feature holds a builtins.object: encode it"),
        ([np.array([object()])], "may be pickled objects"),
        ([np.zeros(2, np.complex64)], "array of complex64"),
        ([[[1], [1, 2]]], "different lengths"),
        ([[{"a": 1}]], "may be pickled objects"),
        ([torch.zeros(2, dtype=torch.bfloat16)], "BFloat16"),
        ([torch.zeros(2, requires_grad=True)], "requires grad"),
        ([torch.eye(2).to_sparse()], "no array of"),
    ],
    ids=str,
)
def test_values_that_no_feature_holds_are_refused(values: list[object], message: str) -> None:
    """With the sample's number and the feature's name."""
    with pytest.raises(SchemaError, match=message) as caught:
        draw_schema([{"v": value} for value in values])
    assert (caught.value.row, caught.value.feature) == (len(values) - 1, "v")


def test_features_keep_the_order_in_which_they_came() -> None:
    """What some samples lack may be missing; what none has is left out."""
    schema = draw_schema([{"b": 1, "n": None}, {"b": 2, "a": 1}])
    assert [(feature.name, feature.optional) for feature in schema] == [("b", False), ("a", True)]


def test_sizes_are_about_those_of_records() -> None:
    """Whatever the values are."""
    found = nbytes_of({"a": bytes(1000), "b": np.zeros(100, np.int64), "c": ["x" * 50] * 2, "d": 1, "e": None})
    assert 1900 < found < 2100
    assert nbytes_of({"a": torch.eye(3).to_sparse()}) < 100
