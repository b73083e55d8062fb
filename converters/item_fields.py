"""Turn fields of items, which lie in one buffer, into columns, with as little Python per value as their forms allow."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from datafeed.columns import Array, Column, end_to_end, offsets_of
from datafeed.converters.item_table import Bytes
from datafeed.errors import SchemaError
from datafeed.infer import image_media
from datafeed.schema import Feature, stored

Places = npt.NDArray[np.int64]
Faults = dict[int, str]

_SMALL_NBYTES = 16  # up to which a table of places costs less than a slice of Python's a value


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Name the values of one field of some items.

    Args:
        data: The bytes in which all lie.
        starts: (n) Where each begins.
        nbytes: (n) The size of each.
    """

    data: Bytes
    starts: Places
    nbytes: Places

    def __len__(self) -> int:
        return len(self.starts)

    def only(self, rows: Places) -> Values:
        """Return the values of some rows."""
        return Values(self.data, self.starts[rows], self.nbytes[rows])

    def each(self) -> list[bytes]:
        """Return the values one by one."""
        data = self.data.data
        ends = (self.starts + self.nbytes).tolist()
        return [bytes(data[start:end]) for start, end in zip(self.starts.tolist(), ends, strict=True)]

    def head(self, nbytes: int) -> Bytes:
        """Return (n, nbytes) the first bytes of each; where one is shorter, whatever follows it."""
        places = self.starts[:, None] + np.arange(nbytes)
        found: Bytes = self.data[np.minimum(places, len(self.data) - 1)] if len(self.data) else places.astype(np.uint8)
        return found

    def joined(self) -> Bytes:
        """Return the values end to end."""
        if not len(self):
            return np.empty(0, np.uint8)
        size = int(self.nbytes[0])
        if (self.nbytes != size).any():
            return self._slices()
        steps = np.diff(self.starts)
        if len(steps) and (steps != steps[0]).any():
            return self.head(size).reshape(-1) if size <= _SMALL_NBYTES else self._slices()
        step = int(steps[0]) if len(steps) else size
        view = np.lib.stride_tricks.as_strided(self.data[self.starts[0] :], (len(self), size), (step, 1))
        return np.ascontiguousarray(view).reshape(-1)

    def _slices(self) -> Bytes:
        data = self.data.data
        ends = (self.starts + self.nbytes).tolist()
        parts = [data[start:end] for start, end in zip(self.starts.tolist(), ends, strict=True)]
        return np.frombuffer(b"".join(parts), np.uint8)


class Field(Protocol):
    """Turn one field into a column."""

    @property
    def feature(self) -> Feature:
        """What the column holds."""
        ...

    def faults(self, values: Values) -> Faults:
        """Return the rows whose value is not what the field holds, with the reason."""
        ...

    def column(self, values: Values) -> Column:
        """Return the column of values without faults."""
        ...


@dataclass(frozen=True, slots=True)
class BytesField:
    """Keep bytes, or text, as they are."""

    feature: Feature

    def faults(self, values: Values) -> Faults:
        """Return the rows whose text is no UTF-8."""
        if self.feature.dtype != "utf8" or _all_text(values):
            return {}
        return {row: "it is text and no UTF-8" for row, value in enumerate(values.each()) if not _is_text(value)}

    def column(self, values: Values) -> Column:
        """Return the bytes."""
        return Column(values.joined(), offsets_of(values.nbytes))


def _all_text(values: Values) -> bool:
    """Whether all are UTF-8: they are together, and none begins within a character."""
    filled = values.only(np.flatnonzero(values.nbytes))
    return _is_text(values.joined().data) and not (filled.head(1) & 0xC0 == 0x80).any()


