"""Turn the values of HDF5 data sets into columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from datafeed.columns import Array, Column, end_to_end, offsets_of
from datafeed.converters import array_columns, array_fields
from datafeed.converters.array_columns import Faults
from datafeed.converters.array_fields import Leaf
from datafeed.errors import SchemaError
from datafeed.schema import Feature, stored


def feature_of(leaf: Leaf, *, int64_lists: bool) -> Feature:
    """Return the feature that holds a leaf: as `array_fields.feature_of`, but for what NumPy has no dtype for.

    Strings become utf8 where their character set is UTF-8, else bytes; lists of any length a ragged dimension. An enum
    of 0, 1, 2 and so on becomes integers with `classes`.

    Args:
        leaf: The leaf.
        int64_lists: Whether integer arrays keep the plain TensorFlow form.

    Raises:
        SchemaError: No feature holds such values.
    """
    import h5py

    text = h5py.check_string_dtype(leaf.dtype)
    if text is not None:
        plain = array_fields.feature_of(replace(leaf, dtype=np.dtype("S1")), int64_lists=int64_lists)
        return stored(leaf.name, "utf8" if text.encoding == "utf-8" else "bytes", plain.shape)
    base = h5py.check_vlen_dtype(leaf.dtype)
    if base is not None:
        return _list(leaf, base, int64_lists=int64_lists)
    if h5py.check_ref_dtype(leaf.dtype) is not None:
        raise SchemaError("no feature holds references to other objects: leave it out (--columns)", feature=leaf.name)
    feature = array_fields.feature_of(leaf, int64_lists=int64_lists)
    return replace(feature, classes=_classes(h5py.check_enum_dtype(leaf.dtype) or {}))


def _list(leaf: Leaf, base: object, *, int64_lists: bool) -> Feature:
    if isinstance(base, np.dtype) and not base.isnative:
        raise SchemaError(
            f"h5py (3.14) reads lists of {base} as if their bytes stood the other way round: write them as "
            f"{base.newbyteorder('=').str}",
            feature=leaf.name,
        )
    if not isinstance(base, np.dtype) or base.kind not in "biuf" or leaf.shape:
        what = f"lists of {base}" + (f" of shape {leaf.shape}" if leaf.shape else "")
        raise SchemaError(f"no feature holds {what}: leave it out (--columns)", feature=leaf.name)
    plain = array_fields.feature_of(Leaf(leaf.name, (), base, ()), int64_lists=int64_lists)
    return stored(leaf.name, plain.dtype, (None,), int64_lists=int64_lists)


def _classes(names: dict[str, int]) -> tuple[str, ...]:
    """Return the names of an enum that counts from 0; none of another."""
    by_number = {number: name for name, number in names.items()}
    return tuple(by_number[number] for number in sorted(by_number)) if sorted(by_number) == [*range(len(names))] else ()


def column_of(feature: Feature, array: Array) -> tuple[Column, Faults]:
    """Turn the values of some rows into a column.

    Args:
        feature: What `feature_of` made of their leaf.
        array: (n, *shape) The values, as h5py gives them.

    Returns:
        The column; and the rows that do not fit.
    """
    if feature.numeric:
        return _lists(feature, array) if feature.ragged else array_columns.column_of(feature, array)
    if feature.dtype == "bytes" and array.dtype.kind == "S":
        return array_columns.column_of(feature, array)
    values: list[bytes] = array.reshape(-1).tolist()
    faults = _no_text(feature, values, feature.row_items) if feature.dtype == "utf8" else {}
    joined, ends = end_to_end(values)
    return array_columns.text_column(feature, len(array), joined, ends), faults


def _no_text(feature: Feature, values: Sequence[bytes], width: int) -> Faults:
    faults = {}
    for place, value in enumerate(values):
        try:
            value.decode()
        except UnicodeDecodeError:
            faults[place // width] = f"{feature.name!r} is text and no UTF-8"
    return faults


def _lists(feature: Feature, array: Array) -> tuple[Column, Faults]:
    lists: list[Array] = array.tolist()
    ends = offsets_of([len(values) for values in lists])
    joined = np.concatenate([np.empty(0, feature.numpy_dtype), *lists])
    return array_columns.column_of(replace(feature, shape=()), joined)[0]._replace(offsets=ends), {}
