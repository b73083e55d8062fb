"""Choose the part of a picture that is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence

Region = tuple[float, float, float, float]

CENTRAL = 0.875  # 224 of 256 pixels
_TRIES = 10
DRAWS = 3 + 2 * _TRIES  # the flip, the place down and across, then an area and an aspect for each try


def central(height: int, width: int, sides: tuple[int, int]) -> Region:
    """Return the middle of a picture, in the aspect of the target.

    Args:
        height: Of the picture, in pixels.
        width: Likewise.
        sides: The target's height and width.

    Returns:
        (top, left, height, width), in pixels.
    """
    factor = CENTRAL * min(height / sides[0], width / sides[1])
    high, wide = sides[0] * factor, sides[1] * factor
    return (height - high) / 2, (width - wide) / 2, high, wide


def drawn(
    height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float], draws: Sequence[float]
) -> Region:
    """Return a part of random area and aspect; the largest central one in range where ten tries do not fit.

    Args:
        height: Of the picture, in pixels.
        width: Likewise.
        scale: The least and the largest share of the picture's area.
        ratio: The least and the largest width by height.
        draws: `DRAWS` uniform numbers in [0, 1).

    Returns:
        (top, left, height, width), in whole pixels.
    """
    low, high = math.log(ratio[0]), math.log(ratio[1])
    for at in range(3, DRAWS, 2):
        area = height * width * (scale[0] + draws[at] * (scale[1] - scale[0]))
        aspect = math.exp(low + draws[at + 1] * (high - low))
        wide, tall = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < wide <= width and 0 < tall <= height:
            return int(draws[1] * (height - tall + 1)), int(draws[2] * (width - wide + 1)), tall, wide
    aspect = min(max(width / height, ratio[0]), ratio[1])
    wide, tall = min(width, max(1, round(height * aspect))), min(height, max(1, round(width / aspect)))
    return (height - tall) // 2, (width - wide) // 2, tall, wide
