"""Turn raw bytes into zstd frames of this format, or back."""

from __future__ import annotations

import struct
import threading
from functools import partial
from typing import TYPE_CHECKING

import zstandard
from typing_extensions import Buffer

from datafeed.errors import CorruptFrame, DecompressionLimit, NotAShard
from datafeed.sizes import counted

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_WINDOW = 128 * 2**20
MAGIC = 0xFD2FB528
SKIPPABLE = 0x184D2A5  # the upper 28 bits of 16 magic numbers
# Content size in 4 bytes, one segment, checksum, no dictionary: the descriptor of every frame of 64 KiB to 4 GiB.
_USUAL = 0xA4
_USUAL_NBYTES = 9
_head = struct.Struct("<IBI").unpack_from
_u32 = struct.Struct("<I").unpack_from
_RLE, _BLOCK_NBYTES = 2, 2**21 - 1
_RESERVED, _CHECKSUM, _SINGLE = 0x18, 0x04, 0x20


class _Contexts(threading.local):
    """Hold a thread's zstd contexts: one may not serve two calls at once, and making one costs more than a frame."""

    def __init__(self) -> None:
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        context = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        self.decompress: Callable[[Buffer], bytes] = partial(context.decompress, allow_extra_data=False)
        self.stream = context.stream_reader


_contexts = _Contexts()


def compress(raw: Buffer, level: int) -> bytes:
    """Compress bytes to one frame with content size and checksum. Equal input gives equal bytes on one libzstd.

    Args:
        raw: Contiguous bytes, at least one.
        level: A zstd level.

    Returns:
        The frame.
    """
    compressor = _contexts.compressors.get(level)
    if compressor is None:
        compressor = zstandard.ZstdCompressor(
            level=level, write_checksum=True, write_content_size=True, write_dict_id=False
        )
        _contexts.compressors[level] = compressor
    return compressor.compress(memoryview(raw))


def decompress(frame: Buffer, raw_size: int) -> bytes:
    """Decompress exactly one frame; the GIL is released meanwhile.

    Args:
        frame: Contiguous bytes of the frame, whole and alone.
        raw_size: How many bytes it must give, at least 1. Compared with the frame's header before anything is
            allocated, and enforced by libzstd.

    Returns:
        The raw bytes.

    Raises:
        DecompressionLimit: The header announces another size, none, or a window over 128 MiB.
        CorruptFrame: It is damaged, cut, followed by other bytes, or needs a dictionary.
        NotAShard: It is no zstd frame.
    """
    try:
        magic, descriptor, size = _head(frame)
    except struct.error:
        magic = descriptor = size = -1
    if descriptor != _USUAL or magic != MAGIC or size != raw_size or not raw_size:
        check_header(frame, raw_size)
    try:
        return _contexts.decompress(frame)
    except zstandard.ZstdError as exc:
        raise CorruptFrame(f"expected a zstd frame of {raw_size} raw bytes: {exc}") from exc


def decompress_into(frame: memoryview, into: memoryview) -> None:
    """Decompress exactly one frame into a buffer; the GIL is released meanwhile.

    Args:
        frame: As `decompress` takes it.
        into: Writable, contiguous, of just the raw size; its content is undefined after an error.

    Raises:
        CorruptData: As `decompress` raises.
    """
    nbytes = frame.nbytes
    try:
        magic, descriptor, size = _head(frame)
        start = _USUAL_NBYTES
        if descriptor != _USUAL or magic != MAGIC or size != into.nbytes or not size:
            start = check_header(frame, into.nbytes)
        # libzstd checks the checksum only of a frame that it sees whole: so its last block must end just before it.
        head = 0
        while not head & 1:
            head = _u32(frame, start)[0]
            start += 3 + (1 if head & 6 == _RLE else head >> 3 & _BLOCK_NBYTES)
    except struct.error as exc:
        check_header(frame, into.nbytes)
        raise CorruptFrame(f"expected a zstd frame of {into.nbytes} raw bytes: its blocks pass its end") from exc
    if start + 4 != nbytes:
        raise CorruptFrame(
            f"expected a zstd frame of {counted(nbytes, 'byte')}, its blocks end at {start}: bytes stand unused"
        )
    try:
        found = _contexts.stream(frame, read_across_frames=False).readinto(into)
    except zstandard.ZstdError as exc:
        raise CorruptFrame(f"expected a zstd frame of {into.nbytes} raw bytes: {exc}") from exc
    if found != into.nbytes:
        raise CorruptFrame(f"expected a zstd frame of {into.nbytes} raw bytes, found {found}")


def checksum(frame: Buffer) -> int:
    """Return a frame's own checksum, the low 32 bits of the XXH64 of its raw bytes: its last 4 bytes.

    Raises:
        CorruptFrame: It has fewer than 4 bytes.
    """
    view = memoryview(frame)
    if view.nbytes < 4:
        raise CorruptFrame(f"expected a zstd frame, found {counted(view.nbytes, 'byte')}")
    found: int = _u32(view, view.nbytes - 4)[0]
    return found


def check_header(frame: Buffer, raw_size: int) -> int:
    """Check all that a frame's header says against this format (RFC 8878, 3.1.1.1), and return its length.

    Args:
        frame: At least the header's bytes.
        raw_size: The size that it must announce, at least 1.

    Returns:
        The header's bytes.

    Raises:
        DecompressionLimit: It announces another size, none, or a window over 128 MiB.
        CorruptFrame: It is cut, has no checksum, sets reserved bits, or needs a dictionary.
        NotAShard: It is no zstd frame.
    """
    head = bytes(memoryview(frame)[:18])
    magic = int.from_bytes(head[:4], "little")
    if magic >> 4 == SKIPPABLE:
        raise CorruptFrame("expected a block's zstd frame, found a skippable frame")
    if magic != MAGIC:
        raise NotAShard(f"expected a zstd frame (28 b5 2f fd), found {head[:4].hex(' ')!r}: {head!r}")
    if len(head) < 6:
        raise CorruptFrame(f"expected a zstd frame, found {counted(len(head), 'byte')} of one")
    descriptor = head[4]
    if descriptor & _RESERVED or not descriptor & _CHECKSUM or descriptor & 3:
        wrong = "needs a dictionary" if descriptor & 3 else "has no checksum or sets reserved bits"
        raise CorruptFrame(f"the frame {wrong}: its header's descriptor is {descriptor:#04x}")
    return _check_sizes(head, raw_size)


def _check_sizes(head: bytes, raw_size: int) -> int:
    descriptor = head[4]
    single = bool(descriptor & _SINGLE)
    start = 5 if single else 6
    if not single:
        window = (1 << (10 + (head[5] >> 3))) * (8 + (head[5] & 7)) // 8
        if window > MAX_WINDOW:
            raise DecompressionLimit(
                f"the frame asks for a window of {window:,} bytes, over the limit of {MAX_WINDOW:,}"
            )
    width = (int(single), 2, 4, 8)[descriptor >> 6]
    if not width:
        raise DecompressionLimit(f"the frame does not say its raw size; the index names {raw_size}")
    if len(head) < start + width:
        raise CorruptFrame(f"expected a zstd frame, found {counted(len(head), 'byte')} of one")
    size = int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
    if size != raw_size or not size:
        raise DecompressionLimit(f"the frame announces {size} raw bytes, the index {raw_size}")
    return start + width


def zstd_version() -> str:
    """Return the version of the libzstd in use: bytes differ between versions."""
    return ".".join(map(str, zstandard.ZSTD_VERSION))
