"""Hold many samples as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Offsets = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Column:
    """Hold one feature of n samples.

    ============================  ==========================  ===================  ===========================
    feature                       values                      offsets              inner
    ============================  ==========================  ===================  ===========================
    numeric, fixed shape          (n, \\*shape), its dtype     None                 None
    numeric, ragged               (items, \\*row_shape)        (n + 1), in items    None
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
