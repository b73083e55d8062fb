"""Hold values whose number differs from sample to sample."""

from __future__ import annotations

import operator
from typing import NamedTuple, SupportsIndex

import torch


class Ragged(NamedTuple):
    """Hold the values of a batch end to end.

    Attributes:
        values: (items, *row_shape), the values of all samples.
        offsets: int64 (batch + 1); sample i has the items `offsets[i]` to `offsets[i + 1]`.
    """

    values: torch.Tensor
    offsets: torch.Tensor

    def __getitem__(self, index: SupportsIndex) -> torch.Tensor:  # type: ignore[override]  # indexed by sample
        """Return the values of one sample, as a view.

        Args:
            index: The sample's number in the batch; negative ones count from the end.

        Raises:
            IndexError: It is out of range.
        """
        number, batch = operator.index(index), len(self.offsets) - 1
        if not -batch <= number < batch:
            raise IndexError(f"sample {number} of a batch of {batch}")
        start, end = self.offsets[number % batch : number % batch + 2].tolist()
        return self.values[start:end]
