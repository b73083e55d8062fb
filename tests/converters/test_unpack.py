"""Test reading packed files."""

from __future__ import annotations

import gzip
import io
import os

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from datafeed.converters.unpack import PACKED_ERRORS, unpacked

TEXT = b"".join(b"line %d\n" % number for number in range(5000))


def read(data: bytes) -> bytes:
    """Unpack all of some bytes."""
    with unpacked(io.BytesIO(data)) as file:
        return file.read()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_content_tells_the_packing(pack: type[bytes]) -> None:
    """Plain bytes, gzip and zstd, one stream or several end to end, empty ones too."""
    assert read(pack(TEXT)) == TEXT
    assert read(pack(TEXT) + pack(b"") + pack(b"end")) == TEXT + b"end"
    assert read(pack(b"")) == b""


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("cut", [1, 5, 40])
def test_f95_a_packed_file_that_is_cut_is_an_error(pack: type[bytes], cut: int) -> None:
    """What zstandard's own reader passes over in silence."""
    with pytest.raises(PACKED_ERRORS, match=r"end"):
        read(pack(TEXT)[:-cut])


def test_damage_is_an_error() -> None:
    """A bit that differs is found by the frame's checksum; bytes behind a frame are no frame."""
    data = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    for spoilt in (data[:-1] + bytes([data[-1] ^ 1]), data + b"junk behind it"):
        with pytest.raises(OSError, match="no zstd that can be read"):
            read(bytes(spoilt))


def test_f53_a_window_past_the_limit_is_refused() -> None:
    """It would be memory that the file's writer chose."""
    large = zstandard.ZstdCompressionParameters(window_log=28, compression_level=1, write_content_size=False)
    data = zstandard.ZstdCompressor(compression_params=large).compressobj().compress(os.urandom(2**20))
    with pytest.raises(OSError, match="too much memory"):
        read(data)


@given(st.lists(st.binary(max_size=60_000), max_size=4), st.integers(1, 70_000))
def test_any_reads_give_the_same_bytes(parts: list[bytes], nbytes: int) -> None:
    """Whatever is asked for at once."""
    packed = b"".join(map(zstandard.compress, parts))
    with unpacked(io.BytesIO(packed)) as file:
        assert b"".join(iter(lambda: file.read(nbytes), b"")) == b"".join(parts)
