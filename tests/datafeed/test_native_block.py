"""Check the frame walk against the oracle and against hostile lengths."""

from __future__ import annotations

import gc
import struct
import tracemalloc
import weakref

import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed._native import Block, masked_crc32c
from datafeed.errors import CorruptRecord

RECORDS = [b"", b"one", b"x" * 300]
RAW = b"".join(map(oracle.frame, RECORDS))


def verdict(raw: bytes, records: int, *, check_payload: bool) -> object:
    """Return what Block finds: payloads, or where the fault is."""
    try:
        block = Block(raw, records, check_payload=check_payload)
    except CorruptRecord as exc:
        return exc.record, exc.offset
    return [bytes(block.record(i)) for i in range(len(block))]


def expected(raw: bytes, records: int, *, check_payload: bool) -> object:
    """Return what the oracle finds, in the same form."""
    try:
        return oracle.walk(raw, records, check_payload=check_payload)
    except CorruptRecord as exc:
        return exc.record, exc.offset


def with_length(length: int, payload: bytes = b"data") -> bytes:
    """Frame a record under another length, whose checksum is right."""
    head = struct.pack("<Q", length)
    return head + struct.pack("<I", masked_crc32c(head)) + payload + struct.pack("<I", masked_crc32c(payload))


@given(st.lists(st.binary(max_size=50), max_size=100))
def test_block_when_records_are_whole(records: list[bytes]) -> None:
    """All records come back, with the count known and unknown, payload checked."""
    raw = b"".join(map(oracle.frame, records))
    for count in (-1, len(records)):
        block = Block(raw, count, check_payload=True)
        assert [bytes(block.record(i)) for i in range(len(block))] == records
        assert block.nbytes == len(raw)


@pytest.mark.parametrize("check_payload", [False, True])
@pytest.mark.parametrize("records", [-1, 0, 2, 3, 4, 2**62])
def test_block_when_cut_at_every_length(records: int, *, check_payload: bool) -> None:
    """Every prefix gives the oracle's verdict, with the record and byte to blame."""
    for end in range(len(RAW) + 1):
        raw = RAW[:end]
        assert verdict(raw, records, check_payload=check_payload) == expected(raw, records, check_payload=check_payload)


def test_f46_block_when_any_bit_flips() -> None:
    """A flip in a length or its checksum is always found; one in the payload or its checksum where asked for."""
    for bit in range(8 * len(RAW)):
        raw = bytearray(RAW)
        raw[bit // 8] ^= 1 << bit % 8
        assert isinstance(verdict(bytes(raw), 3, check_payload=True), tuple), bit
        assert verdict(bytes(raw), 3, check_payload=False) == expected(bytes(raw), 3, check_payload=False)


def test_f46_block_when_a_length_is_wrong_says_where() -> None:
    """The error names the record, the byte where it begins, and what is wrong."""
    raw = bytearray(RAW)
    raw[16] ^= 1
    with pytest.raises(CorruptRecord, match=r"record 1, byte 16: the length's checksum") as caught:
        Block(raw)
    assert (caught.value.record, caught.value.offset) == (1, 16)


@pytest.mark.parametrize(
    "length", [5, 2**31 - 1, 2**31, 2**32 + 4, 2**63 - 1, 2**63, 2**64 - 16, 2**64 - 12, 2**64 - 1]
)
@pytest.mark.parametrize("records", [-1, 2])
def test_f47_block_when_a_length_is_huge(length: int, records: int) -> None:
    """A length past the end is refused though its checksum is right, before anything of its size is allocated."""
    raw = oracle.frame(b"good") + with_length(length)
    tracemalloc.start()
    with pytest.raises(CorruptRecord, match=f"found {length}") as caught:
        Block(raw, records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (caught.value.record, caught.value.offset) == (1, 20)
    assert peak < 2**20


@pytest.mark.parametrize("records", [2**40, 2**62, 2**63 - 1])
def test_f47_block_when_the_count_is_huge(records: int) -> None:
    """A hostile count allocates no more than the bytes could hold."""
    with pytest.raises(CorruptRecord, match=f"expected {records} records, found 3"):
        Block(RAW, records)


@given(raw=st.binary(max_size=80), records=st.integers(-1, 4), check_payload=st.booleans())
def test_block_when_bytes_are_random(raw: bytes, records: int, *, check_payload: bool) -> None:
    """Any bytes give the oracle's verdict."""
    assert verdict(raw, records, check_payload=check_payload) == expected(raw, records, check_payload=check_payload)


def test_record_when_the_block_is_gone() -> None:
    """A record's view keeps the bytes alive, cannot be written, and copies nothing."""
    array = np.frombuffer(bytearray(RAW), np.uint8)
    alive = weakref.ref(array)
    view = Block(array).record(2)  # type: ignore[arg-type]  # numpy's stubs show no buffer before Python 3.12
    del array
    gc.collect()
    assert alive() is not None
    assert view.readonly
    assert view == RECORDS[2]
    del view
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("row", [-1, 3, 2**40])
def test_record_when_the_row_is_outside(row: int) -> None:
    """Rows outside the block raise IndexError, negative ones too."""
    with pytest.raises(IndexError, match="of a block of 3 records"):
        Block(RAW).record(row)


def test_block_when_the_buffer_has_gaps() -> None:
    """Bytes that are not contiguous are refused."""
    with pytest.raises((BufferError, ValueError)):
        Block(np.zeros(64, np.uint8)[::2])  # type: ignore[arg-type]  # numpy's stubs show no buffer before Python 3.12
