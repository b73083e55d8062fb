"""Check what parsed columns become for torch."""

from __future__ import annotations

import forms
import numpy as np
import pytest
import torch
from golden_data import to_column

from datafeed.columns import Column, Parsed
from datafeed.ragged import Ragged
from datafeed.schema import Feature, Schema
from datafeed.tensors import TensorForm, Value

ROWS = 9


def to_tensors(feature: Feature, column: Column) -> dict[str, Value]:
    """Return a batch of one column."""
    return TensorForm(Schema([feature]), []).tensors(Parsed([], [column], {}, {}, [column.present]), {})


@pytest.mark.parametrize("feature", list(forms.SCHEMA), ids=lambda feature: feature.name)
def test_a_feature_becomes_a_tensor_a_ragged_or_a_list(feature: Feature) -> None:
    """Values, dtypes and shapes are kept; "NAME.present" says which are there."""
    values = [forms.value(feature, row) for row in range(ROWS)]
    found = to_tensors(feature, to_column(feature, values))
    column = found[feature.name]
    for row, expected in enumerate(values):
        if feature.optional:
            assert bool(found[f"{feature.name}.present"][row]) == (expected is not None)
        got = column[row]
        assert expected is None or forms.same(got.numpy() if isinstance(got, torch.Tensor) else got, expected)
    assert isinstance(
        column, torch.Tensor if feature.numeric and not feature.ragged else Ragged if feature.numeric else list
    )


@pytest.mark.parametrize("name", ["float32.array", "uint64.scalar", "float16.ragged"])
def test_a_tensor_shares_the_columns_memory(name: str) -> None:
    """Nothing is copied between the gather and the training loop."""
    feature = forms.SCHEMA[name]
    column = to_column(feature, [forms.value(feature, row) for row in range(ROWS)])
    found = to_tensors(feature, column)[name]
    tensor = found.values if isinstance(found, Ragged) else found
    assert isinstance(tensor, torch.Tensor)
    assert np.shares_memory(tensor.numpy(), column.values)
