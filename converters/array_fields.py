"""Tell which features arrays hold, and hold files of arrays against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from datafeed.columns import Array
from datafeed.converters.names import escape, shown
from datafeed.errors import ConfigError, SchemaError, SourceError
from datafeed.schema import NUMERIC, Feature, Schema, stored
from datafeed.sizes import some

Dtype = np.dtype[np.generic]
Form = tuple[Dtype, tuple[int, ...]]
"""The dtype of an array, and the shape of a row."""

_TIMES = {"M": "timestamp", "m": "duration"}
_KEPT_UNITS = ("s", "ms", "us", "ns")
_COARSE_UNITS = {"M": ("Y", "M", "W", "D", "h", "m"), "m": ("W", "D", "h", "m")}
_MOST_NBYTES = 2**31 - 1  # of a record
_RECORD_NBYTES = 16  # its frame
_FEATURE_NBYTES = 12  # beside its name and value


@dataclass(frozen=True, slots=True)
class Leaf:
    """Name the values of an array, or those of one field of a structured one.

    Args:
        name: What the feature is called.
        path: The fields that lead to it.
        dtype: The dtype of one value.
        shape: The shape of a row.
    """

    name: str
    path: tuple[str, ...]
    dtype: Dtype
    shape: tuple[int, ...]

    def of(self, array: Array) -> Array:
        """Return its values in rows of the array."""
        for name in self.path:
            array = cast("npt.NDArray[np.void]", array)[name]
        return array


def leaves_of(name: str, dtype: Dtype, shape: tuple[int, ...], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yield the leaves of an array: one, or one per field of a structured dtype.

    Args:
        name: What the array is called; fields are called "name.field", or "field" where it is empty.
        dtype: Its dtype.
        shape: The shape of a row.
        path: The fields that lead to it.
    """
    if dtype.subdtype is not None:
        base, inner = dtype.subdtype
        yield from leaves_of(name, base, (*shape, *inner), path)
    elif dtype.names is not None:
        for field in dtype.names:
            below = f"{name}.{escape(field)}" if name else escape(field)
            yield from leaves_of(below, cast("np.dtype[np.void]", dtype)[field], shape, (*path, field))
    else:
        yield Leaf(name, path, dtype, shape)


def feature_of(leaf: Leaf, *, int64_lists: bool) -> Feature:
    """Return the feature that holds a leaf.

    Numbers keep their dtype; `S` becomes bytes, `U` utf8. datetime64 and timedelta64 become the int64 that they are
    counted in, with "timestamp[us]" or "duration[us]" as their `media`: seconds where the unit is a coarser one.

    Args:
        leaf: The leaf.
        int64_lists: Whether integer arrays keep the plain TensorFlow form.

    Raises:
        SchemaError: No feature holds such values; the message names the dtype and says what to do.
    """
    dtype, shape = leaf.dtype, leaf.shape
    if 0 in shape or not dtype.itemsize:
        raise SchemaError(f"its rows hold nothing: {_described(leaf)}", feature=leaf.name)
    if dtype.itemsize * int(np.prod(shape, dtype=object)) > _MOST_NBYTES:
        raise SchemaError(f"a row passes the limit of 2**31 - 1 bytes: {_described(leaf)}", feature=leaf.name)
    if dtype.kind in _TIMES:
        media = f"{_TIMES[dtype.kind]}[{_unit(leaf)}]"
        return stored(leaf.name, "int64", shape, media=media, int64_lists=int64_lists)
    if dtype.kind in "SU":
        if len(shape) > 1:
            raise SchemaError(f"no feature holds lists of lists of text: {_described(leaf)}", feature=leaf.name)
        return stored(leaf.name, "bytes" if dtype.kind == "S" else "utf8", shape)
    if dtype.name not in NUMERIC:
        raise SchemaError(f"no feature holds {_described(leaf)}: {_advice(dtype)}", feature=leaf.name)
    return stored(leaf.name, dtype.name, shape, int64_lists=int64_lists)


def _described(leaf: Leaf) -> str:
    return f"{leaf.dtype} of shape {leaf.shape}"


