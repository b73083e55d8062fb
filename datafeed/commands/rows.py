"""Read the samples of a dataset as JSON, a block at a time."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from datafeed.commands.values import to_json

if TYPE_CHECKING:
    from datafeed.dataset import Dataset

_NESTED = json.JSONEncoder(allow_nan=False)
# JSON escapes a line end within a string, so one in a list of plain values stands between two of them.
_FLAT = json.JSONEncoder(allow_nan=False, separators=("\n", ": "))


def json_objects(dataset: Dataset, end: int) -> Iterator[dict[str, object]]:
    """Yield the first samples as JSON objects.

    Args:
        dataset: Whose samples.
        end: How many of them, at most as many as there are.

    Raises:
        DatafeedError: As `Dataset` raises it, before anything of the block is given.
    """
    names = [feature.name for feature in dataset.schema]
    for count, columns in _columns(dataset, end):
        yield from (dict(zip(names, row, strict=True)) for row in _rows(count, columns))


def json_lines(dataset: Dataset, end: int) -> Iterator[str]:
    """Yield the first samples as lines of JSON, each with its line end: what `json_objects` yields, at less cost."""
    names = [json.dumps(feature.name).replace("%", "%%") for feature in dataset.schema]
    form = "{" + ", ".join(f"{name}: %s" for name in names) + "}\n"
    nested = [bool(feature.shape) for feature in dataset.schema]
    for count, columns in _columns(dataset, end):
        texts = [_texts(column, deep=deep) for column, deep in zip(columns, nested, strict=True)]
        yield from (form % row for row in _rows(count, texts))


def _columns(dataset: Dataset, end: int) -> Iterator[tuple[int, list[list[object]]]]:
    """Yield, per block, how many samples are wanted of it, and for each feature their JSON values."""
    for start, stop in itertools.pairwise(dataset.index.first.tolist()):
        if start >= end:
            return
        found = dataset[start : min(stop, end)]
        columns = []
        for feature in dataset.schema:
            values = found[feature.name] if feature.dtype == "utf8" else to_json(found[feature.name])
            assert isinstance(values, list)
            if feature.optional:
                present = np.asarray(found[f"{feature.name}.present"]).tolist()
                values = [value if there else None for value, there in zip(values, present, strict=True)]
            columns.append(values)
        yield min(stop, end) - start, columns


def _rows(count: int, columns: Sequence[Sequence[object]]) -> Iterable[tuple[object, ...]]:
    return zip(*columns, strict=True) if columns else itertools.repeat((), count)


def _texts(values: list[object], *, deep: bool) -> list[str]:
    return list(map(_NESTED.encode, values)) if deep else _FLAT.encode(values)[1:-1].split("\n")
