"""Parse the headers of a tar: ustar, with pax and GNU headers for long names and large sizes.

A header is a block of 512 bytes with name, size, checksum and type (POSIX.1-2017, pax; the manual of GNU tar, "Basic
Tar Format"). Extended headers before it say what its fields have no room for. Names are bytes as they stand.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import NamedTuple

BLOCK_NBYTES = 512
EXTENDED = frozenset([b"x", b"X", b"g", b"L", b"K"])
SPARSE = b"S"

_FILES = frozenset([b"0", b"\0", b"7"])
_WITHOUT_DATA = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"5": "",
    b"6": "a FIFO",
}
# A file or pax header as nearly all writers write it: parsed in a third of the time.
_USUAL = re.compile(rb"(?s)(?=([\w./@ -]{1,99})\0).{124}([0-7]{11})[\0 ].{12}([0-7]{6})\0 ([0x\0])")
_PLAIN = re.compile(rb"(?!/)[\w./-]+")
_SPACES = 8 * ord(" ") - 1
_OCTAL = re.compile(rb"[0-7]{1,12}")
_DECIMAL = re.compile(rb"[0-9]{1,19}")
_UNSAFE = re.compile(rb"\A[/\\]|\A[A-Za-z]:[/\\]|(?:\A|[/\\])\.\.(?:[/\\]|\Z)|\0")


class DamagedError(Exception):
    """Report where a tar cannot be read on.

    Args:
        at: The byte.
        reason: What was expected and what was found.
    """

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(at, reason)
        self.at = at
        self.reason = reason


class Member(NamedTuple):
    """Describe a member.

    Attributes:
        name: Its name as it stands.
        flag: Its type.
        at: The byte at which its headers begin.
        start: The byte at which its data begin.
        nbytes: The bytes of its data.
        flaw: Why it is not to be used; empty for a sound file or folder.
        head: Its headers.
    """

    name: bytes
    flag: bytes
    at: int
    start: int
    nbytes: int
    flaw: str
    head: bytes

    @property
    def end(self) -> int:
        """The byte at which the next member begins."""
        return self.start + self.nbytes + -self.nbytes % BLOCK_NBYTES

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.flag == b"5" and not self.flaw


class Fields(NamedTuple):
    """Hold what one header says.

    Attributes:
        name: The name.
        flag: The type.
        nbytes: The bytes behind it.
    """

    name: bytes
    flag: bytes
    nbytes: int


def parse(block: bytes, at: int) -> Fields:
    """Return what a header says.

    Raises:
        DamagedError: It is no header, or its checksum is another.
    """
    usual = _USUAL.match(block)
    if usual:
        name, nbytes, checksum, flag = usual.groups()
        if _apart(block, int(checksum, 8)) == 0 and not block[345]:
            return Fields(name, flag, int(nbytes, 8))
    if not _is_sound(block, _number(block[148:156], at)):
        raise DamagedError(at, f"expected the header of a member, found {block[:16]!r} with another checksum")
    name = block[:100].partition(b"\0")[0]
    if block[345] and block[257:263] == b"ustar\0":
        name = block[345:500].partition(b"\0")[0] + b"/" + name
    return Fields(name, block[156:157], _number(block[124:136], at))


def _apart(block: bytes, checksum: int) -> int:
    """Return the sum of a header's bytes, with spaces in place of the checksum, less the checksum, modulo 65521.

    Adler-32's lower half is 1 and the sum, modulo 65521, and takes a tenth of the time of the sum itself.
    """
    return ((zlib.adler32(block) & 0xFFFF) - sum(block[148:156]) + _SPACES - checksum) % 65521


def _is_sound(block: bytes, checksum: int) -> bool:
    apart = _apart(block, checksum)
    if apart == 0:
        return True
    high = sum(byte > 0x7F for byte in block[:148] + block[156:])  # old writers added signed bytes
    return high > 0 and apart == 256 * high % 65521


def _number(field: bytes, at: int) -> int:
    """Return a number of a header: octal digits, or base 256 where the first byte is 0x80.

    Raises:
        DamagedError: It is no number.
    """
    if field[0] == 0x80:
        return int.from_bytes(field[1:])
    digits = field.partition(b"\0")[0].strip(b" ")
    if digits and not _OCTAL.fullmatch(digits):
        raise DamagedError(at, f"expected the header of a member, found {field!r} in place of a number")
    return int(digits or b"0", 8)


def member(fields: Fields, head: bytes, given: Mapping[bytes, bytes], begin: int, start: int) -> Member:
    """Return what headers describe.

    Args:
        fields: What the member's own says.
        head: All of them.
        given: What extended ones say, as `extend` gathers it.
        begin: The byte at which they begin.
        start: The byte at which the data begin.
    """
    name, flag, nbytes = fields
    if given:
        name, nbytes = given.get(b"path", name), int(given.get(b"size", nbytes))
    if flag == b"\0" and name.endswith(b"/"):
        flag = b"5"  # as folders were written before there were types
    is_plain = flag in _FILES and b".." not in name and not given and _PLAIN.fullmatch(name)
    flaw = "" if is_plain else _flaw(name, flag, given)
    return Member(name, flag, begin, start, 0 if flag in _WITHOUT_DATA else nbytes, flaw, head)


def _flaw(name: bytes, flag: bytes, given: Mapping[bytes, bytes]) -> str:
    if _UNSAFE.search(name):
        return "its name leads out of the tar: expected a relative one without '..' and NUL"
    if flag == SPARSE or b"sparse" in given:
        return "it is sparse, which is not read: write the tar without --sparse"
    if flag in _FILES:
        return ""
    known = _WITHOUT_DATA.get(flag)
    if known is None:
        return f"expected a file, found a member of type {flag!r}"
    return f"expected a file, found {known}, which is not followed" if known else ""


def extend(given: dict[bytes, bytes], flag: bytes, body: bytes, at: int) -> None:
    """Take in what an extended header says of the member behind it; of several, the first counts.

    Raises:
        DamagedError: It cannot be read, or would hold for all members.
    """
    if flag == b"L":
        given.setdefault(b"path", body.rstrip(b"\0"))
        return
    if flag == b"K" or not (b"path=" in body or b"size=" in body or b"GNU.sparse." in body):
        return
    found = _pax(body, at)
    if flag == b"g" and found:
        raise DamagedError(at, f"a global pax header gives all members one {min(found).decode()}")
    for key, value in found.items():
        given.setdefault(key, value)


def _pax(body: bytes, at: int) -> dict[bytes, bytes]:
    """Return the path and size of a pax header, and whether the member is sparse: records of `LENGTH KEY=VALUE`."""
    found: dict[bytes, bytes] = {}
    position = 0
    while position < len(body):
        length = body[position : position + 20].partition(b" ")[0]
        end = position + int(length) if _DECIMAL.fullmatch(length) else 0
        key, equals, value = body[position + len(length) + 1 : max(end - 1, 0)].partition(b"=")
        if not equals or body[end - 1 : end] != b"\n":
            raise DamagedError(at, "a pax header whose records cannot be told apart")
        if key == b"size" and not _DECIMAL.fullmatch(value):
            raise DamagedError(at, f"a pax header with {value!r:.40} as a size")
        if key in {b"path", b"size"}:
            found[key] = value
        elif key.startswith(b"GNU.sparse."):
            found[b"sparse"] = value
        position = end
    return found
