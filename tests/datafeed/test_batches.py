"""Check what parsed columns become for a caller without torch."""

from __future__ import annotations

import forms
import numpy as np
import pytest
from golden_data import to_column

from datafeed._native import Parser
from datafeed.batches import to_arrays, to_sample, to_texts
from datafeed.columns import Column
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema, stored

ROWS = 9


def columns(schema: Schema) -> list[Column]:
    """Return the columns of the first samples."""
    return [to_column(feature, [forms.value(feature, row) for row in range(ROWS)]) for feature in schema]


@pytest.mark.parametrize("feature", list(forms.SCHEMA), ids=lambda feature: feature.name)
def test_a_feature_becomes_arrays_or_lists(feature: Feature) -> None:
    """Each row is its sample's value; a missing one is marked."""
    schema = Schema([feature])
    found = to_arrays(schema, columns(schema))
    assert list(found) == [feature.name, *([f"{feature.name}.present"] if feature.optional else [])]
    assert len(found[feature.name]) == ROWS
    for row in range(ROWS):
        expected = forms.value(feature, row)
        assert expected is None or forms.same(found[feature.name][row], expected)
        if feature.optional:
            assert found[f"{feature.name}.present"][row] == (expected is not None)


@pytest.mark.parametrize("feature", list(forms.SCHEMA), ids=lambda feature: feature.name)
def test_a_sample_is_one_row(feature: Feature) -> None:
    """Any row can be taken alone, the last one too."""
    schema = Schema([feature])
    table = columns(schema)
    for row in range(ROWS):
        assert forms.same(to_sample(schema, table, row)[feature.name], forms.value(feature, row))


def test_no_rows_become_empty_columns() -> None:
    """A ragged feature of no samples is an empty list, not a list of one empty array."""
    none = np.empty(0, np.int32)
    found = to_arrays(forms.SCHEMA, Parser(list(forms.SCHEMA)).parse([], none, none))
    assert {len(column) for column in found.values()} == {0}


def test_a_ragged_sample_shares_the_columns_memory() -> None:
    """Nothing is copied."""
    schema = Schema([stored("x", "uint16", (None,))])
    table = columns(schema)
    assert np.shares_memory(to_sample(schema, table, 3)["x"], table[0].values)  # type: ignore[arg-type]
    assert np.shares_memory(to_arrays(schema, table)["x"][3], table[0].values)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(), (2,), (None,)])
def test_f58_bytes_that_are_not_utf8_name_their_row(shape: tuple[int | None, ...]) -> None:
    """The row is the sample's, whether it holds one text or a list of them."""
    feature = stored("t", "utf8", shape)
    bad, good = (b"\xff", b"a") if not shape else ([b"ok", b"\xff"], [b"a", b"b"])
    column = to_column(feature, [good, good, bad, good])
    with pytest.raises(SchemaError, match=r"feature 't': expected UTF-8, found b'\\xff'") as caught:
        to_texts(feature, column)
    assert caught.value.row == 2
    with pytest.raises(SchemaError) as caught:
        to_sample(Schema([feature]), [column], 2)
    assert caught.value.row == 2


def test_f58_a_sample_beside_a_damaged_one_is_read() -> None:
    """Only what is asked for is decoded."""
    feature = stored("t", "utf8")
    table = [to_column(feature, [b"\xff", b"a"])]
    assert to_sample(Schema([feature]), table, 1) == {"t": "a"}
