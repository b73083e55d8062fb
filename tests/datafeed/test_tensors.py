"""Check what parsed columns become for torch."""

from __future__ import annotations

from pathlib import Path

import feeding
import forms
import numpy as np
import numpy.typing as npt
import pytest
import torch
from golden_data import to_column

from datafeed._native import Parser
from datafeed.columns import Column, Parsed
from datafeed.dataset import Dataset
from datafeed.ragged import Ragged
from datafeed.schema import Feature, Schema
from datafeed.tensors import TensorForm, Value

ROWS = 9


def to_tensors(feature: Feature, column: Column) -> dict[str, Value]:
    """Return a batch of one column."""
    (batch,) = TensorForm(Schema([feature]), []).batches(Parsed([], [column], {}, {}, [column.present]), {}, ROWS)
    return batch


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


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4, 9, 10])
def test_batches_made_together_are_those_made_alone(tmp_path: Path, batch_size: int) -> None:
    """Whether the last one is short or not; whatever the form of a feature."""
    parser = Parser(forms.SCHEMA.features)
    block = Dataset(forms.write(tmp_path, forms.SCHEMA, ROWS, per_block=ROWS, shards=1)).reader.read(0)
    rows = np.arange(ROWS, dtype=np.int32)
    strings = [n for n, feature in enumerate(forms.SCHEMA) if not feature.numeric and not feature.shape]
    form = TensorForm(forms.SCHEMA, parser.groups)

    def batches(rows: npt.NDArray[np.int32], batch_size: int) -> list[dict[str, Value]]:
        parsed = parser.parse_batch([block], np.zeros_like(rows), rows, strings[::2], strings[1::2])
        return form.batches(parsed, {}, batch_size)

    expected = [batch for low in range(0, ROWS, batch_size) for batch in batches(rows[low : low + batch_size], ROWS)]
    assert feeding.plain(batches(rows, batch_size)) == feeding.plain(expected)


@pytest.mark.parametrize("name", ["float32.array", "uint64.scalar", "float16.ragged"])
def test_a_tensor_shares_the_columns_memory(name: str) -> None:
    """Nothing is copied between the gather and the training loop."""
    feature = forms.SCHEMA[name]
    column = to_column(feature, [forms.value(feature, row) for row in range(ROWS)])
    found = to_tensors(feature, column)[name]
    tensor = found.values if isinstance(found, Ragged) else found
    assert isinstance(tensor, torch.Tensor)
    assert np.shares_memory(tensor.numpy(), column.values)
