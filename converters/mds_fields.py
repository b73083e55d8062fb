"""Read the encodings of MosaicML's MDS format."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import numpy as np

from datafeed.converters.item_fields import (
    ArrayField,
    Arrays,
    BytesField,
    DigitsField,
    Faults,
    Field,
    ListField,
    ScalarField,
    Values,
    array_field,
    images_told,
)
from datafeed.errors import SchemaError
from datafeed.schema import stored

_SCALARS = {
    "int": "int64",
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"float{bits}" for bits in (16, 32, 64)},
}
_CODES = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16", 18: "float16", 32: "uint32", 33: "int32", 34: "float32",
    64: "uint64", 65: "int64", 66: "float64",
}  # fmt: skip
_NUMBERS = {dtype: code for code, dtype in _CODES.items()}
_ARRAY = re.compile(r"ndarray(?::([a-z]+\d+)(?::(\d+(?:,\d+)*))?)?")
_LISTS = {
    "jpegarray": ("image/jpeg", 0),
    "jpeg_array": ("image/jpeg", 0),
    "list[jpeg]": ("image/jpeg", 4),
    "list[png]": ("image/png", 4),
}
_REFUSED = {
    "pkl": "pickles, which are never unpickled, as they run whatever code they hold: write them as json or ndarray",
    "pil": "raw pixels as Pillow keeps them: write them as png",
    "list[pil]": "raw pixels as Pillow keeps them: write them as list[png]",
}


def fixed_nbytes(name: str, encoding: str) -> int | None:
    """Return the size of a column's values; None where they differ.

    Raises:
        SchemaError: The encoding is refused or unknown; the message names the column.
    """
    if encoding in _REFUSED:
        raise SchemaError(f"its encoding {encoding!r} means {_REFUSED[encoding]}", feature=name)
    if encoding in _SCALARS:
        return np.dtype(_SCALARS[encoding]).itemsize
    if encoding in _LISTS or encoding in _PLAIN:
        return None
    dtype, shape = _array(name, encoding)
    return int(np.prod(shape)) * np.dtype(dtype).itemsize if shape else None


def field_of(name: str, encoding: str, values: Values) -> Field:
    """Return what reads a column.

    Args:
        name: The column.
        encoding: Its encoding, which `fixed_nbytes` knows.
        values: Its first values, which tell shapes and images.

    Raises:
        SchemaError: Arrays have shapes that no feature holds.
    """
    if encoding in _SCALARS:
        return ScalarField(stored(name, _SCALARS[encoding]))
    if encoding in _LISTS:
        media, before = _LISTS[encoding]
        return ListField(stored(name, "bytes", (None,), media=media), before)
    if encoding in _PLAIN:
        return _PLAIN[encoding](name, values)
    dtype, shape = _array(name, encoding)
    if shape:
        return ScalarField(stored(name, dtype, shape))
    return _any_array(name, dtype, values)


def _array(name: str, encoding: str) -> tuple[str, tuple[int, ...]]:
    found = _ARRAY.fullmatch(encoding)
    dtype, shape = (
        (found[1] or "", tuple(map(int, (found[2] or "").split(",") if found[2] else ()))) if found else ("", ())
    )
    if not found or (dtype and dtype not in _NUMBERS) or 0 in shape:
        raise SchemaError(f"its encoding {encoding!r} is unknown", feature=name)
    return dtype, shape


def _bytes(name: str, values: Values) -> Field:
    return BytesField(images_told(stored(name, "bytes"), values))


def _text(name: str, _: Values, media: str = "") -> Field:
    return BytesField(stored(name, "utf8", media=media))


def _digits(name: str, _: Values, dtype: str) -> Field:
    return DigitsField(stored(name, dtype))


_PLAIN: dict[str, Callable[[str, Values], Field]] = {
    "bytes": _bytes,
    "jpeg": _bytes,
    "png": _bytes,
    "str": _text,
    "str_decimal": _text,
    "json": partial(_text, media="json"),
    "str_int": partial(_digits, dtype="int64"),
    "str_float": partial(_digits, dtype="float64"),
}


def _any_array(name: str, dtype: str, values: Values) -> ArrayField:
    """Return what reads arrays that say their shapes themselves, and their dtype where it is not given."""
    first = next((value for value in values.each() if len(value) > 1), b"\0\0")
    if dtype:
        return array_field(name, dtype, first[0] >> 2, dims_told, values)
    return array_field(name, _CODES.get(first[0], "uint8"), first[1] >> 2, all_told, values)


def dims_told(values: Values, _: str, rank: int) -> Arrays:
    """Read the heads of arrays that begin with their shape.

    It is 4 times the rank plus log2 of the bytes that a dimension takes (u8), then the dimensions.
    """
    code = values.head(1)[:, 0]
    width = np.left_shift(1, (code & 3).astype(np.int64))
    wrong = (code >> 2 != rank) | (values.nbytes < 1 + rank * width)
    dims = np.zeros((len(values), rank), np.int64)
    for size in np.unique(width[~wrong]).tolist():
        rows = np.flatnonzero((width == size) & ~wrong)
        raw = Values(values.data, values.starts[rows] + 1, values.nbytes[rows]).head(rank * size)
        dims[rows] = raw.view(f"<u{size}").astype(np.int64)
    head = 1 + rank * width
    faults = {
        row: f"expected an array of {rank} dimensions, found {code[row] >> 2}" for row in np.flatnonzero(wrong).tolist()
    }
    return Arrays(dims, Values(values.data, values.starts + head, values.nbytes - head), faults)


def all_told(values: Values, dtype: str, rank: int) -> Arrays:
    """Read the heads of arrays that begin with their dtype (u8), then their shape."""
    code = values.head(1)[:, 0]
    arrays = dims_told(Values(values.data, values.starts + 1, values.nbytes - 1), dtype, rank)
    faults: Faults = {
        row: f"expected an array of {dtype}, found {_CODES.get(code[row], f'the unknown dtype {code[row]}')}"
        for row in np.flatnonzero(code != _NUMBERS[dtype]).tolist()
    }
    return Arrays(arrays.dims, arrays.values, {**arrays.faults, **faults})
