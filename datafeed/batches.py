r"""Turn parsed columns into what a caller gets: tensors for a batch, plain values for a sample.

==============================  =====================================  =======================================
feature                         in a batch                             in a sample
==============================  =====================================  =======================================
numeric, fixed shape            tensor (batch, \*shape)                numpy array, or scalar for shape ()
numeric, ragged                 `Ragged` (values, offsets)             numpy array (n, \*row_shape)
bytes                           list of bytes                          bytes
utf8                            list of str                            str
bytes or utf8, a list of them   list of lists                          list
image                           list of read-only memoryviews          bytes
image, with `ImageOptions`      uint8 tensor (batch, 3, height, width) uint8 tensor (3, height, width)
optional                        also "NAME.present", bool (batch,)     None where it is missing
==============================  =====================================  =======================================
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from datafeed._native import bytes_list
from datafeed.columns import Array, Column
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema

Plain = Array | np.generic | bytes | str | list[bytes] | list[str] | None
Texts = list[bytes] | list[str] | list[list[bytes]] | list[list[str]]


def to_texts(feature: Feature, column: Column) -> Texts:
    """Return a bytes or utf8 column as a list of values, or of lists of values.

    Raises:
        SchemaError: A utf8 feature holds bytes that are not UTF-8; with `row` and `feature` set.
    """
    assert column.offsets is not None
    flat = column.values.view(np.uint8)
    if not feature.shape:
        return decoded(feature, bytes_list(flat, column.offsets))
    assert column.inner is not None
    try:
        values = decoded(feature, bytes_list(flat, column.inner))
    except SchemaError as exc:
        row = int(np.searchsorted(column.offsets, exc.row, side="right")) - 1
        raise SchemaError(exc.reason, row, feature.name) from exc
    bounds = column.offsets.tolist()
    return [values[start:end] for start, end in itertools.pairwise(bounds)]  # type: ignore[return-value]  # a slice of either


def decoded(feature: Feature, values: list[bytes]) -> list[bytes] | list[str]:
    """Return the values of a feature of bytes as they are, of utf8 as strings.

    Raises:
        SchemaError: A utf8 feature holds bytes that are not UTF-8; with `row` (the value's number) and `feature` set.
    """
    if feature.dtype != "utf8":
        return values
    texts: list[str] = []
    try:
        for value in values:
            texts.append(value.decode())  # noqa: PERF401  (its length tells which value failed)
    except UnicodeDecodeError as exc:
        reason = f"expected UTF-8, found {exc.object[:40]!r}: {exc.reason}"
        raise SchemaError(reason, len(texts), feature.name) from exc
    return texts


def to_arrays(schema: Schema, columns: Sequence[Column]) -> dict[str, Array | Texts | list[Array]]:
    """Return the columns of many samples as numpy arrays and lists, by name.

    A ragged feature becomes a list of arrays; an optional one adds "NAME.present".
    """
    out: dict[str, Array | Texts | list[Array]] = {}
    for feature, column in zip(schema, columns, strict=True):
        if not feature.numeric:
            out[feature.name] = to_texts(feature, column)
        elif column.offsets is None:
            out[feature.name] = column.values
        else:
            bounds = column.offsets.tolist()
            out[feature.name] = [column.values[start:end] for start, end in itertools.pairwise(bounds)]
        if column.present is not None:
            out[f"{feature.name}.present"] = column.present.view(np.bool_)
    return out


def to_sample(schema: Schema, columns: Sequence[Column], row: int = 0) -> dict[str, Plain]:
    """Return one sample of some columns, by name.

    Arrays are views of the columns' memory.
    """
    sample: dict[str, Plain] = {}
    for feature, column in zip(schema, columns, strict=True):
        if column.present is not None and not column.present[row]:
            sample[feature.name] = None
        elif not feature.numeric:
            sample[feature.name] = _text(feature, column, row)
        elif column.offsets is None:
            sample[feature.name] = column.values[row]
        else:
            sample[feature.name] = column.values[column.offsets[row] : column.offsets[row + 1]]
    return sample


def _text(feature: Feature, column: Column, row: int) -> bytes | str | list[bytes] | list[str]:
    """Return one sample's value: the others are left as they are, damaged or not."""
    assert column.offsets is not None
    offsets = column.offsets[row : row + 2]
    try:
        if column.inner is None:
            return to_texts(feature, Column(column.values, offsets))[0]
        inner = column.inner[offsets[0] : offsets[1] + 1]
        return to_texts(feature, Column(column.values, offsets - offsets[0], inner))[0]
    except SchemaError as exc:
        raise SchemaError(exc.reason, row, feature.name) from exc
