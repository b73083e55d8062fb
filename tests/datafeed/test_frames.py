"""Frames: what is written, and what is refused before a byte is allocated."""

from __future__ import annotations

import random
import struct
import threading
import tracemalloc
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import Buffer

from datafeed.errors import CorruptData, CorruptFrame, DecompressionLimit, NotAShard
from datafeed.frames import check_header, checksum, compress, decompress, decompress_into, zstd_version

_RAW = b"0123456789" * 30
_EMPTY_XXH64 = 0x51D8E999


def into_buffer(frame: Buffer, raw_size: int) -> bytes:
    """Decompress with `decompress_into`, in the form of `decompress`."""
    buffer = bytearray(raw_size)
    decompress_into(memoryview(frame), memoryview(buffer))
    return bytes(buffer)


Decode = Callable[[Buffer, int], bytes]
both = pytest.mark.parametrize("decode", [decompress, into_buffer])


def test_compress_writes_the_documented_header() -> None:
    """One segment, content size and checksum, no dictionary: three widths of the size field."""
    for nbytes, descriptor in ((1, 0x24), (255, 0x24), (256, 0x64), (65791, 0x64), (65792, 0xA4), (262144, 0xA4)):
        frame = compress(bytes(nbytes), 3)
        assert frame[:5] == b"\x28\xb5\x2f\xfd" + bytes([descriptor])
        assert decompress(frame, nbytes) == bytes(nbytes)


def test_compress_gives_literal_bytes() -> None:
    """A frame that cannot shrink is a raw block, the same under every libzstd."""
    assert compress(b"abcdef", 3).hex(" ", -4) == "28b52ffd 24063100 00616263 6465664d 1423c4"


def test_compress_depends_on_its_input_alone() -> None:
    """A context used for other data and levels before gives the same bytes as a fresh one."""
    rng = random.Random(1)
    texts = [bytes(rng.choices(b"abcdefgh", k=rng.randrange(1, 70_000))) for _ in range(20)]
    used = [compress(text, 3) for text in texts]
    fresh: list[bytes] = []
    for text in texts:
        thread = threading.Thread(target=lambda text=text: fresh.append(compress(text, 3)))
        thread.start()
        thread.join()
    assert used == fresh


@given(raw=st.binary(min_size=1, max_size=2000), level=st.sampled_from([-5, 1, 3, 9]))
@settings(max_examples=40, deadline=None)
def test_decompress_inverts_compress(raw: bytes, level: int) -> None:
    """Any bytes come back, as bytes or through a view."""
    frame = compress(raw, level)
    assert decompress(frame, len(raw)) == raw
    assert decompress(memoryview(b"xx" + frame + b"yy")[2:-2], len(raw)) == raw
    assert into_buffer(memoryview(b"xx" + frame + b"yy")[2:-2], len(raw)) == raw


def test_checksum_is_the_low_half_of_xxh64() -> None:
    """The last four bytes agree with a known XXH64."""
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(b"")
    assert checksum(frame) == _EMPTY_XXH64
    with pytest.raises(CorruptFrame, match="3 bytes"):
        checksum(b"abc")


@both
def test_f45_flipped_bit_is_found_wherever_it_is(decode: Decode) -> None:
    """Every bit of a frame, flipped alone, is an error."""
    frame = compress(_RAW, 3)
    for bit in range(len(frame) * 8):
        wrong = bytearray(frame)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptData):
            decode(wrong, len(_RAW))


@both
def test_f44_cut_frame_is_found_at_every_length(decode: Decode) -> None:
    """Every shorter frame is an error."""
    frame = compress(_RAW, 3)
    for nbytes in range(len(frame)):
        with pytest.raises(CorruptData):
            decode(frame[:nbytes], len(_RAW))


