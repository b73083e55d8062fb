"""Decode encoded images to arrays.

What a file holds becomes 8-bit RGB: grey is repeated, CMYK converted, 16 bits cut to 8, transparency dropped, the first
picture of an animation taken, and an EXIF orientation applied. A picture that does not decode is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from datafeed.crops import Region, central, drawn
from datafeed.errors import ConfigError, CorruptData, MissingExtra
from datafeed.exif import orientation, upright
from datafeed.sizes import counted

Pixels = npt.NDArray[np.uint8]

_SCALE, _RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
_JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Say what encoded images become.

    Args:
        size: (height, width) in pixels, or one number for both.
        crop: None to resize the whole picture without keeping its aspect ratio; "center" to cut the middle out of it
            once it covers size / 0.875; "random" to take a part of random area and aspect ratio, anew in each epoch.
        flip: The probability that a picture is mirrored left to right.
        scale: For "random", the least and the largest share of the picture's area, above 0 and up to 1.
        ratio: For "random", the least and the largest width by height of the part.

    Raises:
        ConfigError: An option is out of its range.
    """

    size: tuple[int, int] | int
    crop: Literal["center", "random"] | None = None
    flip: float = 0.0
    scale: tuple[float, float] = _SCALE
    ratio: tuple[float, float] = _RATIO

    def __post_init__(self) -> None:
        sides: tuple[object, ...] = self.sides
        if len(sides) != 2 or any(type(side) is not int or not 0 < side <= 65535 for side in sides):
            raise ConfigError(f"image size must be (height, width) from 1 to 65535, found {self.size!r}")
        if self.crop not in (None, "center", "random"):
            raise ConfigError(f'image crop must be None, "center" or "random", found {self.crop!r}')
        if not _is_number(self.flip) or not 0 <= self.flip <= 1:
            raise ConfigError(
                f"image flip must be a probability from 0 to 1, found {self.flip!r}: 0.5 flips every second"
            )
        _check_range("scale", self.scale, 1.0)
        _check_range("ratio", self.ratio, math.inf)
        if self.crop != "random" and (self.scale, self.ratio) != (_SCALE, _RATIO):
            raise ConfigError(f'image scale and ratio are for crop="random", found crop={self.crop!r}: leave them out')

    @property
    def draws(self) -> bool:
        """Whether chance plays a part."""
        return self.crop == "random" or self.flip > 0

    @property
    def sides(self) -> tuple[int, int]:
        """The height and width, in pixels."""
        return (self.size, self.size) if isinstance(self.size, int) else self.size


class ImageDecoder:
    """Decode images of any form into arrays of one size.

    JPEGs go through simplejpeg, scaled while they are decoded where they are at least twice as large as asked; all else
    goes through OpenCV. Resizing is bilinear. Safe to share between threads; the GIL is released while it works.

    Args:
        options: What images become.

    Raises:
        MissingExtra: simplejpeg or OpenCV is missing.
    """

    def __init__(self, options: ImageOptions) -> None:
        try:
            import cv2
            import simplejpeg
        except ImportError as exc:
            raise MissingExtra(exc.name or "opencv-python-headless", "images", "to decode images") from exc
        cv2.setNumThreads(0)  # the loader's own threads share out the work; a pool within each would fight them
        self._cv2 = cv2
        self._simplejpeg = simplejpeg
        self._sides = options.sides
        self._options = options

    def decode(self, encoded: Pixels, out: Pixels, draws: Sequence[float] = ()) -> None:
        """Decode an image.

        Args:
            encoded: uint8 (bytes,), the file.
            out: uint8 (height, width, 3), contiguous; filled.
            draws: `crops.DRAWS` uniform numbers in [0, 1) that choose the crop and the flip; unused without them.

        Raises:
            CorruptData: The bytes are no whole image.
        """
        pixels: Pixels | None = None
        try:
            if encoded[: len(_JPEG)].tobytes() == _JPEG:
                pixels = self._decode_jpeg(encoded, draws)
            elif len(encoded):
                pixels = self._cv2.imdecode(encoded, self._cv2.IMREAD_COLOR_RGB)
                if pixels is not None:
                    pixels = self._cut(pixels, pixels.shape[:2], draws)
        except (ValueError, self._cv2.error) as exc:
            raise _undecodable(encoded, str(exc)) from exc
        if pixels is None:
            raise _undecodable(encoded, "unknown form")
        height, width = self._sides
        if pixels.shape[:2] == (height, width):
            out[...] = pixels
        else:
            self._cv2.resize(pixels, (width, height), dst=out, interpolation=self._cv2.INTER_LINEAR)
        if self._options.flip and draws[0] < self._options.flip:
            self._cv2.flip(out, 1, dst=out)

    def _region(self, height: int, width: int, draws: Sequence[float]) -> Region:
        if self._options.crop == "center":
            return central(height, width, self._sides)
        return drawn(height, width, self._options.scale, self._options.ratio, draws)

    def _cut(self, pixels: Pixels, full: tuple[int, ...], draws: Sequence[float]) -> Pixels:
        """View the part of an upright picture that is kept, which was chosen at its full size."""
        if self._options.crop is None:
            return pixels
        top, left, high, wide = self._region(full[0], full[1], draws)
        down, across = pixels.shape[0] / full[0], pixels.shape[1] / full[1]
        top, left = min(round(top * down), pixels.shape[0] - 1), min(round(left * across), pixels.shape[1] - 1)
        return pixels[top : top + max(1, round(high * down)), left : left + max(1, round(wide * across))]

    def _decode_jpeg(self, encoded: Pixels, draws: Sequence[float]) -> Pixels:
        turn = orientation(encoded)
        least = self._sides
        full: tuple[int, int] = self._sides
        if self._options.crop is not None:
            high, wide, *_ = self._simplejpeg.decode_jpeg_header(encoded)
            full = (high, wide) if turn < 5 else (wide, high)
            _, _, high, wide = self._region(full[0], full[1], draws)
            least = (math.ceil(full[0] * self._sides[0] / high), math.ceil(full[1] * self._sides[1] / wide))
        height, width = least if turn < 5 else least[::-1]
        try:
            pixels = self._simplejpeg.decode_jpeg(encoded, "RGB", min_height=height, min_width=width, min_factor=2)
        except ValueError:
            if self._simplejpeg.decode_jpeg_header(encoded)[2] not in ("CMYK", "YCCK"):
                raise
            self._simplejpeg.decode_jpeg(encoded, "CMYK")  # strict: OpenCV would fill what is cut off with grey
            pixels = self._cv2.imdecode(encoded, self._cv2.IMREAD_COLOR_RGB | self._cv2.IMREAD_IGNORE_ORIENTATION)
        return self._cut(upright(pixels, turn), full, draws)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_range(name: str, value: object, limit: float) -> None:
    numbers = value if isinstance(value, tuple) and all(map(_is_number, value)) else ()
    if len(numbers) != 2 or not 0 < numbers[0] <= numbers[1] <= limit or math.isinf(numbers[1]):
        most = "" if math.isinf(limit) else f" and up to {limit:g}"
        raise ConfigError(f"image {name} must be (least, largest), above 0{most}, found {value!r}")


def _undecodable(encoded: Pixels, reason: str) -> CorruptData:
    return CorruptData(
        f"expected a JPEG, PNG or WebP image, found {counted(len(encoded), 'byte')}, which did not decode: {reason}"
    )
