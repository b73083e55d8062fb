"""Turn Arrow arrays into columns without a Python object per value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from datafeed.columns import Array, Column, Mask, Offsets, offsets_of
from datafeed.converters.rows import column_of as column_of_values
from datafeed.errors import SchemaError
from datafeed.schema import Feature, stored

if TYPE_CHECKING:
    import pyarrow as pa

_Found = tuple[str, tuple[int | None, ...], str]
"""A dtype, a shape and a media type."""


def feature_of(name: str, kind: pa.DataType, *, optional: bool, int64_lists: bool) -> Feature:
    """Return the feature that holds an Arrow type.

    Integers, floats and booleans stay what they are; strings become utf8, binaries bytes. A list becomes a ragged
    dimension, a list of fixed size a fixed one; only the outermost may be of any length. Dictionaries are decoded.
    Dates, times, timestamps and durations become the integers that they are counted in, with the Arrow type as their
    `media`.

    Args:
        name: The feature's name.
        kind: The Arrow type.
        optional: Whether a sample may lack it.
        int64_lists: Whether integer arrays keep the plain TensorFlow form.

    Returns:
        The feature.

    Raises:
        SchemaError: No feature holds such a type; the message names it.
    """
    dtype, shape, media = _look(kind, outermost=True)
    why = ""
    if 0 in shape:
        why = "lists of size 0 hold nothing:"
    elif dtype in {"bytes", "utf8"} and len(shape) > 1:
        why = "no feature holds lists of lists of text:"
    elif not dtype:
        why = "no feature holds the type"
    if why:
        advice = "cast it to float64 or string" if "decimal" in str(kind) else "write it as text"
        raise SchemaError(f"{why} {kind}: {advice}, or leave it out (--columns names those to keep)", feature=name)
    return stored(name, dtype, shape, media=media, optional=optional, int64_lists=int64_lists)


def form_of(kind: pa.DataType) -> object:
    """Return what makes two types the same feature: equal for both, whatever layout a writer chose."""
    found = _look(kind, outermost=True)
    return found if found[0] else str(kind)


def _look(kind: pa.DataType, *, outermost: bool) -> _Found:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _look(kind.value_type, outermost=outermost)
    if _is_extension(kind):
        dtype, shape, media = _look(kind.storage_type, outermost=outermost)
        if kind.extension_name == "arrow.fixed_shape_tensor" and kind.permutation is None:
            shape = (*kind.shape, *shape[1:])
        return dtype, shape, "json" if kind.extension_name == "arrow.json" else media
    if types.is_fixed_size_list(kind):
        dtype, shape, media = _look(kind.value_type, outermost=False)
        return dtype, (kind.list_size, *shape), media
    if types.is_list(kind) or types.is_large_list(kind):
        dtype, shape, media = _look(kind.value_type, outermost=False)
        return (dtype if outermost else ""), (None, *shape), media
    if types.is_temporal(kind) and not types.is_interval(kind):
        return f"int{kind.bit_width}", (), str(kind)
    return _scalar(kind), (), ""


def _scalar(kind: pa.DataType) -> str:
    from pyarrow import types

    if types.is_integer(kind) or types.is_boolean(kind):
        return str(kind)
    if types.is_floating(kind):
        return f"float{kind.bit_width}"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "utf8"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "bytes"
    return "bytes" if types.is_fixed_size_binary(kind) and not types.is_decimal(kind) else ""


def _is_extension(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return isinstance(kind, pa.BaseExtensionType)


def plain(array: pa.Array) -> pa.Array:
    """Return an array without dictionary, extension, view or large offsets, so that few layouts are left.

    Args:
        array: Any array that a feature holds; values are copied only where their layout changes.
    """
    import pyarrow as pa
    from pyarrow import types

    kind = array.type
    if _is_extension(kind):
        return plain(array.storage)
    if types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if types.is_string_view(kind) or types.is_binary_view(kind) or types.is_fixed_size_binary(kind):
        return array.cast(pa.large_string() if types.is_string_view(kind) else pa.large_binary())
    return array


def reshaped(feature: Feature, array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Turn lists of any length into lists of fixed size.

    Args:
        feature: What `feature_of` made of the type to give them.
        array: (n,) lists of lists.
        kind: That type.

    Returns:
        The array; and the rows whose lists have other sizes, which are null in it, with the reason.
    """
    import pyarrow as pa

    array = plain(array)
    kept = _of_shape(array, kind)
    rows = np.flatnonzero(_present(array) & ~kept).tolist()
    odd = dict.fromkeys(rows, f"{feature.name!r} has not the shape {feature.shape}")
    if kept.all():
        return _nested(array, kind), {}
    places = np.cumsum(kept) - 1
    return _nested(array.filter(pa.array(kept)), kind).take(pa.array(places, mask=~kept)), odd


def _of_shape(array: pa.Array, kind: pa.DataType) -> Mask:
    """Tell which rows are lists of the sizes that a type says, none of them missing."""
    from pyarrow import compute, types

    kept = _present(array)
    rows = np.arange(len(array))
    while types.is_list(kind) or types.is_fixed_size_list(kind):
        lengths = compute.list_value_length(array).fill_null(-1).to_numpy(zero_copy_only=False)
        if types.is_fixed_size_list(kind):
            kept[rows[lengths != kind.list_size]] = False
        rows = np.repeat(rows, np.maximum(lengths, 0))
        array, kind = array.flatten(), kind.value_type
    return kept


