"""Read the headers of .npy files, without trust in what they say."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from tokenize import TokenError

import numpy as np
from numpy.lib import format as npy

HEAD_NBYTES = 2**16
"""The first bytes of a file that hold its header: more than that NumPy, too, calls unsafe to parse."""

# What literals and dtypes that somebody made up raise in ast, tokenize and numpy.
_DAMAGED = (
    *(ValueError, TypeError, SyntaxError, TokenError, LookupError, AttributeError, OverflowError),
    *(RecursionError, MemoryError),
)
_RANK = 32


class DamagedError(ValueError):
    """Say why bytes are no array; the message goes on after "it"."""


@dataclass(frozen=True, slots=True)
class Header:
    """Hold what a header says.

    Args:
        dtype: The dtype.
        shape: The shape.
        fortran: Whether the first axis runs fastest, in place of the last.
        nbytes: The header's own size.
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran: bool
    nbytes: int

    @property
    def pickled(self) -> bool:
        """Whether objects follow, in place of an array."""
        return self.dtype.hasobject

    @property
    def data_nbytes(self) -> int:
        """The array's size; never wraps."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(head: bytes, nbytes: int) -> Header:
    """Read a header.

    Args:
        head: The first `HEAD_NBYTES` of a file, or all of it.
        nbytes: The size of the file.

    Returns:
        What it says; the array fills the rest of the file, unless it is pickled.

    Raises:
        DamagedError: It is no header, or the array has another size than the rest of the file.
    """
    file = io.BytesIO(head)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 2's numbers and of old names of dtypes
            shape, fortran, dtype = _parsed(file)
    except _DAMAGED as exc:
        raise DamagedError(f"has no .npy header that can be read: {exc}") from exc
    header = Header(dtype, tuple(map(int, shape)), fortran, file.tell())
    _check(header, nbytes - header.nbytes)
    return header


def _parsed(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    version = npy.read_magic(file)
    if version == (1, 0):
        return npy.read_array_header_1_0(file, HEAD_NBYTES)
    if version == (2, 0):
        return npy.read_array_header_2_0(file, HEAD_NBYTES)
    if version != (3, 0):
        raise ValueError(f"its version is {version}")
    # NumPy's public functions read the first two; the third differs in that its names are UTF-8.
    nbytes = int.from_bytes(file.read(4), "little")
    text = file.read(nbytes)
    if len(text) != nbytes:
        raise ValueError(f"expected {nbytes} bytes, found {len(text)}")
    plain = text.decode().encode("ascii", "backslashreplace")
    return npy.read_array_header_2_0(io.BytesIO(len(plain).to_bytes(4, "little") + plain), 8 * HEAD_NBYTES)


def _check(header: Header, rest: int) -> None:
    shape = header.shape
    if min(shape, default=0) < 0 or len(shape) > _RANK:
        raise DamagedError(f"has an impossible shape: {shape!s:.80}")
    if header.pickled:
        return
    if shape and shape[0] and not header.data_nbytes:
        raise DamagedError(f"has rows that hold nothing: {header.dtype} of shape {shape!s:.80}")
    if header.data_nbytes > rest:
        raise DamagedError(
            f"is cut short: {header.dtype} of shape {shape!s:.80} takes {header.data_nbytes} bytes, found {rest}"
        )
    if header.data_nbytes < rest:
        raise DamagedError(
            f"goes on behind its array: {header.dtype} of shape {shape!s:.80} takes {header.data_nbytes} bytes, found "
            f"{rest}: write each array to a file of its own"
        )
