"""Read what a FLAC file holds (RFC 9639).

Its last frame says at which sample it begins, and has a checksum of 16 bits. So a file that was cut is found, but for
one in 65,536, and so is the length of one that does not say it.
"""

from __future__ import annotations

from typing import NamedTuple

from datafeed.converters.sound_facts import SoundFacts
from datafeed.sizes import counted

_STREAMINFO_NBYTES = 34
_LONGEST_HEADER = 16
_TAG_NBYTES = 128  # of an ID3v1 tag, which some programs append
_MOST_CANDIDATES = 8  # few bytes of sound look like a header
_SAMPLE_NBYTES = 5  # at most, with the difference of two channels of 32 bits
_BLOCK_SIZES = {1: 192, **{code: 144 << code for code in range(2, 6)}, **{code: 1 << code for code in range(8, 16)}}


class _Info(NamedTuple):
    rate: int
    channels: int
    frames: int
    block: int


def flac_sound(data: bytes, start: int) -> SoundFacts:
    """Return what a FLAC file holds.

    Args:
        data: The whole file.
        start: Where `fLaC` stands.

    Raises:
        ValueError: It is truncated or damaged.
    """
    first, info = _metadata(data, start + 4)
    end = len(data) - _TAG_NBYTES if data[-_TAG_NBYTES:].startswith(b"TAG") else len(data)
    longest = info.block * info.channels * _SAMPLE_NBYTES + 2 * _LONGEST_HEADER
    end = len(data[:end].rstrip(b"\0"))  # zeros leave a checksum of 0 what it is
    found = _last_sample(data[max(first, end - longest) : end], info)
    if found is None:
        raise ValueError("truncated FLAC: it does not end with a whole frame of sound")
    if info.frames and found != info.frames:
        raise ValueError(f"truncated FLAC: expected {counted(info.frames, 'sample')}, found {found:,}")
    return SoundFacts("FLAC", info.rate, info.channels, found)


def _metadata(data: bytes, at: int) -> tuple[int, _Info]:
    """Return where the frames begin, and what the first block says (RFC 9639, 8)."""
    info: _Info | None = None
    last = False
    while not last:
        head = data[at : at + 4]
        size = int.from_bytes(head[1:], "big")
        if len(head) < 4 or size > len(data) - at - 4:
            raise ValueError(f"truncated FLAC: it ends among its headers, after {counted(len(data), 'byte')}")
        last, kind = head[0] > 0x7F, head[0] & 0x7F
        if info is None:
            if kind or size != _STREAMINFO_NBYTES:
                raise ValueError(f"damaged FLAC: expected STREAMINFO first, found block {kind} of {size} bytes")
            info = _info(data[at + 4 : at + 4 + size])
        at += 4 + size
    assert info is not None
    return at, info


def _info(block: bytes) -> _Info:
    bits = int.from_bytes(block[10:18], "big")
    return _Info(
        rate=bits >> 44,
        channels=(bits >> 41 & 7) + 1,
        frames=bits & 2**36 - 1,
        block=int.from_bytes(block[2:4], "big"),
    )


def _last_sample(data: bytes, info: _Info) -> int | None:
    """Return where the last frame ends, in samples, if the data ends with a whole one."""
    at = len(data)
    tried = 0
    while tried < _MOST_CANDIDATES and (at := data.rfind(b"\xff", 0, at)) >= 0:
        end = _frame_end(data[at : at + _LONGEST_HEADER], info)
        if end is None:
            continue
        tried += 1
        if not _crc(data[at:], _CRC16, 16):
            return end
    return None


def _frame_end(head: bytes, info: _Info) -> int | None:
    """Return the sample at which a frame ends; None for bytes that are no frame's header (RFC 9639, 9.1)."""
    if len(head) < 6 or head[1] & 0xFE != 0xF8 or head[3] & 1:
        return None
    number, at = _number(head, 4)
    code, rate = head[2] >> 4, head[2] & 15
    size = _BLOCK_SIZES.get(code, 0)
    if code in {6, 7}:
        size = int.from_bytes(head[at : at + code - 5], "big") + 1
        at += code - 5
    at += {12: 1, 13: 2, 14: 2}.get(rate, 0)
    if not size or number < 0 or at >= len(head) or _crc(head[: at + 1], _CRC8, 8):
        return None
    return number + size if head[1] & 1 else number * info.block + size


def _number(head: bytes, at: int) -> tuple[int, int]:
    """Return a number of 1 to 7 bytes, coded as UTF-8 codes, and where it ends; -1 for none."""
    lead = head[at]
    more = 0
    while more < 8 and lead << more & 0x80:
        more += 1
    if more == 0:
        return lead, at + 1
    tail = head[at + 1 : at + more]
    if more in {1, 8} or len(tail) < more - 1 or any(byte & 0xC0 != 0x80 for byte in tail):
        return -1, at
    value = lead & (0x7F >> more)
    for byte in tail:
        value = value << 6 | byte & 0x3F
    return value, at + more


def _table(polynomial: int, bits: int) -> list[int]:
    table = []
    for byte in range(256):
        value = byte << bits - 8
        for _ in range(8):
            value = value << 1 ^ (polynomial if value >> bits - 1 else 0)
        table.append(value & (1 << bits) - 1)
    return table


_CRC8 = _table(0x107, 8)
_CRC16 = _table(0x18005, 16)


def _crc(data: bytes, table: list[int], bits: int) -> int:
    """Return the remainder; 0 for data that ends with its own checksum, zeros behind it or not."""
    shift, mask = bits - 8, (1 << bits) - 1
    value = 0
    for byte in data:
        value = (value << 8 & mask) ^ table[value >> shift ^ byte]
    return value