@both
def test_f53_size_other_than_the_index_names_is_refused(decode: Decode) -> None:
    """A header that announces 10 GB, or one byte more or less, allocates nothing."""
    bomb = struct.pack("<IBQ", 0xFD2FB528, 0xE4, 10 * 10**9) + b"\x01\0\0" + b"\0" * 4
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimit, match="announces 10000000000 raw bytes, the index 300"):
            decode(bomb, 300)
        for wrong in (299, 301, 0):
            with pytest.raises(DecompressionLimit, match=f"the index {wrong}"):
                decode(compress(_RAW, 3), wrong)
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()


@both
def test_f53_frame_that_grows_past_its_own_size_is_refused(decode: Decode) -> None:
    """A header that lies about the size stops libzstd at the size that the index names."""
    frame = bytearray(compress(bytes(200_000), 3))
    assert frame[4] == 0xA4
    frame[5:9] = struct.pack("<I", 70_000)
    with pytest.raises(CorruptFrame):
        decode(frame, 70_000)


@both
def test_f53_frame_without_content_size_is_refused(decode: Decode) -> None:
    """Nothing is guessed."""
    frame = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(_RAW)
    with pytest.raises(DecompressionLimit, match="does not say its raw size"):
        decode(frame, len(_RAW))


def test_f53_huge_window_is_refused() -> None:
    """A window over 128 MiB is refused by its number, one of 128 MiB is taken."""
    limit = struct.pack("<IBBI", 0xFD2FB528, 0x84, 17 << 3, 300)
    check_header(limit, 300)
    with pytest.raises(DecompressionLimit, match="window of 150,994,944 bytes, over the limit of 134,217,728"):
        check_header(struct.pack("<IBBI", 0xFD2FB528, 0x84, 17 << 3 | 1, 300), 300)


@both
def test_f53_trailing_bytes_are_an_error(decode: Decode) -> None:
    """One byte too many, or a second frame, is refused."""
    frame = compress(_RAW, 3)
    for rest in (b"\0", frame):
        with pytest.raises(CorruptFrame, match="unused"):
            decode(frame + rest, len(_RAW))


@both
def test_f53_skippable_frame_and_dictionary_are_refused(decode: Decode) -> None:
    """Neither is a block of this format."""
    with pytest.raises(CorruptFrame, match="skippable"):
        decode(struct.pack("<II", 0x184D2A5D, 4) + b"1234", 4)
    words = zstandard.ZstdCompressionDict(b"some words of a dictionary" * 20, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    plain = zstandard.ZstdCompressor(dict_data=words, write_checksum=True).compress(_RAW)
    assert decode(plain, len(_RAW)) == _RAW or plain[4] & 3
    with pytest.raises(CorruptFrame, match="dictionary"):
        decode(struct.pack("<IBBB", 0xFD2FB528, 0x25, 7, 44) + b"\0" * 8, 44)


@both
def test_f53_frame_without_checksum_is_refused(decode: Decode) -> None:
    """What could not be verified is not read."""
    frame = zstandard.ZstdCompressor(write_checksum=False).compress(_RAW)
    with pytest.raises(CorruptFrame, match="no checksum"):
        decode(frame, len(_RAW))


@both
def test_f43_html_is_no_shard(decode: Decode) -> None:
    """A proxy's page is shown by its first bytes."""
    with pytest.raises(NotAShard, match="<html>"):
        decode(b"<html><body>login</body></html>", 300)


def test_zstd_version_is_that_of_the_library() -> None:
    """The version that provenance records has three numbers."""
    assert len(zstd_version().split(".")) == 3


def test_f45_blocks_that_end_early_or_late_are_refused() -> None:
    """Without its checksum at its very end, libzstd would hand out a frame that it has not verified."""
    frame = compress(_RAW * 1000, 1)
    head = 9
    assert not frame[head] & 1  # several blocks: the first is not the last
    early = bytearray(frame)
    early[head] |= 1
    late = frame[:-4]
    for wrong in (bytes(early), late, frame + b"1234", frame[:-4] + b"\0\0\0" + frame[-4:]):
        with pytest.raises(CorruptFrame, match="its blocks"):
            into_buffer(wrong, len(_RAW) * 1000)
