"""Encode what stands before the stored bytes of an extent in its file, and check it.

An entry, little-endian: magic "DFCACHE1", u32 version, u32 CRC32C of the stored bytes, the dataset's id (16 bytes), the
SHA-256 of the shard, u64 number of the extent in the dataset, u64 its first byte in the shard, u64 its stored bytes,
u32 0, u32 CRC32C of all before; then the stored bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from typing_extensions import Buffer

from datafeed._native import crc32c

MAGIC = b"DFCACHE1"
VERSION = 1
_HEADER = struct.Struct("<8sII16s32sQQQI")
_U32 = struct.Struct("<I")
HEADER_NBYTES = _HEADER.size + _U32.size


@dataclass(frozen=True, slots=True)
class ExtentKey:
    """Name an extent for all processes and all times: equal keys mean equal bytes.

    Args:
        dataset: The dataset's id, 32 hexadecimal digits.
        shard: The hexadecimal SHA-256 of its shard.
        number: Its number in the dataset.
        offset: Its first byte in the shard.
        nbytes: Its stored bytes.
    """

    dataset: str
    shard: str
    number: int
    offset: int
    nbytes: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.number:010d}"

    @property
    def file_nbytes(self) -> int:
        """What its file takes."""
        return HEADER_NBYTES + self.nbytes


def encode_header(key: ExtentKey, data: Buffer) -> bytes:
    """Return what stands before the stored bytes.

    Args:
        key: The extent.
        data: Its stored bytes.
    """
    dataset, shard = bytes.fromhex(key.dataset), bytes.fromhex(key.shard)
    head = _HEADER.pack(MAGIC, VERSION, crc32c(data), dataset, shard, key.number, key.offset, key.nbytes, 0)
    return head + _U32.pack(crc32c(head))


def find_fault(header: bytes, key: ExtentKey) -> str:
    """Say what is wrong with the header that stands in an extent's file; empty where it is the right one."""
    if len(header) != HEADER_NBYTES or header[:8] != MAGIC:
        return f"expected {MAGIC!r}, found {header[:8]!r} in {len(header)} bytes"
    _, version, _, dataset, shard, number, offset, nbytes, _ = _HEADER.unpack_from(header)
    if version != VERSION:
        return f"it has version {version}, and {VERSION} is read"
    if crc32c(header[: _HEADER.size]) != _U32.unpack_from(header, _HEADER.size)[0]:
        return "the CRC32C of its header does not match"
    found = ExtentKey(dataset.hex(), shard.hex(), number, offset, nbytes)
    return "" if found == key else f"expected {key}, found {found}"


def read_key(header: bytes) -> ExtentKey | None:
    """Return the extent that a header speaks of; None where it is none of ours."""
    if len(header) != HEADER_NBYTES:
        return None
    _, _, _, dataset, shard, number, offset, nbytes, _ = _HEADER.unpack_from(header)
    key = ExtentKey(dataset.hex(), shard.hex(), number, offset, nbytes)
    return None if find_fault(header, key) else key


def is_whole(header: bytes, data: Buffer) -> bool:
    """Tell whether stored bytes are those that a header was written for."""
    return len(header) == HEADER_NBYTES and crc32c(data) == int(_HEADER.unpack_from(header)[2])