def _advice(dtype: Dtype) -> str:
    leave = "or leave it out (--columns names those to keep)"
    if dtype.kind == "O":
        return f"pickled objects are never read: write it as numbers, or as text by astype('U'), {leave}"
    if dtype.kind == "c":
        return f"write its real and imaginary parts by view('f{dtype.itemsize // 2}'), {leave}"
    if dtype.kind == "f":
        return f"write it as float64, {leave}"
    return f"write it as numbers, by view('u{dtype.itemsize}') or the like, {leave}"


def _unit(leaf: Leaf) -> str:
    unit, _ = np.datetime_data(cast("np.dtype[np.datetime64]", leaf.dtype))
    if unit in _KEPT_UNITS:
        return unit
    if unit not in _COARSE_UNITS[leaf.dtype.kind]:
        name = leaf.dtype.name.partition("[")[0]
        raise SchemaError(f"no feature holds {leaf.dtype}: write it as {name}[ns]", feature=leaf.name)
    return "s"


@dataclass(frozen=True, slots=True)
class Field:
    """Say what becomes of a leaf.

    Args:
        leaf: The leaf.
        feature: The feature that it becomes.
    """

    leaf: Leaf
    feature: Feature


Fields = Mapping[str, Sequence[Field]]
"""The fields that are wanted of each array, by its name."""


def fields_of(
    path: str, forms: Mapping[str, Form], feature: Callable[[Leaf], Feature], columns: Sequence[str]
) -> dict[str, list[Field]]:
    """Return what becomes of the arrays of a file.

    Args:
        path: The file, for errors.
        forms: Its arrays by name; a single one without a name becomes "data".
        feature: Returns the feature of a leaf.
        columns: The features wanted; none for all.

    Returns:
        The fields of those arrays that hold one.

    Raises:
        SourceError: No feature holds one of them.
        ConfigError: A feature is asked for that is not there.
    """
    found: dict[str, list[Field]] = {}
    try:
        for name, (dtype, shape) in forms.items():
            plain = dtype.base.names is None
            leaves = leaves_of(name or ("data" if plain else ""), dtype, shape)
            fields = [Field(leaf, feature(leaf)) for leaf in leaves if not columns or leaf.name in columns]
            if fields:
                found[name] = fields
        schema = Schema([field.feature for fields in found.values() for field in fields])
    except SchemaError as exc:
        raise SourceError(f"{shown(path)}: {exc}") from exc
    lacking = [name for name in columns if name not in schema]
    if lacking:
        there = [leaf.name for name, (dtype, shape) in forms.items() for leaf in leaves_of(name, dtype, shape)]
        raise ConfigError(f"columns: no feature {lacking[0]!r}; {shown(path)} has {some(there, 20)}")
    return found


def features_of(fields: Fields) -> list[Feature]:
    """Return the features, in order."""
    return [field.feature for found in fields.values() for field in found]


def beside_nbytes(fields: Fields) -> int:
    """Return about what a record holds beside its values."""
    return _RECORD_NBYTES + sum(_FEATURE_NBYTES + len(feature.name) for feature in features_of(fields))


def check_alike(first: str, before: Fields, path: str, fields: Fields) -> None:
    """Compare two files.

    Raises:
        SourceError: Their features differ.
    """
    one, other = ({feature.name: feature for feature in features_of(each)} for each in (before, fields))
    for name in [*one, *other]:
        here, there = one.get(name), other.get(name)
        if here != there:
            raise SourceError(
                f"the files differ: {name!r} is {_told(there)} in {shown(path)} and {_told(here)} in {shown(first)}: "
                "convert them apart, write them alike, or name the features to keep by --columns"
            )


def _told(feature: Feature | None) -> str:
    return f"{feature.dtype} of shape {feature.shape}" if feature else "nowhere"


def check_lengths(path: str, lengths: Mapping[str, int]) -> None:
    """Compare the lengths of arrays whose rows belong together.

    Raises:
        SourceError: They differ.
    """
    if len(set(lengths.values())) > 1:
        told = some([f"{shown(name)} has {rows}" for name, rows in lengths.items()], 20)
        raise SourceError(
            f"{shown(path)}: the arrays have different numbers of rows: {told}: say by --columns which belong together"
        )


def wanted(name: str, columns: Sequence[str]) -> bool:
    """Whether an array may hold any of the features asked for, of which none stands for all.

    Args:
        name: The array's name; empty for one whose name says nothing.
        columns: The features.
    """
    return not columns or not name or any(column == name or column.startswith(f"{name}.") for column in columns)
