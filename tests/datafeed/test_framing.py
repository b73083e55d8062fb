"""Test the sizes of TFRecord's framing."""

from __future__ import annotations

from tiny import framed

from datafeed._native import Block
from datafeed.framing import prefix_nbytes


def test_prefix_holds_the_first_records() -> None:
    """It is as long as they are alone: none, some, all."""
    records = [b"", b"one", b"three" * 100]
    block = Block(framed(records))
    for count in range(4):
        assert prefix_nbytes(block, count) == len(framed(records[:count]))
