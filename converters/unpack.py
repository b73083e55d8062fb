"""Read a file that may be packed with gzip or zstd, told by its content."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

import zstandard

from datafeed.packing import packing

PACKED_ERRORS = (OSError, EOFError, zlib.error)
"""What reading a packed file raises where it is damaged or cut."""

_ZSTD_NBYTES = 2**13  # read at once: at zstd's best, 2**15 times as many come out
_WINDOW_NBYTES = 2**27  # what `zstd --long` writes; a larger one would be memory that the file's writer chose
_HEAD_NBYTES = 4


@contextmanager
def unpacked(file: BinaryIO) -> Iterator[io.BufferedReader]:
    """Give the bytes that a file holds, unpacked, from front to back.

    Args:
        file: The file, at its beginning; it stays open.

    Yields:
        What reads them; that may raise `PACKED_ERRORS`.
    """
    head = file.read(_HEAD_NBYTES)
    file.seek(0)
    found = packing(head)
    if found == "gzip":
        with gzip.GzipFile(fileobj=file) as plain:
            yield io.BufferedReader(plain)
    elif found == "zstd":
        with io.BufferedReader(_Zstd(file), 2**17) as reader:
            yield cast("io.BufferedReader", reader)
    else:
        yield cast("io.BufferedReader", file)


class _Zstd(io.RawIOBase):
    """Unpack zstd frames that stand end to end; a cut one is an error, which zstandard's own reader passes over."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame = self._begin()
        self._whole = True  # no frame is under way
        self._ready = memoryview(b"")
        self._rest = b""

    @staticmethod
    def _begin() -> zstandard.ZstdDecompressionObj:
        return zstandard.ZstdDecompressor(max_window_size=_WINDOW_NBYTES).decompressobj()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase says any buffer
        while not self._ready:
            data = self._rest or self._file.read(_ZSTD_NBYTES)
            self._rest = b""
            if not data:
                if self._whole:
                    return 0
                raise EOFError("the zstd stream ends too early")
            self._feed(data)
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _feed(self, data: bytes) -> None:
        try:
            self._ready = memoryview(self._frame.decompress(data))
        except zstandard.ZstdError as exc:
            raise OSError(f"it is no zstd that can be read: {exc}") from exc
        self._whole = self._frame.eof
        if self._whole:
            self._rest, self._frame = self._frame.unused_data, self._begin()