def _is_text(value: bytes | memoryview) -> bool:
    try:
        str(value, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ScalarField:
    """Read numbers, or arrays of one shape, that nothing stands before."""

    feature: Feature

    def faults(self, values: Values) -> Faults:
        """Return the rows that have another size."""
        size = self.feature.numpy_dtype.itemsize * self.feature.row_items
        rows = np.flatnonzero(values.nbytes != size).tolist()
        return {row: f"expected {size} bytes of {self.feature.dtype}, found {values.nbytes[row]}" for row in rows}

    def column(self, values: Values) -> Column:
        """Return the numbers."""
        return Column(numbers(values.joined(), self.feature).reshape(len(values), *self.feature.row_shape))


def numbers(data: Bytes, feature: Feature) -> Array:
    """Return bytes as the numbers of a feature, one after the other."""
    return data != 0 if feature.dtype == "bool" else data.view(feature.numpy_dtype)


@dataclass(frozen=True, slots=True)
class DigitsField:
    """Read numbers that are written as text."""

    feature: Feature

    def faults(self, values: Values) -> Faults:
        """Return the rows that are no number, or none that the feature holds."""
        found = {}
        for row, value in enumerate(values.each()):
            try:
                self._number(value)
            except (ValueError, OverflowError):
                found[row] = f"expected the digits of {self.feature.dtype}, found {value[:40]!r}"
        return found

    def column(self, values: Values) -> Column:
        """Return the numbers."""
        return Column(np.array([self._number(value) for value in values.each()], self.feature.numpy_dtype))

    def _number(self, value: bytes) -> object:
        text = value.decode()
        return np.int64(int(text)) if self.feature.dtype == "int64" else float(text)


@dataclass(frozen=True, slots=True)
class ListField:
    """Read lists of bytes: their number (u32), the size of each (u32), then each.

    Args:
        feature: A ragged feature of bytes.
        before: Bytes without meaning before that.
    """

    feature: Feature
    before: int = 0

    def faults(self, values: Values) -> Faults:
        """Return the rows whose sizes do not add up."""
        found = {}
        for row, value in enumerate(values.each()):
            sizes = self._sizes(value)
            if sizes is None or self._start(sizes) + int(sizes.sum()) != len(value):
                found[row] = f"a list of bytes does not fill its {len(value)} bytes"
        return found

    def column(self, values: Values) -> Column:
        """Return the lists."""
        lists = [self._items(value) for value in values.each()]
        joined, inner = end_to_end(list(itertools.chain.from_iterable(lists)))
        return Column(joined, offsets_of([len(items) for items in lists]), inner)

    def _sizes(self, value: bytes) -> Places | None:
        head = self.before + 4
        count = int.from_bytes(value[self.before : head], "little")
        if len(value) < head + 4 * count:
            return None
        return np.frombuffer(value, "<u4", count, head).astype(np.int64)

    def _start(self, sizes: Places) -> int:
        return self.before + 4 + 4 * len(sizes)

    def _items(self, value: bytes) -> list[bytes]:
        sizes = self._sizes(value)
        assert sizes is not None
        ends = (self._start(sizes) + np.cumsum(sizes)).tolist()
        return [value[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Arrays:
    """Hold what the heads of arrays say.

    Args:
        dims: (n, rank) Their dimensions; of a row with a fault anything.
        values: Their numbers.
        faults: The rows whose head is not as expected, with the reason.
    """

    dims: Places
    values: Values
    faults: Faults


Heads = Callable[[Values, str, int], Arrays]
"""Reads the heads of arrays of a dtype and a rank."""


@dataclass(frozen=True, slots=True)
class ArrayField:
    """Read arrays.

    Args:
        feature: What they are.
        heads: Reads what stands before the numbers of each; a function of a module, so that it can be pickled.
    """

    feature: Feature
    heads: Heads

    def faults(self, values: Values) -> Faults:
        """Return the rows of another dtype or shape."""
        arrays = self.heads(values, self.feature.dtype, len(self.feature.shape))
        found = dict(arrays.faults)
        if self.feature.ragged:
            wrong = (arrays.dims[:, 1:] != self.feature.row_shape).any(axis=1)
        else:
            wrong = (arrays.dims != self.feature.shape).any(axis=1)
        items = arrays.dims.astype(np.float64).prod(axis=1)  # exact where it counts, and never wraps
        short = items * self.feature.numpy_dtype.itemsize != arrays.values.nbytes
        for row in np.flatnonzero(wrong | short).tolist():
            dims, nbytes = tuple(arrays.dims[row].tolist()), arrays.values.nbytes[row]
            expected = str(self.feature.shape).replace("None", "any")
            reason = (
                f"expected shape {expected}, found {dims}"
                if wrong[row]
                else f"its shape is {dims}, its numbers {nbytes} bytes"
            )
            found.setdefault(row, reason)
        return found

    def column(self, values: Values) -> Column:
        """Return the numbers."""
        arrays = self.heads(values, self.feature.dtype, len(self.feature.shape))
        flat = numbers(arrays.values.joined(), self.feature)
        if self.feature.ragged:
            return Column(flat.reshape(-1, *self.feature.row_shape), offsets_of(arrays.dims[:, 0]))
        return Column(flat.reshape(len(values), *self.feature.row_shape))


def array_field(name: str, dtype: str, rank: int, heads: Heads, values: Values) -> ArrayField:
    """Return the field of arrays whose shape the first ones tell.

    Args:
        name: The feature's name.
        dtype: Their dtype.
        rank: How many dimensions they have.
        heads: Reads their heads.
        values: The first ones.

    Returns:
        The field: the first dimension is ragged where it differs, or is always 0.

    Raises:
        SchemaError: Another dimension differs, or is 0.
    """
    arrays = heads(values, dtype, rank)
    good = np.setdiff1d(np.arange(len(values)), list(arrays.faults))
    dims = np.unique(arrays.dims[good], axis=0)
    least, most = (dims.min(axis=0).tolist(), dims.max(axis=0).tolist()) if len(dims) else ([0] * rank, [0] * rank)
    if least[1:] != most[1:] or 0 in least[1:]:
        raise SchemaError(
            f"arrays of shapes {tuple(least)} to {tuple(most)}: only the first dimension may differ", feature=name
        )
    shape: tuple[int | None, ...] = tuple(most)
    if rank and (least[0] != most[0] or not most[0]):
        shape = (None, *most[1:])
    return ArrayField(stored(name, dtype, shape), heads)


def images_told(feature: Feature, values: Values) -> Feature:
    """Return a feature of bytes with the media that the first values have.

    Args:
        feature: Bytes that should be images.
        values: The first of them.

    Returns:
        The same; its media is that of all values, "image" where they differ, nothing where one is no image.
    """
    found = {image_media(value.tobytes()) for value in values.head(16)}
    media = "" if "" in found else "image" if len(found) > 1 else found.pop() if found else ""
    return replace(feature, media=media)


def split(data: Bytes, offsets: Places, fixed: Sequence[int | None]) -> tuple[list[Values], Faults]:
    """Return the fields of items, each of which begins with the sizes (u32) of those fields whose size is not fixed.

    Args:
        data: The items, end to end.
        offsets: (n + 1) Where each begins, then where the last one ends.
        fixed: The size of each field, None where it differs from item to item.

    Returns:
        The fields; and the items whose sizes do not add up to theirs, with the reason.
    """
    starts, nbytes = offsets[:-1], np.diff(offsets)
    head_nbytes = 4 * sum(size is None for size in fixed)
    heads = Values(data, starts, nbytes).head(head_nbytes)
    told = iter(heads.view("<u4").astype(np.int64).T if head_nbytes else np.empty((0, len(starts)), np.int64))
    sizes: list[Places] = [next(told) if size is None else np.full(len(starts), size, np.int64) for size in fixed]
    total = np.sum(sizes, axis=0) + head_nbytes
    fields, start = [], starts + head_nbytes
    for size in sizes:
        fields.append(Values(data, start, size))
        start = start + size
    rows = np.flatnonzero(total != nbytes).tolist()
    return fields, {row: f"its {len(fixed)} fields need {total[row]} bytes, it has {nbytes[row]}" for row in rows}


def values_of(found: Sequence[bytes]) -> Values:
    """Return values that lie anywhere as those of one buffer."""
    data, offsets = end_to_end(found)
    return Values(data.view(np.uint8), offsets[:-1], np.diff(offsets))


def listed(field: Field) -> Field:
    """Return a field whose feature keeps integer arrays in the plain TensorFlow form; its columns are the same."""
    old = field.feature
    if not old.numeric:
        return field
    feature = stored(old.name, old.dtype, old.shape, int64_lists=True)
    return cast("Field", replace(cast("ScalarField", field), feature=feature))
