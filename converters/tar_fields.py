"""Turn the members of one ending into a column."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, cast

import numpy as np

from datafeed.columns import Column, Mask, end_to_end, offsets_of
from datafeed.converters.npy_header import HEAD_NBYTES, Header, read_header
from datafeed.schema import NUMERIC, Feature

_INTEGER = re.compile(rb"\s*(0|-?[1-9][0-9]{0,18})\s*")

Form = Literal["bytes", "utf8", "json", "int64", "array"]


class Flat(NamedTuple):
    """Hold an array.

    Attributes:
        length: Its first dimension; 1 for a scalar.
        body: Its bytes.
    """

    length: int
    body: bytes | memoryview


Value = bytes | int | Flat


@dataclass(frozen=True, slots=True)
class Field:
    """Turn members of one ending into a column.

    Args:
        feature: What they become.
        form: How they are read.
    """

    feature: Feature
    form: Form

    def value(self, data: bytes) -> Value:
        """Return what a member holds, in the form that `column` takes.

        Raises:
            ValueError: It holds something else.
        """
        if self.form == "array":
            return self._array(data)
        return _READ[self.form](data)

    def _array(self, data: bytes) -> Flat:
        header = npy_header(data)
        feature, shape = self.feature, header.shape
        fits = shape[1:] == feature.row_shape and shape if feature.ragged else shape == feature.row_shape
        if not fits or dtype_of(header) != feature.dtype:
            wanted = ("any", *feature.row_shape) if feature.ragged else feature.row_shape
            raise ValueError(f"expected {feature.dtype} {wanted}, found {header.dtype.name} {shape}")
        body: bytes | memoryview = memoryview(data)[header.nbytes :]
        if header.fortran or header.dtype != feature.numpy_dtype:
            order: Literal["F", "C"] = "F" if header.fortran else "C"
            array = np.frombuffer(body, header.dtype).reshape(shape, order=order)
            body = array.astype(feature.numpy_dtype).tobytes()
        return Flat(shape[0] if shape else 1, body)

    def column(self, values: Sequence[Value | None]) -> Column:
        """Return the column of what `value` gave, None where a member is missing."""
        mask = np.array([value is not None for value in values], np.bool_) if self.feature.optional else None
        if self.form == "array":
            return self._arrays(cast("Sequence[Flat | None]", values), mask)
        if self.form == "int64":
            return Column(np.array([value or 0 for value in values], np.int64), present=mask)
        return Column(*end_to_end([value or b"" for value in cast("Sequence[bytes | None]", values)]), present=mask)

    def _arrays(self, values: Sequence[Flat | None], mask: Mask | None) -> Column:
        feature = self.feature
        missing = Flat(0, b"" if feature.ragged else _blank(feature))
        found = [missing if value is None else value for value in values]
        flat = np.frombuffer(b"".join([value.body for value in found]), feature.numpy_dtype)
        if feature.dtype == "bool":
            flat = flat.view(np.uint8) != 0  # a byte may be more than 1
        if not feature.ragged:
            return Column(flat.reshape(len(found), *feature.row_shape), present=mask)
        offsets = offsets_of([value.length for value in found])
        return Column(flat.reshape(int(offsets[-1]), *feature.row_shape), offsets, present=mask)


def npy_header(data: bytes) -> Header:
    """Return what a .npy file says of its array.

    Raises:
        ValueError: It is no such file, or holds less or more than it says.
    """
    width = 2 if data[6:7] == b"\1" else 4
    nbytes = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    try:
        return _cached_header(data[: min(nbytes, HEAD_NBYTES)], len(data))
    except ValueError as exc:
        raise ValueError(f"it {exc}") from exc


_cached_header = lru_cache(maxsize=1024)(read_header)  # those of one shape are alike, and take 50 us to parse


def dtype_of(header: Header) -> str:
    """Return the dtype that a feature has for an array; empty where no feature holds it."""
    name = header.dtype.newbyteorder("<").name
    return name if name in NUMERIC else ""


def _blank(feature: Feature) -> bytes:
    filler = math.nan if feature.numpy_dtype.kind == "f" else 0
    return np.full(feature.row_shape, filler, feature.numpy_dtype).tobytes()


def _as_is(data: bytes) -> bytes:
    return data


def _text(data: bytes) -> bytes:
    if not data.isascii():
        data.decode()
    return data


def _json(data: bytes) -> bytes:
    try:
        json.loads(data.decode())
    except RecursionError as exc:
        raise ValueError("expected JSON, found values within each other that are too many") from exc
    except ValueError as exc:
        raise ValueError(f"expected JSON: {exc}") from exc
    return data


def _integer(data: bytes) -> int:
    found = _INTEGER.fullmatch(data)
    number = int(found[1]) if found else 2**63
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"expected an integer of 64 bits, found {data!r:.40}")
    return number


_READ: dict[str, Callable[[bytes], bytes | int]] = {"bytes": _as_is, "utf8": _text, "json": _json, "int64": _integer}


def fits(form: Form, data: bytes) -> bool:
    """Whether what a member holds can be read so."""
    try:
        _READ[form](data)
    except ValueError:
        return False
    return True
