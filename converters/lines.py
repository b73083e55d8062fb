"""Read the lines of text files, in parts that are cut at line ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from datafeed.converters.files import Files, open_failed
from datafeed.converters.names import shown
from datafeed.converters.source import OnBad, Stamp, Unit
from datafeed.converters.unpack import PACKED_ERRORS, unpacked
from datafeed.errors import BadItem, SourceError
from datafeed.packing import packing

UNIT_NBYTES = 8_000_000
LINE_NBYTES = 2**28  # a longer line, such as one array that fills a file, would be held as a whole
_PACKED_RATIO = 4  # what gzip makes of text, about


def line_units(files: Files, file: Stamp) -> Iterator[Unit]:
    """Yield byte ranges of a plain file, cut at line ends, or a packed file as a whole; nothing of an empty one.

    Args:
        files: What reaches it.
        file: The file.

    Raises:
        SourceError: It cannot be read, or a line of it is longer than `LINE_NBYTES`.
    """
    try:
        if packing(files.head(file.path, 4)) in ("gzip", "zstd"):
            yield Unit(file.path, _PACKED_RATIO * file.nbytes, (file,), (0, -1, 1))
        else:
            yield from _ranges(files, file)
    except OSError as exc:
        raise open_failed(file.path, exc) from exc


def _ranges(files: Files, file: Stamp) -> Iterator[Unit]:
    """Cut a file at line ends; each unit's detail is (start, end, its first line's number)."""
    start, line = 0, 1
    with files.open(file.path) as text:
        while start < file.nbytes:
            data = text.read(UNIT_NBYTES)
            data += text.readline(LINE_NBYTES)
            if not data:
                break
            if data[-1:] != b"\n" and start + len(data) < file.nbytes:
                long = line + data.count(b"\n")
                raise SourceError(f"{shown(file.path)}: {_too_long(long)}")
            yield Unit(f"{file.path}:{line}", len(data), (file,), (start, start + len(data), line))
            start += len(data)
            line += data.count(b"\n")


def lines_of(files: Files, unit: Unit, on_bad: OnBad) -> Iterator[tuple[int, bytes]]:
    """Yield (number, bytes) of the lines of a unit; a byte order mark is dropped, and a line end may be left.

    Args:
        files: What reaches its file.
        unit: What `line_units` made.
        on_bad: What to do where the rest of the file cannot be read.
    """
    assert isinstance(unit.detail, tuple)
    start, end, first = unit.detail
    path = unit.files[0].path
    try:
        with files.open(path) as plain:
            if end < 0:
                with unpacked(plain) as text:
                    yield from _stripped(text, first)
                return
            plain.seek(start)
            yield from enumerate(plain.read(end - start).removeprefix(_bom(start)).split(b"\n"), first)
    except PACKED_ERRORS as exc:
        on_bad(BadItem(shown(path), f"the rest of it cannot be read: {exc}"))


def _bom(start: int) -> bytes:
    return b"\xef\xbb\xbf" if start == 0 else b""


def _stripped(file: BinaryIO, first: int) -> Iterator[tuple[int, bytes]]:
    line = first
    while data := file.readline(LINE_NBYTES):
        if len(data) == LINE_NBYTES and data[-1:] != b"\n":
            raise OSError(_too_long(line))
        yield line, data.removeprefix(_bom(line - first))
        line += 1


def _too_long(line: int) -> str:
    return f"line {line} has more than {LINE_NBYTES:,} bytes: expected one sample a line"
