"""Turn parsed columns into tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from datafeed.batches import Texts, to_texts
from datafeed.columns import Column
from datafeed.ragged import Ragged
from datafeed.schema import Schema

Value = torch.Tensor | Ragged | Texts


def to_tensors(schema: Schema, columns: Sequence[Column]) -> dict[str, Value]:
    """Return the columns of a batch as tensors and lists, by name; tensors share the columns' memory."""
    out: dict[str, Value] = {}
    for feature, column in zip(schema, columns, strict=True):
        if not feature.numeric:
            out[feature.name] = to_texts(feature, column)
        elif column.offsets is not None:
            out[feature.name] = Ragged(torch.from_numpy(column.values), torch.from_numpy(column.offsets))
        else:
            out[feature.name] = torch.from_numpy(column.values)
        if column.present is not None:
            out[f"{feature.name}.present"] = torch.from_numpy(column.present.view(np.bool_))
    return out
