"""Make small images."""

from __future__ import annotations

import cv2
import numpy as np


def encoded(suffix: str = ".jpg", width: int = 7, height: int = 5, seed: int = 0) -> bytes:
    """Encode a small image of noise."""
    pixels = np.random.Generator(np.random.PCG64(seed)).integers(0, 256, (height, width, 3), np.uint8)
    return bytes(cv2.imencode(suffix, pixels)[1])
