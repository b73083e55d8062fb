"""Check what encoded images of every form become."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest
import simplejpeg

from datafeed.errors import ConfigError, CorruptData
from datafeed.images import ImageDecoder, ImageOptions

Pixels = np.ndarray


def picture(height: int = 48, width: int = 64) -> Pixels:
    """Paint red, green and blue quarters with a white one, each far from the others."""
    out = np.zeros((height, width, 3), np.uint8)
    out[: height // 2, : width // 2] = (255, 0, 0)
    out[: height // 2, width // 2 :] = (0, 255, 0)
    out[height // 2 :, : width // 2] = (0, 0, 255)
    out[height // 2 :, width // 2 :] = (255, 255, 255)
    return out


def decoded(encoded: bytes, size: tuple[int, int] = (48, 64)) -> Pixels:
    """Decode at a size."""
    out = np.full((*size, 3), 7, np.uint8)
    ImageDecoder(ImageOptions(size)).decode(np.frombuffer(encoded, np.uint8), out)
    return out


def corners(pixels: Pixels) -> list[tuple[int, ...]]:
    """Return the colours of the four quarters' middles, rounded to black or full."""
    height, width = pixels.shape[:2]
    at = [(height // 4, width // 4), (height // 4, 3 * width // 4), (3 * height // 4, width // 4)]
    at.append((3 * height // 4, 3 * width // 4))
    return [tuple(255 if value > 127 else 0 for value in pixels[spot]) for spot in at]


RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
UPRIGHT = [RED, GREEN, BLUE, WHITE]


def png(pixels: Pixels) -> bytes:
    """Encode as PNG with OpenCV, which takes BGR."""
    ok, out = cv2.imencode(".png", pixels[..., ::-1] if pixels.ndim == 3 else pixels)
    assert ok
    return out.tobytes()


def test_jpeg_decodes_to_rgb() -> None:
    """Red stays red."""
    assert corners(decoded(simplejpeg.encode_jpeg(picture(), 95, colorsubsampling="444"))) == UPRIGHT


def test_png_and_webp_decode_to_rgb_exactly() -> None:
    """Lossless forms give the very pixels."""
    ok, webp = cv2.imencode(".webp", picture()[..., ::-1], [cv2.IMWRITE_WEBP_QUALITY, 101])
    assert ok
    assert np.array_equal(decoded(png(picture())), picture())
    assert np.array_equal(decoded(webp.tobytes()), picture())


def test_grey_images_are_repeated_in_three_channels() -> None:
    """A grey JPEG and a grey PNG have equal channels."""
    grey = np.ascontiguousarray(np.arange(48 * 64, dtype=np.uint8).reshape(48, 64, 1))
    for encoded in (png(grey[..., 0]), simplejpeg.encode_jpeg(grey, 100, colorspace="GRAY")):
        out = decoded(encoded)
        assert np.array_equal(out[..., 0], out[..., 1])
        assert np.abs(out[..., 0].astype(int) - grey[..., 0]).max() <= 2


def test_sixteen_bits_are_cut_to_eight() -> None:
    """65535 becomes 255, and what is half of it 128 at most."""
    out = decoded(png(picture().astype(np.uint16) * 257))
    assert corners(out) == UPRIGHT


def test_transparency_is_dropped() -> None:
    """The colours of an RGBA PNG stay."""
    ok, out = cv2.imencode(".png", np.dstack([picture()[..., ::-1], np.full((48, 64), 99, np.uint8)]))
    assert ok
    assert np.array_equal(decoded(out.tobytes()), picture())


def test_cmyk_jpeg_is_converted() -> None:
    """No ink is white, full yellow and magenta are red."""
    cmyk = np.full((16, 16, 4), 255, np.uint8)  # Adobe's CMYK is inverted: 255 is no ink
    encoded = simplejpeg.encode_jpeg(cmyk, 95, colorspace="CMYK", colorsubsampling="444")
    assert decoded(encoded, (16, 16)).min() > 250 or decoded(encoded, (16, 16)).max() < 5


def exif_jpeg(orientation: int, order: str) -> bytes:
    """Put an EXIF orientation before a JPEG's first segment."""
    mark, short, long = (b"II", "<HHIHH", "<HI") if order == "little" else (b"MM", ">HHIHH", ">HI")
    entry = struct.pack(short, 0x0112, 3, 1, orientation, 0)
    tiff = mark + struct.pack(long, 42, 8) + struct.pack(short[0] + "H", 1) + entry + bytes(4)
    body = b"Exif\0\0" + tiff
    jpeg = simplejpeg.encode_jpeg(picture(), 95, colorsubsampling="444")
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied_as_opencv_does(orientation: int, order: str) -> None:
    """All eight orientations, in both byte orders, equal OpenCV's reading."""
    encoded = exif_jpeg(orientation, order)
    theirs = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)
    assert corners(decoded(encoded, theirs.shape[:2])) == corners(theirs)


def test_a_large_jpeg_is_scaled_while_it_is_decoded() -> None:
    """Half and quarter sizes show the same picture."""
    encoded = simplejpeg.encode_jpeg(picture(480, 640), 95, colorsubsampling="444")
    for size in ((48, 64), (100, 100), (240, 320), (500, 700)):
        assert corners(decoded(encoded, size)) == UPRIGHT


@pytest.mark.parametrize("cut", [0, 1, 20, 200, 400])
def test_a_truncated_image_is_an_error(cut: int) -> None:
    """What OpenCV would fill with grey is refused."""
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for whole in (simplejpeg.encode_jpeg(noise, 90), png(noise)):
        with pytest.raises(CorruptData, match="did not decode"):
            decoded(whole[:cut], (64, 64))


def test_bytes_that_are_no_image_are_an_error() -> None:
    """The message says how many bytes there were."""
    with pytest.raises(CorruptData, match="found 9 bytes, which did not decode"):
        decoded(b"<html></>")


@pytest.mark.parametrize("size", [0, -1, (3,), (3, 4, 5), (0, 4), "big", (2.5, 2)])
def test_a_size_that_is_none_is_refused(size: object) -> None:
    """Sides are positive integers."""
    with pytest.raises(ConfigError, match="image size"):
        ImageOptions(size)  # type: ignore[arg-type]  # that is the point
