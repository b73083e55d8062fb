"""Check the CRC32C kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed import _native
from datafeed._native import crc32c, masked_crc32c

Kernel = Callable[[bytes], int]

RFC_3720 = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex(
            "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
        ),
        0xD9963A56,
    ),
]  # appendix B.4
BY_TABLE = _native._crc32c_by_table


@pytest.mark.parametrize("kernel", [crc32c, BY_TABLE, oracle.crc32c])
@pytest.mark.parametrize(("data", "expected"), RFC_3720)
def test_crc32c_when_the_vector_is_of_the_rfc(kernel: Kernel, data: bytes, expected: int) -> None:
    """The published vectors come out on the instruction's path, the table's and the oracle's."""
    assert kernel(data) == expected


@pytest.mark.parametrize("nbytes", [*range(34), 383, 384, 385, 767, 3071, 3072, 3073, 3480, 10_007])
def test_crc32c_when_lengths_lie_at_the_seams_of_the_runs(nbytes: int) -> None:
    """Every remainder of the three side-by-side runs gives what a byte at a time gives, at any alignment."""
    data = np.random.default_rng(nbytes).bytes(nbytes + 3)
    for start in range(3):
        expected = oracle.crc32c(data[start : start + nbytes])
        assert crc32c(memoryview(data)[start : start + nbytes]) == expected
        assert BY_TABLE(memoryview(data)[start : start + nbytes]) == expected


@given(st.binary(max_size=2000))
def test_masked_crc32c_when_bytes_are_random(data: bytes) -> None:
    """Mask and sum equal the oracle's."""
    assert masked_crc32c(data) == oracle.masked_crc32c(data)


def test_crc32c_when_the_buffer_is_no_bytes_object() -> None:
    """Any contiguous buffer is taken, read-only or not; one with gaps is refused."""
    array = np.arange(100, dtype=np.uint16)
    array.flags.writeable = False
    assert crc32c(array) == crc32c(array.tobytes())  # type: ignore[arg-type]  # numpy's stubs show no buffer before Python 3.12
    assert crc32c(bytearray(array.tobytes())) == crc32c(array.tobytes())
    with pytest.raises((BufferError, ValueError)):
        crc32c(array[::2])  # type: ignore[arg-type]  # numpy's stubs show no buffer before Python 3.12


def test_instruction_when_this_processor_has_it() -> None:
    """The flag that chooses the path agrees with what the system says of the processor."""
    assert isinstance(_native._crc32c_has_instruction(), bool)
    try:
        with open("/proc/cpuinfo", encoding="ascii") as info:
            flags = info.read().split()
    except FileNotFoundError:
        pytest.skip("no /proc/cpuinfo to compare with")
    if _native._crc32c_has_instruction():
        assert "sse4_2" in flags or "crc32" in flags
