"""Turn samples, one Python mapping each, into columns.

Values keep their meaning exactly: a value that its feature's dtype cannot hold is an error with its row, never a
rounded or wrapped number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from datafeed.columns import Array, Column, Mask, end_to_end, offsets_of
from datafeed.converters.source import Chunk, OnBad
from datafeed.errors import BadItem, SchemaError
from datafeed.schema import Feature, Schema
from datafeed.sizes import counted

Sample = Mapping[str, object]


def chunk_of(schema: Schema, samples: Sequence[Sample], where: Callable[[int], str], on_bad: OnBad) -> Chunk:
    """Turn samples into a chunk; one that does not fit goes to `on_bad` and is left out.

    Args:
        schema: What each sample holds. A name that a sample lacks, or whose value is None, is missing.
        samples: The samples.
        where: Where sample i came from.
        on_bad: What to do with one that does not fit.

    Returns:
        The chunk of those that fit.
    """
    kept = list(range(len(samples)))
    try:
        columns = _columns(schema, samples)
    except SchemaError:  # there may be many: each sample is tried by itself, so that the work stays linear
        kept = [number for number in kept if _fits(schema, samples[number], where(number), on_bad)]
        columns = _columns(schema, [samples[number] for number in kept])
    return Chunk(columns, len(kept), where=lambda row: where(kept[row]))


def _columns(schema: Schema, samples: Sequence[Sample]) -> dict[str, Column]:
    return {feature.name: column_of(feature, [sample.get(feature.name) for sample in samples]) for feature in schema}


def _fits(schema: Schema, sample: Sample, where: str, on_bad: OnBad) -> bool:
    try:
        _columns(schema, [sample])
    except SchemaError as exc:
        on_bad(BadItem(where, str(exc), repr(dict(sample)).encode("utf-8", "backslashreplace")))
        return False
    return True


def column_of(feature: Feature, values: Sequence[object]) -> Column:
    """Turn one feature's values into a column.

    Args:
        feature: The feature.
        values: One a sample: a number, array, bytes or str, or a sequence of them, as the feature's shape says; None
            where it is missing.

    Raises:
        SchemaError: A value does not fit, or is missing though the feature is not optional; with its row.
    """
    present = np.array([value is not None for value in values], np.bool_)
    if not feature.optional and not present.all():
        raise SchemaError("expected a value, found none", int(np.argmin(present)), feature.name)
    mask = present if feature.optional else None
    if not feature.numeric:
        return _texts(feature, values, mask)
    if feature.ragged:
        return _ragged(feature, values, mask)
    return Column(_fixed(feature, values), present=mask)


def _fixed(feature: Feature, values: Sequence[object]) -> Array:
    missing = _blank(feature)
    rows = [missing if value is None else value for value in values]
    fast = _try_fast(feature, rows)
    if fast is not None:
        return fast
    out = np.empty((len(rows), *feature.row_shape), feature.numpy_dtype)
    for row, value in enumerate(rows):
        array = _exact(feature, value, row)
        if array.shape != feature.row_shape:
            raise SchemaError(f"expected shape {feature.row_shape}, found {array.shape}", row, feature.name)
        out[row] = array
    return out


def _try_fast(feature: Feature, rows: Sequence[object]) -> Array | None:
    """Convert scalars of the plain Python type in one go; None where any is of another type or does not fit."""
    wanted = {"int64": int, "float64": float, "bool": bool}.get(feature.dtype)
    if feature.shape or wanted is None or any(type(value) is not wanted for value in rows):
        return None
    try:
        return np.array(rows, feature.numpy_dtype)
    except OverflowError:
        return None


def _ragged(feature: Feature, values: Sequence[object], mask: Mask | None) -> Column:
    parts = []
    for row, value in enumerate(values):
        array = _exact(feature, () if value is None else value, row)
        if array.size == 0:
            array = array.reshape(0, *feature.row_shape)
        if array.shape[1:] != feature.row_shape or not array.ndim:
            raise SchemaError(f"expected shape {('any', *feature.row_shape)}, found {array.shape}", row, feature.name)
        parts.append(array)
    empty = np.empty((0, *feature.row_shape), feature.numpy_dtype)
    return Column(np.concatenate([empty, *parts]), offsets_of([len(part) for part in parts]), present=mask)


def array_of(value: object) -> Array:
    """Return a number, list, array or tensor as NumPy's array.

    Raises:
        SchemaError: NumPy makes none of it, as of torch tensors of bfloat16 or with a gradient.
    """
    try:
        return np.asarray(value)
    except (ValueError, OverflowError, TypeError, RuntimeError) as exc:  # the last two are raised by tensors
        reason = " ".join(str(exc).split())
        raise SchemaError(f"NumPy makes no array of {value!r:.60}: {reason}") from exc


def _exact(feature: Feature, value: object, row: int) -> Array:
    """Return a value as an array of the feature's dtype.

    Raises:
        SchemaError: It is no number, or the dtype cannot hold it.
    """
    try:
        array = array_of(value)
    except SchemaError as exc:
        raise SchemaError(f"expected {feature.dtype}: {exc.reason}", row, feature.name) from exc
    target = feature.numpy_dtype
    if array.dtype.kind in "fO" and target.kind in "iu" and isinstance(value, Sequence):
        array = _integers(value, array, target)
    if array.size == 0:
        return array.astype(target) if array.dtype.kind in "biuf" else np.empty(array.shape, target)
    if array.dtype.kind not in "biuf" or not _may_become(array.dtype.kind, target.kind):
        raise SchemaError(f"expected {feature.dtype}, found {value!r:.60}", row, feature.name)
    with np.errstate(over="ignore", invalid="ignore"):
        out = array.astype(target)
    if target.kind in "biu" and not (out == array).all():
        raise SchemaError(f"{value!r:.60} is outside what {feature.dtype} holds", row, feature.name)
    if target.kind == "f" and array.dtype.kind in "iu" and not (out.astype(array.dtype) == array).all():
        raise SchemaError(f"{value!r:.60} is not exact as {feature.dtype}", row, feature.name)
    if target.kind == "f" and (np.isinf(out) & np.isfinite(array)).any():
        raise SchemaError(f"{value!r:.60} is outside what {feature.dtype} holds", row, feature.name)
    return out


def _integers(value: Sequence[object], array: Array, target: np.dtype[np.generic]) -> Array:
    """Return integers that NumPy takes for floats, as uint64 beside 0, exactly; anything else as NumPy made it."""
    items = np.array(value, object).reshape(-1).tolist()
    if not all(type(item) is int for item in items):
        return array
    try:
        return np.array(items, target).reshape(array.shape)
    except OverflowError:
        return array


def _may_become(kind: str, target: str) -> bool:
    """Whether numbers of one kind may stand for another: never a fraction for an integer, nor a number for a bool."""
    return target in {"b": "biuf", "i": "iuf", "u": "iuf", "f": "f"}[kind]


def _texts(feature: Feature, values: Sequence[object], mask: Mask | None) -> Column:
    if not feature.shape:
        items = [_bytes(feature, "" if value is None else _unpacked(value), row) for row, value in enumerate(values)]
        return Column(*end_to_end(items), present=mask)
    lists: list[list[bytes]] = []
    for row, value in enumerate(map(_unpacked, values)):
        if value is not None and (isinstance(value, (str, bytes)) or not isinstance(value, Sequence)):
            raise SchemaError(f"expected a list of {feature.dtype}, found {value!r:.60}", row, feature.name)
        lists.append([_bytes(feature, item, row) for item in value or ()])
        if feature.shape[0] is not None and value is not None and len(lists[-1]) != feature.shape[0]:
            raise SchemaError(
                f"expected {counted(feature.shape[0], 'value')}, found {len(lists[-1])}", row, feature.name
            )
    joined, inner = end_to_end(list(itertools.chain.from_iterable(lists)))
    return Column(joined, offsets_of([len(row) for row in lists]), inner, mask)


def _unpacked(value: object) -> object:
    """Return an array of text as Python's own, anything else as it is."""
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind in "US" else value


def _bytes(feature: Feature, value: object, row: int) -> bytes:
    if isinstance(value, str) and (feature.dtype == "utf8" or value == ""):
        try:
            return value.encode()
        except UnicodeEncodeError as exc:
            raise SchemaError(f"{value!r:.60} has no UTF-8 form", row, feature.name) from exc
    if isinstance(value, (bytes, bytearray, memoryview)) and feature.dtype == "bytes":
        return bytes(value)
    raise SchemaError(f"expected {feature.dtype}, found {value!r:.60}", row, feature.name)


def _blank(feature: Feature) -> object:
    filler = np.nan if feature.numpy_dtype.kind == "f" else 0
    return (
        np.full(feature.row_shape, filler, feature.numpy_dtype) if feature.shape else feature.numpy_dtype.type(filler)
    )
