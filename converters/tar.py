"""Walk and read the members of a tar. Nothing is allocated for a size before the bytes are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from datafeed.converters import tar_header
from datafeed.converters.tar_header import BLOCK_NBYTES, DamagedError, Member
from datafeed.converters.unpack import PACKED_ERRORS
from datafeed.framing import LARGEST_NBYTES
from datafeed.sizes import counted

PIECE_NBYTES = 2**20  # read at once, whatever size a header declares
_EXTENDED_NBYTES = 2**20  # of a pax or GNU header: names are far shorter
_ZEROS = bytes(BLOCK_NBYTES)


def walk(file: BinaryIO, nbytes: int) -> Iterator[Member]:
    """Yield the members of a file by their headers alone, up to the first damage.

    Args:
        file: The tar; it is sought in.
        nbytes: Its size.
    """
    at = 0
    while at < nbytes:
        file.seek(at)
        try:
            member = _next_member(file, at)
        except DamagedError:
            return
        if member is None:
            return
        yield member
        at = member.end


def read_members(file: BinaryIO, at: int, end: int | None) -> Iterator[tuple[Member, bytes]]:
    """Yield the members and their data, from front to back; folders too.

    Data of a member with a flaw are passed over. One that is cut short has that flaw and is the last.

    Args:
        file: The tar, where a member begins.
        at: Which byte that is.
        end: The byte at which to stop, where a member begins; None to read on to the end of the tar.

    Raises:
        DamagedError: What stands there is no member, or the tar ends without saying so.
    """
    while end is None or at < end:
        member = _next_member(file, at)
        if member is None:
            _check_rest(file, at + BLOCK_NBYTES)
            return
        if member.nbytes > LARGEST_NBYTES and not member.flaw:
            member = member._replace(flaw=f"expected at most {LARGEST_NBYTES:,} bytes, found {member.nbytes:,}")
        try:
            data = b"" if member.flaw else _exactly(file, member.nbytes, member.start)
        except DamagedError as exc:
            yield member._replace(flaw=f"the tar ends or cannot be read within it: {exc.reason}"), b""
            return
        yield member, data
        at = member.end
        rest = at - member.start - len(data)
        if rest:
            _skip(file, rest, at)


def _next_member(file: BinaryIO, at: int) -> Member | None:
    """Read the headers of a member; None for the block of zeros that ends a tar."""
    begin, head = at, _header(file, at)
    if head is None:
        return None
    fields = tar_header.parse(head, begin)
    at += BLOCK_NBYTES
    given: dict[bytes, bytes] = {}
    while fields.flag in tar_header.EXTENDED:
        nbytes = fields.nbytes
        if nbytes > _EXTENDED_NBYTES:
            raise DamagedError(begin, f"an extended header of {nbytes:,} bytes, expected at most {_EXTENDED_NBYTES:,}")
        body = _exactly(file, nbytes + -nbytes % BLOCK_NBYTES, at)
        tar_header.extend(given, fields.flag, body[:nbytes], begin)
        at += len(body)
        block = _header(file, at)
        if block is None:
            raise DamagedError(at, "an extended header without a member behind it")
        fields = tar_header.parse(block, at)
        head += body + block
        at += BLOCK_NBYTES
    if fields.flag == tar_header.SPARSE:
        at = _skip_map(file, head, at)
    return tar_header.member(fields, head, given, begin, at)


def _header(file: BinaryIO, at: int) -> bytes | None:
    """Read a header; None for a block of zeros."""
    block = _read(file, BLOCK_NBYTES, at)
    if not block:
        raise DamagedError(at, "the tar lacks the zeros that end one: it may be cut short")
    if len(block) < BLOCK_NBYTES:
        raise DamagedError(at, "the tar ends within a header")
    return None if not block[0] and block == _ZEROS else block


def _skip_map(file: BinaryIO, head: bytes, at: int) -> int:
    """Read over the blocks that tell where a sparse file has its data; return where they end."""
    more = head[-BLOCK_NBYTES + 482]
    while more:
        more = _exactly(file, BLOCK_NBYTES, at)[504]
        at += BLOCK_NBYTES
    return at


def _check_rest(file: BinaryIO, at: int) -> None:
    """Check that nothing but zeros stands behind the end of a tar."""
    while data := _read(file, PIECE_NBYTES, at):
        if data.count(0) != len(data):
            at += len(data) - len(data.lstrip(b"\0"))
            raise DamagedError(at, "there are bytes behind the end of the tar, which are not read")
        at += len(data)


def _skip(file: BinaryIO, nbytes: int, at: int) -> None:
    """Read over some bytes; the end may come before."""
    while nbytes > 0 and (data := _read(file, min(nbytes, PIECE_NBYTES), at)):
        nbytes -= len(data)


def _exactly(file: BinaryIO, nbytes: int, at: int) -> bytes:
    """Read some bytes, in pieces where they are many.

    Raises:
        DamagedError: The end comes before.
    """
    data = _read(file, min(nbytes, PIECE_NBYTES), at)
    if len(data) == nbytes:
        return data
    pieces = [data]
    found = len(data)
    while found < nbytes and pieces[-1]:
        pieces.append(_read(file, min(nbytes - found, PIECE_NBYTES), at))
        found += len(pieces[-1])
    if found < nbytes:
        raise DamagedError(at, f"expected {counted(nbytes, 'byte')}, found {found:,}")
    return b"".join(pieces)


def _read(file: BinaryIO, nbytes: int, at: int) -> bytes:
    try:
        return file.read(nbytes)
    except PACKED_ERRORS as exc:
        raise DamagedError(at, str(exc)) from exc
