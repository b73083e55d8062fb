"""Hold values whose number differs from sample to sample."""

from __future__ import annotations

from typing import NamedTuple

import torch


class Ragged(NamedTuple):
    """Hold the values of a batch end to end.

    Attributes:
        values: (items, *row_shape), the values of all samples.
        offsets: int64 (batch + 1); sample i has the items `offsets[i]` to `offsets[i + 1]`.
    """

    values: torch.Tensor
    offsets: torch.Tensor

    def __getitem__(self, index: object) -> torch.Tensor:  # type: ignore[override]  # a batch is indexed by sample
        """Return the values of one sample, as a view."""
        if not isinstance(index, int):
            raise TypeError(f"a sample's number is an int, found {index!r}")
        batch = len(self.offsets) - 1
        if not -batch <= index < batch:
            raise IndexError(f"sample {index} of a batch of {batch}")
        start, end = self.offsets[index % batch : index % batch + 2].tolist()
        return self.values[start:end]
