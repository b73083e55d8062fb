"""Walk a TFRecord file in pieces of whole records."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from datafeed._native import masked_crc32c
from datafeed.errors import CorruptRecord
from datafeed.framing import FRAMING_NBYTES, HEAD_NBYTES, LARGEST_NBYTES
from datafeed.sizes import counted

READ_NBYTES = 4 * 2**20
_PACKED_NBYTES = 2**18
_EITHER_FORMAT = 47  # zlib's window bits for: gzip or zlib, as the first bytes say


@dataclass(frozen=True, slots=True)
class Piece:
    """Hold some consecutive records.

    Args:
        raw: Their bytes with the framing, end to end; the CRCs of their lengths are right.
        starts: Where each begins in `raw`, and where the last ends.
        first: The first one's number in its file.
        offset: The byte of the (unpacked) file at which `raw` begins.
    """

    raw: memoryview
    starts: list[int]
    first: int
    offset: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def payload(self, row: int) -> memoryview:
        """Return one record without its framing."""
        return self.raw[self.starts[row] + HEAD_NBYTES : self.starts[row + 1] - 4]

    def is_sound(self, row: int) -> bool:
        """Whether the CRC of one record's payload is right."""
        stop = self.starts[row + 1]
        return masked_crc32c(self.payload(row)) == int.from_bytes(self.raw[stop - 4 : stop], "little")


def pieces(chunks: Iterable[bytes], first: int = 0, offset: int = 0) -> Iterator[Piece]:
    """Cut the bytes of a file into pieces, each about as long as the chunks unless one record is longer.

    Args:
        chunks: The bytes, in order.
        first: The number of the record that they begin with.
        offset: The byte that they begin with.

    Yields:
        The pieces.

    Raises:
        CorruptRecord: A length's CRC is wrong, a length is past the limit of 2**31 - 1, or the last record is cut; with
            `record` and `offset`. Where the next record begins is not known then.
    """
    buffer, wanted = bytearray(), HEAD_NBYTES
    for chunk in chunks:
        buffer += chunk
        if len(buffer) < wanted:
            continue
        starts, wanted, reason = _walk(buffer)
        end = starts[-1]
        if end:
            yield Piece(memoryview(bytes(memoryview(buffer)[:end])), starts, first, offset)
        first += len(starts) - 1
        offset += end
        if reason:
            raise CorruptRecord(reason, record=first, offset=offset)
        del buffer[:end]
        wanted -= end
    if buffer:
        raise CorruptRecord(
            f"the file ends {counted(len(buffer), 'byte')} into the record", record=first, offset=offset
        )


def _walk(buffer: bytearray) -> tuple[list[int], int, str]:
    """Return where records begin and the last whole one ends, the bytes that the next one needs, what is wrong."""
    starts, position = [0], 0
    while len(buffer) - position >= HEAD_NBYTES:
        length, reason = record_length(buffer[position : position + HEAD_NBYTES])
        if reason:
            return starts, position, reason
        stop = position + FRAMING_NBYTES + length
        if stop > len(buffer):
            return starts, stop, ""
        starts.append(stop)
        position = stop
    return starts, position + HEAD_NBYTES, ""


def record_length(head: bytes | bytearray) -> tuple[int, str]:
    """Return the length in a record's first 12 bytes, and what is wrong with it, if anything."""
    if masked_crc32c(head[:8]) != int.from_bytes(head[8:], "little"):
        return 0, "the CRC of its length is wrong, so that the rest of the file cannot be read"
    length = int.from_bytes(head[:8], "little")
    if length > LARGEST_NBYTES:
        return (
            0,
            f"it has {length:,} bytes by its head, the limit is {LARGEST_NBYTES:,}: the rest of the file is not read",
        )
    return length, ""


def is_plain(head: bytes) -> bool:
    """Whether a file begins with a record, by its first 12 bytes or more."""
    return len(head) >= HEAD_NBYTES and not record_length(head[:HEAD_NBYTES])[1]


def plain(file: BinaryIO, nbytes: int) -> Iterator[bytes]:
    """Yield the next bytes of a file, `nbytes` in all or up to its end."""
    while nbytes > 0 and (data := file.read(min(nbytes, READ_NBYTES))):
        nbytes -= len(data)
        yield data


def unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Yield the bytes that a gzip or zlib file holds, a few MB at a time, whatever they grow to.

    Raises:
        EOFError: The file ends too early.
        zlib.error: It is damaged.
    """
    data = file.read(_PACKED_NBYTES)
    while data:
        stream = zlib.decompressobj(_EITHER_FORMAT)  # a gzip file may be several, end to end
        yield stream.decompress(data, READ_NBYTES)
        while not stream.eof:
            data = stream.unconsumed_tail or file.read(_PACKED_NBYTES)
            part = stream.decompress(data, READ_NBYTES)  # without data too: some may wait inside
            if not data and not part and not stream.eof:
                raise EOFError("the compressed stream ends too early")
            yield part
        data = stream.unused_data or file.read(_PACKED_NBYTES)
