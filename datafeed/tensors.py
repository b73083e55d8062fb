"""Turn parsed columns into tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from datafeed.batches import Texts, decoded, to_texts
from datafeed.columns import Column, Mask, Parsed
from datafeed.ragged import Ragged
from datafeed.schema import Feature, Schema

Value = torch.Tensor | Ragged | Texts | list[memoryview]


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

    def tensors(self, parsed: Parsed, made: Mapping[int, torch.Tensor]) -> dict[str, Value]:
        """Return a batch by name; tensors share the memory that was parsed into.

        Args:
            parsed: What the parser returned.
            made: By the number of the feature, tensors that stand for its column.

        Raises:
            SchemaError: A utf8 feature holds bytes that are not UTF-8; with `row` and `feature` set.
        """
        values: list[Value] = [()] * len(self._names)  # type: ignore[list-item]  # each is filled below
        for numbers, whole in zip(self._groups, parsed.wholes, strict=True):
            # One call makes the tensors of a whole group: 40 calls of from_numpy took a third of a batch's time.
            for number, tensor in zip(numbers, torch.from_numpy(whole).unbind(), strict=True):
                values[number] = tensor
        for number, texts in parsed.texts.items():
            values[number] = decoded(self._features[number], texts)
        for number, views in parsed.views.items():
            values[number] = views
        for number, column in enumerate(parsed.columns):
            if number in made:
                values[number] = made[number]
            elif column is not None:
                values[number] = _value(self._features[number], column)
        out = dict(zip(self._names, values, strict=True))
        return out if not self._optional else self._with_present(out, parsed.present)

    def _with_present(self, batch: dict[str, Value], present: Sequence[Mask | None]) -> dict[str, Value]:
        out: dict[str, Value] = {}
        for (name, value), mask in zip(batch.items(), present, strict=True):
            out[name] = value
            if mask is not None:
                out[f"{name}.present"] = torch.from_numpy(mask)
        return out


def _value(feature: Feature, column: Column) -> Value:
    if not feature.numeric:
        return to_texts(feature, column)
    if column.offsets is not None:
        return Ragged(torch.from_numpy(column.values), torch.from_numpy(column.offsets))
    return torch.from_numpy(column.values)
