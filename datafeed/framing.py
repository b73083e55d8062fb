"""Name the sizes of TFRecord's framing."""

from __future__ import annotations

from datafeed._native import Block

HEAD_NBYTES = 12  # u64 length, u32 masked CRC32C of it
FRAMING_NBYTES = 16  # the head, and the u32 masked CRC32C of the payload behind it
LARGEST_NBYTES = 2**31 - 1  # of a payload: protobuf's own limit


def prefix_nbytes(block: Block, records: int) -> int:
    """Return how many raw bytes the first records of a block take, framing included."""
    return sum(len(block.record(row)) + FRAMING_NBYTES for row in range(records))
