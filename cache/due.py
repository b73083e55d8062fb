"""Say what those who read ahead ask of a schedule."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

Run = tuple[int, int]


class Due(Protocol):
    """Be a step of a schedule."""

    @property
    def loads(self) -> tuple[Run, ...]:
        """The runs of blocks that it is the first to need."""
        ...

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The rows of its records."""
        ...
