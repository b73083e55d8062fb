"""Encode the seek table of the zstd seekable format.

Source: contrib/seekable_format/zstd_seekable_compression_format.md of facebook/zstd, version 0.1.0. The table ends a
shard: its last entry is our own footer frame, of 0 raw bytes, which readers of the format skip.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from datafeed.errors import CorruptIndex
from datafeed.sizes import counted

U32 = npt.NDArray[np.uint32]

SKIPPABLE_MAGIC = 0x184D2A5E
SEEKABLE_MAGIC = 0x8F92EAB1
HEAD = struct.Struct("<II")
TAIL = struct.Struct("<IBI")
ENTRY_NBYTES = 12
_DESCRIPTOR = 0x80  # entries carry checksums; no reserved bit
_CHECKSUM_OF_NOTHING = 0x51D8E999  # low 32 bits of the XXH64 of nothing


@dataclass(frozen=True, slots=True, eq=False)
class BlockColumns:
    """Hold what is known of each block of a shard, as uint32 columns of one length."""

    stored: U32
    raw: U32
    records: U32
    checksum: U32

    def __len__(self) -> int:
        return len(self.stored)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockColumns) and all(
            np.array_equal(mine, theirs) for mine, theirs in zip(self.columns(), other.columns(), strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(column.tobytes() for column in self.columns()))

    def columns(self) -> tuple[U32, U32, U32, U32]:
        """Return the columns in the order in which files keep them."""
        return self.stored, self.raw, self.records, self.checksum


def table_nbytes(frames: int) -> int:
    """Return the stored size of a table over so many frames."""
    return HEAD.size + ENTRY_NBYTES * frames + TAIL.size


def encode_table(stored: U32, raw: U32, checksum: U32, footer_nbytes: int) -> bytes:
    """Return the seek table frame over the blocks and the footer frame behind them.

    Args:
        stored: Each block's stored bytes.
        raw: Each block's raw bytes.
        checksum: Each block's checksum.
        footer_nbytes: The stored bytes of the footer frame.

    Returns:
        The frame.
    """
    entries = np.empty((len(stored) + 1, 3), "<u4")
    for column, values in enumerate((stored, raw, checksum)):
        entries[:-1, column] = values
    entries[-1] = footer_nbytes, 0, _CHECKSUM_OF_NOTHING
    head = HEAD.pack(SKIPPABLE_MAGIC, table_nbytes(len(entries)) - HEAD.size)
    return head + entries.tobytes() + TAIL.pack(len(entries), _DESCRIPTOR, SEEKABLE_MAGIC)


def decode_table(frame: bytes, start: int, name: str) -> tuple[U32, U32, U32, int]:
    """Read the seek table frame of a shard, checking every field.

    Args:
        frame: The whole frame.
        start: Where it begins in the shard: the sum of all stored sizes.
        name: The shard, for errors.

    Returns:
        Stored, raw and checksum of each block, and the stored bytes of the footer frame.

    Raises:
        CorruptIndex: It is no table over what stands before it.
    """
    magic, nbytes = HEAD.unpack_from(frame)
    frames, descriptor, _ = TAIL.unpack_from(frame, len(frame) - TAIL.size)
    entries = np.frombuffer(frame, "<u4", frames * 3, HEAD.size).reshape(frames, 3)
    expected = (SKIPPABLE_MAGIC, len(frame) - HEAD.size, _DESCRIPTOR)
    if (magic, nbytes, descriptor) != expected:
        found = f"{magic:#x}, {nbytes}, {descriptor:#x}"
        raise CorruptIndex(f"the seek table's head is {found}, expected {expected}", shard=name, offset=start)
    if not frames or tuple(entries[-1, 1:].tolist()) != (0, _CHECKSUM_OF_NOTHING):
        raise CorruptIndex("the seek table's last entry is not the footer frame", shard=name, offset=start)
    total = int(entries[:, 0].sum(dtype=np.int64))
    if total != start:
        reason = f"the seek table's frames add up to {counted(total, 'byte')}, but {start:,} stand before it"
        raise CorruptIndex(reason, shard=name, offset=start)
    blocks = entries[:-1].astype(np.uint32)
    return blocks[:, 0].copy(), blocks[:, 1].copy(), blocks[:, 2].copy(), int(entries[-1, 0])
