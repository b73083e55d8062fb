"""Decode encoded images to arrays.

What a file holds becomes 8-bit RGB: grey is repeated, CMYK converted, 16 bits cut to 8, transparency dropped, the first
picture of an animation taken, and an EXIF orientation applied. A picture that does not decode is an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datafeed.errors import ConfigError, CorruptData, MissingExtra
from datafeed.exif import orientation, upright
from datafeed.sizes import counted

Pixels = npt.NDArray[np.uint8]

_JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """Say what encoded images become.

    Args:
        size: (height, width) in pixels, or one number for both; aspect ratios are not kept.

    Raises:
        ConfigError: A side is not a positive integer.
    """

    size: tuple[int, int] | int

    def __post_init__(self) -> None:
        sides: tuple[object, ...] = self.sides
        if len(sides) != 2 or any(type(side) is not int or not 0 < side <= 65535 for side in sides):
            raise ConfigError(f"image size must be (height, width) from 1 to 65535, found {self.size!r}")

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

    def decode(self, encoded: Pixels, out: Pixels) -> None:
        """Decode an image.

        Args:
            encoded: uint8 (bytes,), the file.
            out: uint8 (height, width, 3), contiguous; filled.

        Raises:
            CorruptData: The bytes are no whole image.
        """
        pixels: Pixels | None = None
        try:
            if encoded[: len(_JPEG)].tobytes() == _JPEG:
                pixels = self._decode_jpeg(encoded)
            elif len(encoded):
                pixels = self._cv2.imdecode(encoded, self._cv2.IMREAD_COLOR_RGB)
        except (ValueError, self._cv2.error) as exc:
            raise _undecodable(encoded, str(exc)) from exc
        if pixels is None:
            raise _undecodable(encoded, "unknown form")
        height, width = self._sides
        if pixels.shape[:2] == (height, width):
            out[...] = pixels
        else:
            self._cv2.resize(pixels, (width, height), dst=out, interpolation=self._cv2.INTER_LINEAR)

    def _decode_jpeg(self, encoded: Pixels) -> Pixels:
        turn = orientation(encoded)
        height, width = self._sides if turn < 5 else self._sides[::-1]
        try:
            pixels = self._simplejpeg.decode_jpeg(encoded, "RGB", min_height=height, min_width=width, min_factor=2)
        except ValueError:
            if self._simplejpeg.decode_jpeg_header(encoded)[2] not in ("CMYK", "YCCK"):
                raise
            self._simplejpeg.decode_jpeg(encoded, "CMYK")  # strict: OpenCV would fill what is cut off with grey
            pixels = self._cv2.imdecode(encoded, self._cv2.IMREAD_COLOR_RGB | self._cv2.IMREAD_IGNORE_ORIENTATION)
        return upright(pixels, turn)


def _undecodable(encoded: Pixels, reason: str) -> CorruptData:
    return CorruptData(
        f"expected a JPEG, PNG or WebP image, found {counted(len(encoded), 'byte')}, which did not decode: {reason}"
    )
