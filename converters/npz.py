"""Find the arrays in .npz files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from datafeed.converters.npy_header import HEAD_NBYTES, DamagedError, Header, read_header
from datafeed.converters.unpack import PACKED_ERRORS

ZIP_ERRORS = (*PACKED_ERRORS, zlib.error, zipfile.BadZipFile, RuntimeError, ValueError, LookupError)
"""What reading a zip file raises where it is damaged."""

_DIRECTORY_NBYTES = 2**24  # about 200,000 members: zipfile makes an object of each before it can be asked
_END_NBYTES, _WIDE_NBYTES = 22, 20 + 56  # what ends the directory; what stands before that in zip64
_TAIL_NBYTES = _WIDE_NBYTES + _END_NBYTES + 2**16  # a comment may follow
_LOCAL_NBYTES = 30
_ENCRYPTED = 1
_KNOWN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


@dataclass(frozen=True, slots=True)
class Member:
    """Name an array in a zip file.

    Args:
        name: The member's name.
        header: The array's header.
        start: Where its numbers begin: in the file, where it is stored as it is; in the unpacked member otherwise.
        packed: Whether it is compressed.
    """

    name: str
    header: Header
    start: int
    packed: bool

    @property
    def array(self) -> str:
        """The array's name."""
        return self.name.removesuffix(".npy")


def members_of(file: BinaryIO, nbytes: int) -> tuple[list[Member], list[str]]:
    """Find the arrays of a zip file.

    Args:
        file: The zip file.
        nbytes: Its size.

    Returns:
        The arrays in order; and the names of members that are none.

    Raises:
        DamagedError: It cannot be read.
    """
    try:
        count = _directory(file, nbytes)
        with zipfile.ZipFile(file) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            arrays = [info for info in infos if info.filename.endswith(".npy")]
            _check_names([info.filename for info in arrays], count, len(archive.infolist()))
            others = [info.filename for info in infos if not info.filename.endswith(".npy")]
            return [_member(archive, file, info, nbytes) for info in arrays], others
    except DamagedError:
        raise
    except ZIP_ERRORS as exc:
        raise DamagedError(f"is no .npz file that can be read: {exc}") from exc


def _directory(file: BinaryIO, nbytes: int) -> int:
    """Return how many members there are, as the end of the file says; refuse a directory that would fill the memory."""
    file.seek(max(nbytes - _TAIL_NBYTES, 0))
    tail = file.read(_TAIL_NBYTES)
    end = tail.rfind(b"PK\5\6")
    count, size = tail[end + 10 : end + 12], tail[end + 12 : end + 16]
    wide = end - _WIDE_NBYTES
    if wide >= 0 and tail[end - 20 : end - 16] == b"PK\6\7":
        count, size = tail[wide + 32 : wide + 40], tail[wide + 40 : wide + 48]
    if end >= 0 and int.from_bytes(size, "little") > _DIRECTORY_NBYTES:
        raise DamagedError(
            f"has a directory of {int.from_bytes(size, 'little')} bytes; the limit is {_DIRECTORY_NBYTES}"
        )
    return int.from_bytes(count, "little")


def _check_names(names: Sequence[str], count: int, found: int) -> None:
    if found != count:
        raise DamagedError(f"has a directory of {found} members, and {count} by its end")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DamagedError(f"has two members named {twice!r}")


def _member(archive: zipfile.ZipFile, file: BinaryIO, info: zipfile.ZipInfo, nbytes: int) -> Member:
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _KNOWN:
        raise DamagedError(f"has a member that is encrypted, or packed as NumPy never does: {info.filename!r}")
    with archive.open(info) as member:
        head = member.read(HEAD_NBYTES)
    try:
        header = read_header(head, info.file_size)
    except DamagedError as exc:
        raise DamagedError(f"has a member that {exc}: {info.filename!r}") from exc
    if info.compress_type != zipfile.ZIP_STORED:
        return Member(info.filename, header, header.nbytes, packed=True)
    file.seek(info.header_offset)
    local = file.read(_LOCAL_NBYTES)
    names_nbytes = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    start = info.header_offset + _LOCAL_NBYTES + names_nbytes + header.nbytes
    if start + info.file_size - header.nbytes > nbytes:
        raise DamagedError(f"ends before its member {info.filename!r}")
    return Member(info.filename, header, start, packed=False)
