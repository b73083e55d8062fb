"""Make memory that the kernel never moves, which a GPU reads by itself."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import torch

_log = logging.getLogger("datafeed.cache")


class Pinned:
    """Make page-locked memory; plain memory, with one warning, once it cannot be locked."""

    def __init__(self) -> None:
        self.is_refused = False

    def __call__(self, shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        """Return bytes whose content is undefined."""
        if not self.is_refused:
            try:
                locked: npt.NDArray[np.uint8] = torch.empty(shape, dtype=torch.uint8, pin_memory=True).numpy()
            except RuntimeError as exc:
                self.is_refused = True
                _log.warning(
                    "the host cache takes plain memory: none can be page-locked: %s", str(exc).partition("\n")[0]
                )
            else:
                return locked
        return np.empty(shape, np.uint8)
