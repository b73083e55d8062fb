"""Turn parsed columns into tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch

from datafeed.batches import Texts, decoded, to_texts
from datafeed.columns import Array, Column, Mask, Parsed
from datafeed.ragged import Ragged
from datafeed.schema import Feature, Schema

Value = torch.Tensor | Ragged | Texts | list[memoryview]
Cuttable = TypeVar("Cuttable", Array, torch.Tensor, list[bytes], list[str], Texts, list[memoryview])


class TensorForm:
    """Turn parsed batches of one schema into tensors and lists. Built once; safe to share between threads.

    Args:
        schema: The features that are parsed.
        groups: The parser's groups of scalars.
    """

    def __init__(self, schema: Schema, groups: Sequence[Sequence[int]]) -> None:
        self._features = schema.features
        self._names = [feature.name for feature in schema]
        self._groups = groups
        self._optional = any(feature.optional for feature in schema)

    def batches(self, parsed: Parsed, made: Mapping[int, torch.Tensor], batch_size: int) -> list[dict[str, Value]]:
        """Return batches by name; tensors share the memory that was parsed into.

        Args:
            parsed: What the parser returned.
            made: By the number of the feature, tensors that stand for its column.
            batch_size: Records a batch; the last one may be shorter.

        Raises:
            SchemaError: A utf8 feature holds bytes that are not UTF-8; with `row` and `feature` set.
        """
        values: list[Sequence[Value]] = [()] * len(self._names)  # of each feature, one value a batch; filled below
        for numbers, whole in zip(self._groups, parsed.wholes, strict=True):
            for number, tensors in zip(numbers, _scalars(whole, batch_size), strict=True):
                values[number] = tensors
        for number, texts in parsed.texts.items():
            values[number] = _cut(decoded(self._features[number], texts), batch_size)
        for number, views in parsed.views.items():
            values[number] = _cut(views, batch_size)
        for number, column in enumerate(parsed.columns):
            if number in made:
                values[number] = _cut(made[number], batch_size)
            elif column is not None:
                values[number] = _values(self._features[number], column, batch_size)
        out = [dict(zip(self._names, batch, strict=True)) for batch in zip(*values, strict=True)]
        return out if not self._optional else self._with_present(out, parsed.present, batch_size)

    def _with_present(
        self, batches: list[dict[str, Value]], present: Sequence[Mask | None], batch_size: int
    ) -> list[dict[str, Value]]:
        masks = [None if mask is None else _tensors(mask, batch_size) for mask in present]
        out: list[dict[str, Value]] = []
        for number, batch in enumerate(batches):
            out.append({})
            for (name, value), mask in zip(batch.items(), masks, strict=True):
                out[-1][name] = value
                if mask is not None:
                    out[-1][f"{name}.present"] = mask[number]
        return out


def _scalars(whole: Array, batch_size: int) -> list[Sequence[Value]]:
    """Return the tensors of a group of scalars: per feature, one a batch."""
    size = min(whole.shape[1], batch_size)
    batches, rest = divmod(whole.shape[1], size)
    if rest:
        return [_tensors(row, batch_size) for row in whole]
    # One call makes them all: 40 calls of from_numpy took a third of a batch's time. Nobody sees the whole, so what
    # torch notes of views is no use; it took a quarter of this time.
    tensors = torch.from_numpy(whole.reshape(-1)).unsafe_split(size)
    return [tensors[at : at + batches] for at in range(0, len(tensors), batches)]


def _values(feature: Feature, column: Column, batch_size: int) -> Sequence[Value]:
    if not feature.numeric:
        return _cut(to_texts(feature, column), batch_size)
    if column.offsets is None:
        return _tensors(column.values, batch_size)
    return [
        Ragged(torch.from_numpy(column.values[offsets[0] : offsets[-1]]), torch.from_numpy(offsets - offsets[0]))
        for offsets in (
            column.offsets[low : low + batch_size + 1] for low in range(0, len(column.offsets) - 1, batch_size)
        )
    ]


def _tensors(values: Array, batch_size: int) -> list[torch.Tensor]:
    # Arrays are cut, not tensors: that lets go of the GIL, and to wait for it again takes longer than the cut.
    return [torch.from_numpy(part) for part in _cut(values, batch_size)]


def _cut(values: Cuttable, batch_size: int) -> list[Cuttable]:
    return [values[low : low + batch_size] for low in range(0, len(values), batch_size)]
