"""Read the items of a LitData chunk, however they are packed in it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import zstandard

from datafeed.columns import Offsets, end_to_end
from datafeed.converters.item_table import PIECE_NBYTES, Bytes, Piece, Readable, Table, TableError, runs
from datafeed.converters.item_units import Part
from datafeed.converters.litdata_index import Level
from datafeed.packing import packing

_MAGIC, _VERSION = b"LDFZ01\0\0", 1
_PREFIX = struct.Struct("<8sHHIII")  # magic, version, flags, items, items of a frame, frames
_FRAME = struct.Struct("<IIQII")  # first item, items, place, packed bytes, bytes
_LARGEST_NBYTES = 2**31 - 1  # of an item: no record may have more
_WINDOW_NBYTES = 2**27

OnWrong = Callable[[int, str], None]


def pieces(file: Readable, part: Part, level: Level, on_wrong: OnWrong) -> Iterator[Piece]:
    """Yield the items of a part, some MB at a time.

    Args:
        file: The chunk, which is unpacked already where it was packed as a whole.
        part: Which of its items.
        level: What in it is packed.
        on_wrong: Takes the number of an item that cannot be read, and why.

    Raises:
        TableError: The chunk is not what its index says.
        OSError: It cannot be read.
    """
    if level == "batch" and _is_framed(file):
        yield from _framed(file, part, on_wrong)
        return
    for piece in Table(file, part.facts.nbytes, part.items).pieces(part.start, part.end, on_wrong):
        if level == "sample":
            yield from _unpacked(piece, on_wrong)
        else:
            yield piece


def _is_framed(file: Readable) -> bool:
    """Whether a chunk is packed as its index says: LitData 0.2.76 leaves those of lists and tuples as they are."""
    file.seek(0)
    return file.read(len(_MAGIC)) == _MAGIC


def _unpacked(piece: Piece, on_wrong: OnWrong) -> Iterator[Piece]:
    """Unpack items that are packed one by one, a few MB of them at a time; one that cannot be ends a run of numbers."""
    held: list[bytes] = []
    nbytes = 0
    first = piece.first
    for row in range(len(piece)):
        try:
            data = piece.data[piece.offsets[row] : piece.offsets[row + 1]].tobytes()
            data = _unpack(data, None) if packing(data) == "zstd" else data  # which `_is_framed` says why it may not be
        except TableError as exc:
            on_wrong(piece.first + row, str(exc))
            if held:
                yield Piece(*_joined(held), first)
            held, nbytes, first = [], 0, piece.first + row + 1
            continue
        held.append(data)
        nbytes += len(data)
        if nbytes >= PIECE_NBYTES:
            yield Piece(*_joined(held), first)
            held, nbytes, first = [], 0, piece.first + row + 1
    if held:
        yield Piece(*_joined(held), first)


def _joined(items: Sequence[bytes]) -> tuple[Bytes, Offsets]:
    data, offsets = end_to_end(items)
    return data.view(np.uint8), offsets


def _unpack(data: bytes, nbytes: int | None) -> bytes:
    """Unpack one zstd frame, which must say its size: the one expected, where there is one."""
    try:
        size = zstandard.frame_content_size(data)
        if not 0 <= size <= _LARGEST_NBYTES or (nbytes is not None and size != nbytes):
            expected = f"{_LARGEST_NBYTES} or less" if nbytes is None else nbytes
            raise TableError(f"a zstd frame says to hold {size} bytes, expected {expected}")
        return zstandard.ZstdDecompressor(max_window_size=_WINDOW_NBYTES).decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as exc:
        raise TableError(f"a zstd frame cannot be unpacked: {exc}") from exc


class _Frame(NamedTuple):
    """Say what a frame of several items is."""

    first: int
    items: int
    place: int
    packed: int
    nbytes: int

    @property
    def end(self) -> int:
        """The item behind its last."""
        return self.first + self.items


def _framed(file: Readable, part: Part, on_wrong: OnWrong) -> Iterator[Piece]:
    """Yield the items of frames of several."""
    offsets, frames = _tables(file, part)
    for frame in frames:
        if frame.end <= part.start or frame.first >= part.end:
            continue
        places = offsets[frame.first : frame.end + 1] - offsets[frame.first]
        try:
            if places[-1] != frame.nbytes:
                raise TableError(f"a frame of {frame.nbytes} bytes should hold items of {places[-1]}")  # noqa: TRY301
            file.seek(frame.place)
            data = np.frombuffer(_unpack(file.read(frame.packed), frame.nbytes), np.uint8)
        except TableError as exc:
            for item in range(frame.first, frame.end):
                on_wrong(item, str(exc))
            continue
        for low, high in runs(places[: min(frame.end, part.end) - frame.first + 1]):
            found = places[low : high + 1]
            yield Piece(data[found[0] : found[-1]], found - found[0], frame.first + low)


def _tables(file: Readable, part: Part) -> tuple[Offsets, list[_Frame]]:
    """Return where each item begins, unpacked and end to end, and the frames, which together hold all items."""
    file.seek(0)
    head = file.read(_PREFIX.size)
    if len(head) < _PREFIX.size:
        raise TableError("it is cut short within its head")
    _, version, _, items, _, count = _PREFIX.unpack(head)
    if version != _VERSION or items != part.items:
        raise TableError(f"expected {part.items} items in version {_VERSION}, found {items} in version {version}")
    if _PREFIX.size + 4 * (items + 1) + _FRAME.size * count > part.facts.nbytes:
        raise TableError(f"it is cut short: {part.facts.nbytes} bytes do not hold {items} items in {count} frames")
    offsets = np.frombuffer(file.read(4 * (items + 1)), "<u4").astype(np.int64)
    frames = [_Frame._make(found) for found in _FRAME.iter_unpack(file.read(_FRAME.size * count))]
    told = 0
    for frame in frames:
        if frame.first != told or frame.end > items or frame.place + frame.packed > part.facts.nbytes:
            raise TableError(f"the frame of items {frame.first} to {frame.end} is not where it can be")
        told = frame.end
    if told != items or (np.diff(offsets) < 0).any():
        raise TableError(f"its frames hold {told} of {items} items, or those end before they begin")
    return offsets, frames
