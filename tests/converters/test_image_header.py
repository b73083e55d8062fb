"""Test reading an image's size without decoding it."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed.converters.image_header import image_size

PIXELS = np.random.Generator(np.random.PCG64(1)).integers(0, 256, (37, 53, 3), np.uint8)


def encoded(suffix: str, *settings: int, pixels: np.ndarray = PIXELS) -> bytes:
    """Encode an image with OpenCV."""
    return bytes(cv2.imencode(suffix, pixels, settings)[1])


def chunk(name: bytes, body: bytes) -> bytes:
    """Return a PNG chunk."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    """Return a WebP file of chunks."""
    body = b"".join(name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) & 1) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WEBP" + body


def extended(flags: int, width: int, height: int) -> bytes:
    """Return the body of a VP8X chunk."""
    return bytes([flags, 0, 0, 0]) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")


PLAIN = {
    "jpeg": encoded(".jpg"),
    "progressive jpeg": encoded(".jpg", cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
    "jpeg with restarts": encoded(".jpg", cv2.IMWRITE_JPEG_RST_INTERVAL, 1),
    "grey jpeg": encoded(".jpg", pixels=PIXELS[..., 0]),
    "png": encoded(".png"),
    "16-bit png": encoded(".png", pixels=PIXELS.astype(np.uint16) * 257),
    "lossy webp": encoded(".webp", cv2.IMWRITE_WEBP_QUALITY, 50),
    "lossless webp": encoded(".webp", cv2.IMWRITE_WEBP_QUALITY, 101),
}
SOI, EOI = b"\xff\xd8", b"\xff\xd9"
SOF = b"\xff\xc0\x00\x0b\x08\x00\x05\x00\x07\x01\x01\x11\x00"
SOS = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00"
IHDR = chunk(b"IHDR", struct.pack(">IIBBBBB", 7, 5, 8, 0, 0, 0, 0))


@pytest.mark.parametrize("name", PLAIN)
def test_size_is_that_of_the_encoder(name: str) -> None:
    """Every kind that OpenCV writes is 53 x 37."""
    assert image_size(PLAIN[name]) == (53, 37)


@pytest.mark.parametrize("name", PLAIN)
def test_every_truncation_is_found(name: str) -> None:
    """No prefix of an image passes as one."""
    data = PLAIN[name]
    for end in range(len(data)):
        with pytest.raises(ValueError, match=r"truncated|damaged|expected"):
            image_size(data[:end])


@pytest.mark.parametrize("name", PLAIN)
def test_zeros_in_place_of_the_end_are_found(name: str) -> None:
    """A copy that was cut off by a crash often has its full length."""
    data = PLAIN[name]
    half = data[: len(data) // 2] + bytes(len(data) - len(data) // 2)
    if "webp" in name:  # its container has lengths alone, so zeros within a chunk pass
        assert image_size(half) == (53, 37)
    else:
        with pytest.raises(ValueError, match=r"truncated|damaged"):
            image_size(half)


@pytest.mark.parametrize("name", PLAIN)
def test_bytes_after_the_end_are_allowed(name: str) -> None:
    """Padding and the films of cameras stand there."""
    assert image_size(PLAIN[name] + bytes(100)) == (53, 37)
    assert image_size(PLAIN[name] + b"a film" * 9) == (53, 37)


def test_jpeg_markers_are_walked_when_they_are_odd() -> None:
    """Fill bytes and markers without length are allowed; a thumbnail's own end within a segment is not the end."""
    thumbnail = SOI + SOF + SOS + EOI
    segment = b"\xff\xe1" + struct.pack(">H", 2 + len(thumbnail)) + thumbnail
    assert image_size(SOI + segment + b"\xff\xff\xff\x01" + SOF + SOS + b"\x12" + EOI) == (7, 5)
    with pytest.raises(ValueError, match="truncated JPEG: no end-of-image"):
        image_size(SOI + segment + SOF + SOS + b"\x12\xff\x00")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "found an empty file"),
        (bytes(8), "found 8 zero bytes"),
        (b"GIF89a", "beginning with b'GIF89a'"),
        (SOI + SOS + EOI, "expected a frame header before the first scan"),
        (SOI + SOF + EOI + b"\0\0\0\0", "ends at byte 15, before any scan"),
        (SOI + b"\xff\xe0\x00\x02" + b"abcd", "expected a marker at byte 6, found b'ab'"),
        (SOI + SOF.replace(b"\x00\x05", b"\x00\x00") + SOS + EOI, "a size of 7 x 0"),
        (b"\x89PNG\r\n\x1a\n" + chunk(b"IDAT", b""), "expected chunk b'IHDR' of 13 bytes first"),
        (b"\x89PNG\r\n\x1a\n" + IHDR + chunk(b"IEND", b""), "expected a chunk b'IDAT', found none"),
        (PLAIN["png"].replace(b"IDAT", b"IDAX"), "wrong checksum of chunk b'IDAX' at byte 33"),
        (riff((b"VP8X", extended(2, 7, 5))), "expected a chunk with pixels"),
        (riff((b"VP8 ", bytes(20))), "expected a chunk with pixels"),
        (riff((b"VP8L", b"\x2f" + bytes(10)))[:-12] + bytes(12), "beginning with|truncated|damaged"),
    ],
)
def test_damage_is_named(data: bytes, reason: str) -> None:
    """The message says what was expected and what was found."""
    with pytest.raises(ValueError, match=reason):
        image_size(data)


def test_extended_webp_has_the_size_of_its_canvas() -> None:
    """Frames of an animation may be smaller."""
    frame = PLAIN["lossy webp"][12:]
    animated = riff((b"VP8X", extended(2, 100, 20000)), (b"ANIM", bytes(6)), (b"ANMF", bytes(16) + frame))
    assert image_size(animated) == (100, 20000)
    colours = riff((b"VP8X", extended(32, 53, 37)), (b"ICCP", b"odd"), (b"VP8 ", frame[8:]))
    assert image_size(colours) == (53, 37)


@given(st.sampled_from([b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n" + IHDR, b"RIFF\x30\0\0\0WEBPVP8 "]), st.binary())
def test_any_bytes_give_a_size_or_a_value_error(head: bytes, rest: bytes) -> None:
    """Nothing else is raised, and the walk ends."""
    try:
        width, height = image_size(head + rest)
    except ValueError as exc:
        assert "JPEG" in str(exc) or "PNG" in str(exc) or "WebP" in str(exc) or "pixel" in str(exc)  # noqa: PT017
    else:
        assert width > 0 < height