def _nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return lists as a type says, which they fit, without nulls but among the values."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(_nested(array.flatten(), kind.value_type), kind.list_size)
    if types.is_list(kind):
        offsets = pa.array(_list_offsets(array), pa.int64())
        return pa.LargeListArray.from_arrays(offsets, _nested(array.flatten(), kind.value_type))
    return array


def column_of(feature: Feature, array: pa.Array) -> Column:
    """Turn an array into a column.

    Args:
        feature: What `feature_of` made of its type.
        array: (n,) values; where `unfit_rows` names rows, without them.

    Returns:
        The column; it may share the array's memory, and keeps it alive.
    """
    if str(array.type) == "null":
        return column_of_values(feature, [None] * len(array))
    array = plain(array)
    present = _present(array) if feature.optional else None
    if feature.shape:
        return _lists(feature, array, present)
    if feature.numeric:
        return Column(_numbers(feature, array), present=present)
    values, offsets = _bytes(array)
    return Column(values, offsets, present=present)


def _lists(feature: Feature, array: pa.Array, present: Mask | None) -> Column:
    flat = plain(array.flatten())  # leaves out what missing lists hold
    if not feature.numeric:
        values, inner = _bytes(flat)
        return Column(values, _list_offsets(array), inner, present)
    if feature.ragged:
        return Column(_fixed(feature, flat), _list_offsets(array), present=present)
    found = _fixed(feature, flat)
    if array.null_count:
        out = np.full((len(array), *feature.row_shape), _fill(feature), feature.numpy_dtype)
        out[_present(array)] = found
        found = out
    return Column(found, present=present)


def _fixed(feature: Feature, flat: pa.Array) -> Array:
    """Return the numbers of nested lists of fixed size."""
    from pyarrow import types

    while types.is_nested(flat.type):
        flat = plain(flat.flatten())
    return _numbers(feature, flat).reshape(-1, *feature.row_shape)


def _numbers(feature: Feature, array: pa.Array) -> Array:
    if array.null_count:
        return _filled(feature, array)
    if feature.dtype == "bool":
        return array.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow is untyped
    return _buffer(array, 1, feature.numpy_dtype)


def _filled(feature: Feature, array: pa.Array) -> Array:
    present = _present(array)
    if feature.dtype == "bool":
        return array.fill_null(fill_value=False).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # untyped
    out = _buffer(array, 1, feature.numpy_dtype).copy()
    out[~present] = _fill(feature)
    return out


def _fill(feature: Feature) -> float:
    return np.nan if feature.numpy_dtype.kind == "f" else 0


def _present(array: pa.Array) -> Mask:
    return array.is_valid().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]  # pyarrow is untyped


def _buffer(array: pa.Array, number: int, dtype: np.dtype[np.generic], extra: int = 0) -> Array:
    buffer = array.buffers()[number]
    if buffer is None:
        return np.zeros(len(array) + extra, dtype)
    whole = np.frombuffer(buffer, dtype, buffer.size // dtype.itemsize)
    return whole[array.offset : array.offset + len(array) + extra]


def _bytes(array: pa.Array) -> tuple[Array, Offsets]:
    """Return the bytes of strings or binaries end to end, and where each begins."""
    from pyarrow import types

    if array.null_count:
        array = array.fill_null(b"" if "binary" in str(array.type) else "")
    if not len(array):  # which may have no offset at all, or one past 0
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    wide = types.is_large_string(array.type) or types.is_large_binary(array.type)
    offsets = _buffer(array, 1, np.dtype(np.int64 if wide else np.int32), 1).astype(np.int64)
    start, end = int(offsets[0]), int(offsets[-1])
    data = array.buffers()[2]
    values = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8, end - start, start)
    return values, offsets - start


def _list_offsets(array: pa.Array) -> Offsets:
    from pyarrow import compute

    return offsets_of(compute.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False))


def unfit_rows(feature: Feature, array: pa.Array) -> dict[int, str]:
    """Return the rows whose value the feature cannot hold, with the reason.

    Args:
        feature: What `feature_of` made of the array's type.
        array: (n,) values.

    Returns:
        Missing values of a feature that is not optional, missing values within lists, and text that is no UTF-8.
    """
    array = plain(array)
    missing = array.null_count and not feature.optional
    if not missing and not (feature.shape and _null_inside(array)) and not _no_text(feature, array):
        return {}
    return dict(_unfit(feature, array))


def _null_inside(array: pa.Array) -> bool:
    from pyarrow import types

    while types.is_nested(array.type):
        array = plain(array.flatten())
        if array.null_count:
            return True
    return False


def _no_text(feature: Feature, array: pa.Array) -> bool:
    import pyarrow as pa

    if feature.dtype != "utf8":
        return False
    if feature.shape:
        array = plain(array.flatten())  # a dictionary's words are judged where they are used
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


def _unfit(feature: Feature, array: pa.Array) -> Iterator[tuple[int, str]]:
    for row in range(len(array)):
        one = array.slice(row, 1)
        if one.null_count:
            if not feature.optional:
                yield row, f"{feature.name!r} is null, where the file's metadata promises that nothing is"
        elif feature.shape and _null_inside(one):
            yield row, f"{feature.name!r} holds a null in its list: fill it"
        elif _no_text(feature, one):
            yield row, f"{feature.name!r} is text and no UTF-8"
