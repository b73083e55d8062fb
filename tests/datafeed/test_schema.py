"""Test what a schema accepts, and its JSON form."""

from __future__ import annotations

import json

import numpy as np
import pytest

from datafeed.errors import SchemaError
from datafeed.schema import DTYPES, INTEGER, NUMERIC, Feature, Schema, Shape, stored


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (None,)])
@pytest.mark.parametrize("int64_lists", [False, True])
def test_stored_takes_the_kind_that_reads_fastest(*, dtype: str, shape: Shape, int64_lists: bool) -> None:
    """A float list for float32, an int64 list for integer scalars (for arrays when asked), raw bytes for the rest."""
    lists = dtype in INTEGER and dtype != "uint64" and (shape == () or int64_lists)
    kind = "float" if dtype == "float32" else "int64" if lists else "bytes"
    feature = stored("x", dtype, shape, int64_lists=int64_lists)
    assert feature.kind == kind
    assert feature.raw == (kind == "bytes" and dtype in NUMERIC)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": ""}, "needs a name"),
        ({"name": "a\udc80"}, "UTF-8 form"),
        ({"kind": "text"}, "unknown kind 'text'"),
        ({"dtype": "int128"}, "dtype 'int128'"),
        ({"kind": "int64", "dtype": "uint64"}, "cannot hold dtype 'uint64'"),
        ({"kind": "float", "dtype": "float64"}, "cannot hold dtype 'float64'"),
        ({"dtype": "utf8", "shape": (2, 2)}, "cannot hold dtype 'utf8'"),
        ({"dtype": "int8", "shape": (2, None)}, "only the first dimension may be None"),
        ({"dtype": "int8", "shape": (-1,)}, "only the first dimension may be None"),
    ],
)
def test_feature_refuses_fields_that_contradict(fields: dict[str, object], reason: str) -> None:
    """The error says which, and names the feature."""
    with pytest.raises(SchemaError, match=reason):
        Feature(**{"name": "x", "kind": "bytes", "dtype": "bytes", **fields})  # type: ignore[arg-type]  # wrong on purpose


def test_feature_tells_the_parts_of_its_shape() -> None:
    """The ragged dimension stands apart from the fixed ones."""
    ragged, fixed, text = stored("a", "int16", (None, 2, 3)), stored("b", "float64", (4,)), stored("c", "utf8", (None,))
    assert (ragged.ragged, ragged.row_shape, ragged.row_items) == (True, (2, 3), 6)
    assert (fixed.ragged, fixed.row_shape, fixed.row_items) == (False, (4,), 4)
    assert ragged.numpy_dtype == np.dtype("<i2")
    assert (text.numeric, text.numpy_dtype) == (False, np.dtype(np.uint8))


def test_schema_comes_back_from_json() -> None:
    """Through text; fields at their defaults are left out."""
    schema = Schema(
        [
            stored("label", "int64", classes=("cat", "dog")),
            stored("image", "bytes", media="image/png", optional=True),
            stored("boxes", "float32", (None, 4)),
        ]
    )
    value = json.loads(json.dumps(schema.to_json()))
    assert Schema.from_json(value) == schema
    assert hash(Schema.from_json(value)) == hash(schema)
    assert value[2] == {"name": "boxes", "kind": "float", "dtype": "float32", "shape": [None, 4]}


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        {"name": "x"},
        ["x"],
        [{"name": "x"}],
        *(
            [{"name": "x", "kind": "bytes", "dtype": "bytes", **odd}]
            for odd in (
                {"y": 1},
                {"name": 1},
                {"media": 1},
                {"shape": "ab"},
                {"shape": ["a"]},
                {"optional": 1},
                {"classes": [1]},
            )
        ),
    ],
)
def test_schema_refuses_json_of_another_form(value: object) -> None:
    """It comes from files."""
    with pytest.raises(SchemaError, match="not a schema"):
        Schema.from_json(value)


def test_schema_refuses_names_that_clash() -> None:
    """Two features of one name, and one that hides which records have another."""
    x = stored("x", "int64", optional=True)
    with pytest.raises(SchemaError, match="share the name 'x'"):
        Schema([x, stored("x", "utf8")])
    with pytest.raises(SchemaError, match="rename the feature"):
        Schema([x, stored("x.present", "bool")])


def test_schema_selects_in_the_order_asked() -> None:
    """An unknown name is answered with those there are."""
    schema = Schema([stored(name, "int64") for name in "abc"])
    assert [feature.name for feature in schema.select(["c", "a"])] == ["c", "a"]
    assert "b" in schema
    assert "d" not in schema
    with pytest.raises(SchemaError, match="no feature 'd'; there are 'a', 'b', 'c'"):
        schema.select(["d"])
