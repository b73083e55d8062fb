"""Take samples as Python gives them, and draw a schema from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from datafeed.converters.rows import Sample, array_of
from datafeed.errors import SchemaError
from datafeed.infer import image_media
from datafeed.schema import DTYPES, Feature, Schema, Shape, stored

SINGLE = "value"
_SNIFF_NBYTES = 16
_Look = tuple[str, Shape]
"""A dtype and a shape; lists have None as their first dimension."""

_EMPTY: _Look = ("", (None,))
"""That of a list without values: any other list's, too."""


def as_sample(value: object) -> Sample:
    """Return one sample as a mapping from names to values.

    A mapping is one already, those within it flattened: {"a": {"b": 1}} has "a.b". A named tuple or dataclass has its
    fields, another tuple or list its places ("0", "1"), and any other value is named "value".

    Raises:
        SchemaError: A name is no text, or stands there twice.
    """
    if isinstance(value, Mapping):
        return dict(_flat("", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if isinstance(value, (tuple, list)):
        return {str(place): item for place, item in enumerate(value)}
    return {SINGLE: value}


def _flat(prefix: str, found: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    names = set()
    for name, value in found.items():
        if not isinstance(name, str) or not name:
            raise SchemaError(f"expected names that are text, found {name!r:.60}")
        inner = _flat(f"{prefix}{name}.", value) if isinstance(value, Mapping) else [(prefix + name, value)]
        for full, item in inner:
            if full in names:
                raise SchemaError(f"the name {full!r} stands there twice")
            names.add(full)
            yield full, item


def nbytes_of(sample: Sample) -> int:
    """Return about what a sample takes as a record."""
    return sum(len(name) + 12 + _nbytes(value) for name, value in sample.items())


def _nbytes(value: object) -> int:
    if isinstance(value, (bytes, bytearray, str)):
        return len(value)
    nbytes = _told_nbytes(value)
    if nbytes is not None:
        return nbytes
    return sum(map(_nbytes, value)) if isinstance(value, (list, tuple)) else 8


def _told_nbytes(value: object) -> int | None:
    """Return what an array says of its size; None where it says none, as a sparse tensor does by an error."""
    try:
        nbytes = getattr(value, "nbytes", None)
    except RuntimeError:
        return None
    return nbytes if isinstance(nbytes, int) else None


def draw_schema(samples: Sequence[Sample], *, int64_lists: bool = False) -> Schema:
    """Draw a schema from samples.

    bool, int, float, str and bytes are bool, int64 (uint64 where only that holds them), float64, utf8 and bytes, or
    an image where all are; NumPy scalars, arrays and torch tensors keep their dtype. Arrays that all have one shape
    have it in the schema; where they differ in their first dimension it is ragged. A list is ragged. What some samples
    lack, or have as None, may be missing; what none has is left out.

    Args:
        samples: The first samples of a data set, as `as_sample` makes them.
        int64_lists: Whether integer arrays keep the plain TensorFlow form.

    Returns:
        The features in the order in which they first came.

    Raises:
        SchemaError: A value can be no feature's, or two of one name differ in kind; with `row` and `feature` set.
    """
    seen: dict[str, _Seen] = {}
    for row, sample in enumerate(samples):
        for name, value in sample.items():
            if value is not None:
                seen.setdefault(name, _Seen(name)).add(value, row)
    return Schema([known.feature(len(samples), int64_lists=int64_lists) for known in seen.values()])


@dataclass(slots=True)
class _Seen:
    """Gather what the values of one name are."""

    name: str
    count: int = 0
    look: _Look | None = None
    high: int = 0
    low: int = 0
    media: set[str] = field(default_factory=set)

    def add(self, value: object, row: int) -> None:
        """Take one more value into account."""
        try:
            found = _look(value)
        except SchemaError as exc:
            raise SchemaError(exc.reason, row, self.name) from exc
        self.count += 1
        self.look = found if self.look is None else _common(self.look, found)
        if self.look is None:
            raise SchemaError(f"found {value!r:.60}, of another kind or shape than before", row, self.name)
        if isinstance(value, int):
            self.high, self.low = max(self.high, value), min(self.low, value)
        if isinstance(value, (bytes, bytearray)):
            self.media.add(image_media(bytes(value[:_SNIFF_NBYTES])))

    def feature(self, samples: int, *, int64_lists: bool) -> Feature:
        """Return the feature that holds them."""
        assert self.look is not None
        dtype, shape = ("float64", (None,)) if self.look == _EMPTY else self.look
        if dtype == "int64" and not shape and self.high >= 2**63 and self.low >= 0:
            dtype = "uint64"
        media = ""
        if self.media and "" not in self.media:
            media = next(iter(self.media)) if len(self.media) == 1 else "image"
        optional = self.count < samples
        return stored(self.name, dtype, shape, media=media, optional=optional, int64_lists=int64_lists)


def _common(one: _Look, other: _Look) -> _Look | None:
    """Return what holds values of both looks; None where nothing does."""
    if one == other:
        return one
    if _EMPTY in {one, other}:
        found = other if one == _EMPTY else one
        return (found[0], (None, *found[1][1:])) if found[1] else None
    (dtype, shape), (other_dtype, other_shape) = one, other
    if dtype != other_dtype:
        if {dtype, other_dtype} != {"int64", "float64"}:
            return None
        dtype = "float64"
    if shape == other_shape:
        return dtype, shape
    if not shape or not other_shape or shape[1:] != other_shape[1:]:
        return None
    return dtype, (None, *shape[1:])


_SCALARS = (
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
    (str, "utf8"),
    ((bytes, bytearray, memoryview), "bytes"),
)


def _look(value: object) -> _Look:
    dtype = next((name for kinds, name in _SCALARS if isinstance(value, kinds)), "")
    if dtype:
        return dtype, ()
    if isinstance(value, (list, tuple)):
        return _look_at_list(value)
    if isinstance(value, np.generic) or hasattr(value, "__array__"):
        return _look_at_array(array_of(value))
    kind = f"{type(value).__module__}.{type(value).__name__}"
    raise SchemaError(f"no feature holds a {kind}: encode it as bytes or numbers")


def _look_at_list(value: Sequence[object]) -> _Look:
    texts = {type(item) for item in value}
    if texts and texts <= {str}:
        return "utf8", (None,)
    if texts and texts <= {bytes, bytearray}:
        return "bytes", (None,)
    try:
        array = array_of(value)
    except SchemaError as exc:
        if isinstance(exc.__cause__, ValueError):
            raise SchemaError("no feature holds a list of lists of different lengths") from exc
        raise
    if not array.size and array.ndim == 1:
        return _EMPTY
    dtype, shape = _look_at_array(array)
    return dtype, (None, *shape[1:])


def _look_at_array(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> _Look:
    if array.dtype.kind in "US":
        if array.ndim > 1:
            raise SchemaError("no feature holds lists of lists of text")
        return ("utf8" if array.dtype.kind == "U" else "bytes"), ((None,) if array.ndim else ())
    if array.dtype.name not in DTYPES:
        hint = ", which may be pickled objects" if array.dtype.kind == "O" else ""
        raise SchemaError(f"no feature holds an array of {array.dtype}{hint}: cast it")
    return array.dtype.name, array.shape
