"""Open a file of a data set as a whole, unpacked and compared with what its index says."""

from __future__ import annotations

import bz2
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from datafeed.converters.files import Files
from datafeed.converters.item_table import Readable, TableError
from datafeed.converters.source import Stamp
from datafeed.converters.unpack import unpacked

READ_NBYTES = 2**20
HELD_NBYTES = 64 * 2**20  # unpacked in memory up to here, in a temporary file from there on
PACKINGS = ("zstd", "gz", "bz2")
HASHES = frozenset(name for name in hashlib.algorithms_guaranteed if not name.startswith("shake_"))


@dataclass(frozen=True, slots=True)
class Facts:
    """Say what a file should be.

    Args:
        packed: How it is packed, one of `PACKINGS`; empty for not at all.
        nbytes: Its size, unpacked.
        hashes: Names of hash functions of `HASHES` with the file's digest as it is stored.
    """

    packed: str
    nbytes: int
    hashes: tuple[tuple[str, str], ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the file must be read as a whole."""
        return bool(self.packed or self.hashes)


@contextmanager
def opened(files: Files, stamp: Stamp, facts: Facts) -> Iterator[BinaryIO]:
    """Give a file for reading at any position, unpacked; its digests are compared first.

    Raises:
        TableError: It is not what it should be.
        OSError, EOFError, zlib.error: It cannot be read or unpacked.
    """
    if not facts.whole:
        with files.open(stamp.path, read_ahead=READ_NBYTES) as file:
            yield file
        return
    with files.local(stamp) as path, open(path, "rb") as file:
        _compare(file, facts.hashes)
        if not facts.packed:
            yield file
            return
        with tempfile.SpooledTemporaryFile(HELD_NBYTES) as plain:
            with _stream(file, facts.packed) as source:
                _unpack(source, cast("BinaryIO", plain), facts.nbytes)
            yield cast("BinaryIO", plain)


@contextmanager
def beginning(file: BinaryIO, packed: str) -> Iterator[Readable]:
    """Give a file for reading near its beginning at any position; what was unpacked is kept."""
    if not packed:
        yield file
        return
    with _stream(file, packed) as plain:
        yield _Kept(plain)


class _Kept:
    """Read a stream at any position, keeping all of it up to there."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._kept = bytearray()
        self._at = 0

    def seek(self, at: int, /) -> int:
        self._at = at
        return at

    def read(self, nbytes: int, /) -> bytes:
        end = self._at + nbytes
        if end > len(self._kept):
            self._kept += self._stream.read(end - len(self._kept))
        found = bytes(self._kept[self._at : end])
        self._at += len(found)
        return found


@contextmanager
def _stream(file: BinaryIO, packed: str) -> Iterator[BinaryIO]:
    """Give what a packed file holds, from front to back."""
    if packed == "bz2":
        with bz2.BZ2File(file) as plain:
            yield cast("BinaryIO", plain)
    else:
        with unpacked(file) as other:
            yield cast("BinaryIO", other)


def _compare(file: BinaryIO, hashes: Sequence[tuple[str, str]]) -> None:
    for name, expected in hashes:
        file.seek(0)
        digest = hashlib.new(name, usedforsecurity=False)
        while data := file.read(READ_NBYTES):
            digest.update(data)
        if digest.hexdigest() != expected.lower():
            raise TableError(f"its {name} is {digest.hexdigest()}, its index says {expected}: fetch it anew")
    file.seek(0)


def _unpack(source: BinaryIO, target: BinaryIO, nbytes: int) -> None:
    left = nbytes
    while data := source.read(min(READ_NBYTES, left + 1)):
        left -= len(data)
        if left < 0:
            raise TableError(f"its index says {nbytes} bytes unpacked, it has more")
        target.write(data)
    if left:
        raise TableError(f"its index says {nbytes} bytes unpacked, it has {nbytes - left}")
