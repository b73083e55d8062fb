"""Telling how a file is packed."""

from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard

from datafeed.packing import packing


@pytest.mark.parametrize("data", [b"", b"text " * 1000])
def test_each_packer_is_told_by_its_own_bytes(data: bytes) -> None:
    """At every level that it has."""
    assert packing(gzip.compress(data)) == "gzip"
    assert {packing(zlib.compress(data, level)) for level in range(10)} == {"zlib"}
    assert {packing(zstandard.compress(data, level)) for level in (-5, 1, 22)} == {"zstd"}


@pytest.mark.parametrize("low", [0, 15])
def test_zstd_may_begin_with_a_skippable_frame(low: int) -> None:
    """As pzstd writes it (RFC 8878, 3.1.2: 16 magic numbers)."""
    assert packing(bytes([0x50 + low, 0x2A, 0x4D, 0x18, 4, 0, 0, 0])) == "zstd"


@pytest.mark.parametrize("head", [b"", b"\x1f", b"(", b"\x28\xb5\x2f", b"PAR1", b"x,y\n", b'{"a"', bytes(12)])
def test_anything_else_is_not_packed(head: bytes) -> None:
    """Neither a file that is too short to tell."""
    assert packing(head) == ""
