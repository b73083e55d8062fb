"""Bring one encoded image to a smaller size."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from datafeed.converters.image_header import image_size
from datafeed.errors import MissingExtra
from datafeed.exif import orientation, upright

_JPEG = b"\xff\xd8\xff"
_PNG = b"\x89PNG"


class Picture(NamedTuple):
    """Hold an image that was resized, or kept.

    Attributes:
        data: Its file.
        before: Its width and height as they were stored.
        after: Its width and height as they are stored now.
        turned: Whether it was turned as EXIF asks.
    """

    data: bytes
    before: tuple[int, int]
    after: tuple[int, int]
    turned: bool = False

    @property
    def scale(self) -> tuple[float, float]:
        """New pixels for an old one, across and down; it says nothing where the image was turned."""
        return self.after[0] / self.before[0], self.after[1] / self.before[1]


class Codec:
    """Decode images, and encode them in their own form.

    Args:
        quality: Of JPEG and WebP, 1 to 100.

    Raises:
        MissingExtra: simplejpeg or OpenCV is missing.
    """

    def __init__(self, quality: int) -> None:
        try:
            import cv2
            import simplejpeg
        except ImportError as exc:
            raise MissingExtra(exc.name or "opencv-python-headless", "images", "to resize images") from exc
        cv2.setNumThreads(0)  # workers share out the files; a pool within each would fight them
        self._cv2 = cv2
        self._simplejpeg = simplejpeg
        self._quality = quality

    @property
    def versions(self) -> str:
        """What encodes: another version may give other bytes."""
        return f"simplejpeg {self._simplejpeg.__version__}, OpenCV {self._cv2.__version__}"

    def resize(self, data: bytes, size: int) -> Picture:
        """Bring the shorter side of an image to a number of pixels where it is larger.

        Args:
            data: A JPEG, PNG or WebP file.
            size: Pixels, at least 1.

        Raises:
            ValueError: It is no whole image.
        """
        before = image_size(data)
        if min(before) <= size:
            return Picture(data, before, before)
        width, height = (max(round(side * size / min(before)), 1) for side in before)
        try:
            jpeg = data.startswith(_JPEG)
            pixels, turn = self._decode_jpeg(data, width, height) if jpeg else (self._decode(data), 1)
            pixels = self._cv2.resize(pixels, (width, height), interpolation=self._cv2.INTER_AREA)
            encoded = self._encode(upright(pixels, turn), data)
        except (ValueError, self._cv2.error) as exc:
            raise ValueError(f"expected an image that decodes, found {len(data):,} bytes that do not: {exc}") from exc
        return Picture(encoded, before, (height, width) if turn >= 5 else (width, height), turn != 1)

    def _decode(self, data: bytes) -> Any:
        pixels = self._cv2.imdecode(np.frombuffer(data, np.uint8), self._cv2.IMREAD_UNCHANGED)
        if pixels is None:
            raise ValueError("unknown form")
        return pixels

    def _decode_jpeg(self, data: bytes, width: int, height: int) -> tuple[Any, int]:
        """Return the pixels (blue first, or grey) scaled down while they are decoded, and how they are to be turned."""
        colors = self._simplejpeg.decode_jpeg_header(data)[2]
        turn = orientation(np.frombuffer(data, np.uint8))
        if colors in ("CMYK", "YCCK"):
            self._simplejpeg.decode_jpeg(data, "CMYK")  # strict: OpenCV would fill what is cut off with grey
            flags = self._cv2.IMREAD_COLOR | self._cv2.IMREAD_IGNORE_ORIENTATION
            return self._cv2.imdecode(np.frombuffer(data, np.uint8), flags), turn
        form = "GRAY" if colors == "Gray" else "BGR"
        return self._simplejpeg.decode_jpeg(data, form, min_height=height, min_width=width), turn

    def _encode(self, pixels: Any, data: bytes) -> bytes:
        if data.startswith(_JPEG):
            form = "GRAY" if pixels.ndim == 2 or pixels.shape[2] == 1 else "BGR"
            if pixels.ndim == 2:
                pixels = pixels[:, :, None]
            pixels = np.ascontiguousarray(pixels)
            return bytes(self._simplejpeg.encode_jpeg(pixels, self._quality, form, "420"))
        if data.startswith(_PNG):
            return bytes(self._cv2.imencode(".png", pixels)[1])
        return bytes(self._cv2.imencode(".webp", pixels, [self._cv2.IMWRITE_WEBP_QUALITY, self._quality])[1])
