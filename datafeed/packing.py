"""Tell how a file is packed."""

from __future__ import annotations

from typing import Literal

from datafeed.frames import MAGIC, SKIPPABLE

Packing = Literal["gzip", "zlib", "zstd", ""]


def packing(head: bytes) -> Packing:
    """Return how a file is packed, by its first bytes, four or more.

    Two bytes make zlib: text may begin with them, so ask where it can be nothing else.

    Args:
        head: The first bytes; fewer where the file is shorter.

    Returns:
        The format; empty for any other.
    """
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    magic = int.from_bytes(head[:4], "little")
    if magic == MAGIC or magic >> 4 == SKIPPABLE:  # pzstd and seekable files may begin with a skippable frame
        return "zstd"
    return "zlib" if head[:1] == b"\x78" and int.from_bytes(head[:2]) % 31 == 0 else ""
