"""Turn a JPEG as its EXIF orientation says."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

_EXIF_BYTES = 4096  # its first directory, which holds the orientation, comes first
_EXIF_WITHIN = 128  # an EXIF segment follows the start of the file or a JFIF segment of 18 bytes


def orientation(encoded: Pixels) -> int:
    """Return the EXIF orientation of a JPEG, 1 to 8; 1 where there is none (Exif 2.32, tag 0x0112).

    Args:
        encoded: uint8 (bytes,), the file.
    """
    if b"Exif\0\0" not in encoded[:_EXIF_WITHIN].tobytes():
        return 1
    head = encoded[:_EXIF_BYTES].tobytes()
    tiff = head[head.index(b"Exif\0\0") + 6 :]
    order: Literal["little", "big"] = "little" if tiff[:2] == b"II" else "big"

    def number(at: int, size: int) -> int:
        return int.from_bytes(tiff[at : at + size], order)

    directory = number(4, 4)
    for entry in range(number(directory, 2)):
        at = directory + 2 + 12 * entry
        if number(at, 2) == 0x0112:
            value = number(at + 8, 2)
            return value if 1 <= value <= 8 else 1
        if at > len(tiff):
            break
    return 1


def upright(pixels: Pixels, turn: int) -> Pixels:
    """Turn an image as its EXIF orientation says: 5 to 8 swap the axes, the rest flips them.

    Args:
        pixels: (height, width) or (height, width, channels).
        turn: The orientation.

    Returns:
        The image itself where nothing is to do, else a contiguous copy.
    """
    if turn == 1:
        return pixels
    if turn >= 5:
        pixels = pixels.swapaxes(0, 1)
    down = turn in (3, 4, 7, 8)
    across = turn in (2, 3, 6, 7)
    return np.ascontiguousarray(pixels[:: -1 if down else 1, :: -1 if across else 1])
