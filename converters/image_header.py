"""Read an encoded image's size, checking that the image is whole.

Nothing is decoded: the structure of the file is walked. A PNG's checksums are checked; a JPEG has none, but an end that
shows; of a WebP there are its lengths alone. Bytes after the end of an image are allowed, as cameras append
previews and films, and copies pad with zeros.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from datafeed.sizes import counted

_PNG = b"\x89PNG\r\n\x1a\n"
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # SOF0 to SOF15 without DHT, JPG and DAC (ITU T.81, B.1)
_BARE = frozenset([0x01, *range(0xD0, 0xD8)])  # TEM and RST0 to RST7 have no length
_END, _SCAN = 0xD9, 0xDA


def image_size(data: bytes) -> tuple[int, int]:
    """Return the width and height of a JPEG, PNG or WebP image, told by its content.

    Args:
        data: The whole file.

    Returns:
        Width and height as they are stored, before any rotation that EXIF asks for.

    Raises:
        ValueError: It is none of these, or it is truncated or damaged; the message says what was found.
    """
    if data[:3] == b"\xff\xd8\xff":
        width, height = _jpeg(data)
    elif data[:8] == _PNG:
        width, height = _png(data)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        width, height = _webp(data)
    else:
        raise ValueError(_unknown(data))
    if not width or not height:
        raise ValueError(f"expected an image with at least one pixel, found a size of {width} x {height}")
    return width, height


def _unknown(data: bytes) -> str:
    if not data:
        return "expected a JPEG, PNG or WebP image, found an empty file"
    if not data.strip(b"\0"):
        return f"expected a JPEG, PNG or WebP image, found {len(data)} zero bytes"
    return f"expected a JPEG, PNG or WebP image, found {counted(len(data), 'byte')}, beginning with {data[:12]!r}"


def _jpeg(data: bytes) -> tuple[int, int]:
    """Walk the segments to the first scan; within a scan ff d9 is the end of the image (ITU T.81, B.1.1.5)."""
    size: tuple[int, int] | None = None
    at = 0
    for marker, at in _segments(data):
        if marker in _SIZES and at + 9 <= len(data):
            size = int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        elif marker == _END:
            raise ValueError(f"damaged JPEG: it ends at byte {at}, before any scan")
    if size is None:
        raise ValueError("damaged JPEG: expected a frame header before the first scan, found none")
    if data[-2:] != b"\xff\xd9" and data.find(b"\xff\xd9", at) < 0:
        raise ValueError(f"truncated JPEG: no end-of-image marker in {counted(len(data), 'byte')}")
    return size


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield each marker with its place, the first scan's last."""
    at = 2
    while at + 4 <= len(data):
        marker = data[at + 1]
        if data[at] != 0xFF:
            raise ValueError(f"damaged JPEG: expected a marker at byte {at}, found {data[at : at + 2]!r}")
        yield marker, at
        if marker == _SCAN:
            return
        if marker == 0xFF:
            at += 1
        elif marker in _BARE:
            at += 2
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    raise ValueError(f"truncated JPEG: it ends among its headers, after {counted(len(data), 'byte')}")


def _png(data: bytes) -> tuple[int, int]:
    """Check every chunk's checksum up to IEND (PNG specification, 5.3)."""
    at, pixels = 8, False
    view = memoryview(data)
    while True:
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        name = data[at + 4 : at + 8]
        if end > len(data) or len(name) < 4:
            raise ValueError(
                f"truncated PNG: the chunk at byte {at} ends after the file's {counted(len(data), 'byte')}"
            )
        if zlib.crc32(view[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise ValueError(f"damaged PNG: wrong checksum of chunk {name!r} at byte {at}")
        if at == 8 and (name != b"IHDR" or end != 33):
            raise ValueError(f"damaged PNG: expected chunk b'IHDR' of 13 bytes first, found {name!r} of {end - 20}")
        pixels = pixels or name == b"IDAT"
        at = end
        if name == b"IEND":
            break
    if not pixels:
        raise ValueError("damaged PNG: expected a chunk b'IDAT', found none")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _webp(data: bytes) -> tuple[int, int]:
    """Walk the chunks of the RIFF container (WebP container specification; RFC 6386, 9.1; RFC 9649)."""
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise ValueError(f"truncated WebP: expected {counted(end, 'byte')}, found {len(data):,}")
    size: tuple[int, int] | None = None
    at, pixels = 12, False
    while at + 8 <= end:
        name = data[at : at + 4]
        body = data[at + 8 : at + 18]
        after = at + 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        if after > end:
            raise ValueError(f"damaged WebP: the chunk {name!r} at byte {at} ends after the image")
        size = size or _webp_size(name, body)
        pixels = pixels or name in {b"VP8 ", b"VP8L", b"ANMF"}
        at = after + (after & 1)
    if size is None or not pixels:
        raise ValueError("damaged WebP: expected a chunk with pixels, found none")
    return size


def _webp_size(name: bytes, body: bytes) -> tuple[int, int] | None:
    if len(body) < 10:
        return None
    if name == b"VP8X":
        return 1 + int.from_bytes(body[4:7], "little"), 1 + int.from_bytes(body[7:10], "little")
    if name == b"VP8 " and body[3:6] == b"\x9d\x01\x2a":
        return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF
    if name == b"VP8L" and body[0] == 0x2F:
        bits = int.from_bytes(body[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None
