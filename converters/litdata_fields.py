"""Read the formats of the leaves of LitData's items."""

from __future__ import annotations

from functools import partial

import numpy as np

from datafeed.converters.item_fields import (
    Arrays,
    BytesField,
    Field,
    ListField,
    ScalarField,
    Values,
    array_field,
    images_told,
)
from datafeed.errors import SchemaError
from datafeed.schema import stored

_NUMPY = dict(
    enumerate(
        ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
    )
) | {13: "bool"}
_TORCH = {
    0: "float32", 1: "float32", 2: "float64", 3: "float64", 8: "float16", 9: "float16", 11: "uint8", 12: "int8",
    13: "int16", 14: "int16", 15: "int32", 16: "int32", 17: "int64", 18: "int64", 19: "bool", 20: "uint16",
}  # fmt: skip
_ARRAYS = {"numpy": _NUMPY, "tensor": _TORCH, "no_header_numpy": _NUMPY, "no_header_tensor": _TORCH}
_FILES = {"bytes", "jpeg", "image", "file", "video", "audio", "pdf", "mesh", "nifti", "tifffile", "tiff"}
_REFUSED = {
    "pickle": "pickles, which are never unpickled, as they run whatever code they hold: write numbers, text or bytes",
    "graph": "graphs, which may hold pickles: write their arrays one by one",
    "pil": "raw pixels as Pillow keeps them: write them as png or jpeg",
    "json": "LitData's own form of nested values, where no Arrow rows stand behind them: write text",
}


def field_of(name: str, form: str, values: Values) -> Field:
    """Return what reads a leaf.

    Args:
        name: The leaf's name.
        form: Its format.
        values: Its first values, which tell shapes and images.

    Raises:
        SchemaError: The format is refused or unknown; or arrays have shapes that no feature holds.
    """
    check(name, form)
    kind = form.partition(":")[0]
    if kind in {"str", "text"}:
        return BytesField(stored(name, "utf8"))
    if kind in _SCALARS:
        return ScalarField(stored(name, _SCALARS[kind]))
    if kind == "jpeg_array":
        return ListField(stored(name, "bytes", (None,), media="image/jpeg"))
    if kind in _FILES:
        return BytesField(images_told(stored(name, "bytes"), values))
    if kind.startswith("no_header"):
        return array_field(name, dtype_of(name, form), 1, bare, values)
    order = ">" if kind == "tensor" else "<"
    first = next((value for value in values.each() if len(value) >= 8), bytes(8))
    code, rank = np.frombuffer(first, f"{order}u4", 2).tolist()
    heads = partial(headed, order=order, torch=kind == "tensor")
    return array_field(name, _dtype(name, kind, code), min(rank, _MOST_DIMENSIONS), heads, values)


_SCALARS = {"int": "int64", "float": "float64", "bool": "bool"}
_MOST_DIMENSIONS = 64


def check(name: str, form: str) -> None:
    """Refuse a format that is not read.

    Raises:
        SchemaError: It is one; the message names the leaf.
    """
    kind = form.partition(":")[0]
    if kind in _REFUSED:
        raise SchemaError(f"its format {form!r} means {_REFUSED[kind]}", feature=name)
    if kind not in {"str", "text", "jpeg_array", *_SCALARS, *_FILES, *_ARRAYS}:
        raise SchemaError(f"its format {form!r} is unknown", feature=name)
    if kind.startswith("no_header"):
        dtype_of(name, form)


def dtype_of(name: str, form: str) -> str:
    """Return the dtype of arrays without a head.

    Raises:
        SchemaError: No feature holds it.
    """
    kind, _, code = form.partition(":")
    return _dtype(name, kind, int(code) if code.isdecimal() else -1)


def _dtype(name: str, kind: str, code: int) -> str:
    if code not in _ARRAYS[kind]:
        raise SchemaError(f"its arrays are of LitData's dtype {code}, which no feature holds", feature=name)
    return _ARRAYS[kind][code]


def bare(values: Values, dtype: str, _: int) -> Arrays:
    """Take arrays of one dimension that nothing stands before."""
    return Arrays((values.nbytes // np.dtype(dtype).itemsize)[:, None], values, {})


def headed(values: Values, dtype: str, rank: int, *, order: str, torch: bool) -> Arrays:
    """Read the heads of arrays: a number for the dtype, the rank, the dimensions (u32 each)."""
    known = _TORCH if torch else _NUMPY
    head_nbytes = 4 * (2 + rank)
    head = values.head(head_nbytes).view(f"{order}u4").astype(np.int64)
    right = np.isin(head[:, 0], [code for code, name in known.items() if name == dtype])
    faults = {}
    for row in np.flatnonzero(~right | (head[:, 1] != rank) | (values.nbytes < head_nbytes)).tolist():
        code, found = head[row, :2].tolist()
        faults[row] = (
            f"expected an array of {dtype} and {rank} dimensions, found {known.get(code, f'the dtype {code}')} "
            f"and {found}"
        )
    return Arrays(head[:, 2:], Values(values.data, values.starts + head_nbytes, values.nbytes - head_nbytes), faults)
