"""Hold many samples as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Column(NamedTuple):
    r"""Hold one feature of n samples.

    ============================  ==========================  ===================  ===========================
    feature                       values                      offsets              inner
    ============================  ==========================  ===================  ===========================
    numeric, fixed shape          (n, \*shape), its dtype     None                 None
    numeric, ragged               (items, \*row_shape)        (n + 1), in items    None
    bytes or utf8, shape ()       uint8, end to end           (n + 1), in bytes    None
    bytes or utf8, shape (k,)     uint8, end to end           (n + 1), in values   (values + 1), in bytes
    ============================  ==========================  ===================  ===========================

    Offsets start at 0 and never fall. `present` is (n,) bool, None where every sample has the feature. A missing sample
    has zeros (NaN for floats) or an empty run in its place.
    """

    values: Array
    offsets: Offsets | None = None
    inner: Offsets | None = None
    present: Mask | None = None


Columns = Mapping[str, Column]


def offsets_of(lengths: Sequence[int] | npt.NDArray[np.integer]) -> Offsets:
    """Return where runs of these lengths begin when they stand end to end, then where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def end_to_end(values: Sequence[bytes]) -> tuple[Array, Offsets]:
    """Return the bytes of values end to end, and where each begins: what a column of bytes holds."""
    return np.frombuffer(b"".join(values), np.uint8), offsets_of([len(value) for value in values])


class Parsed(NamedTuple):
    """Hold what the parser made of some records, in the form that costs least.

    Attributes:
        wholes: Per group of scalars of one dtype (`Parser.groups`), (features of the group, n).
        columns: Per feature, its column; None for one that stands in another of these.
        texts: By the number of the feature, one bytes object a record.
        views: By the number of the feature, one read-only view of a block's memory a record.
        present: Per feature, (n,) bool; None for one that is not optional.
    """

    wholes: list[Array]
    columns: list[Column | None]
    texts: dict[int, list[bytes]]
    views: dict[int, list[memoryview]]
    present: list[Mask | None]
