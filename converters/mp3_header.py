"""Read what an MP3 file holds (ISO/IEC 11172-3 and 13818-3, layer III).

Its first frame may hold no sound and say how many frames and bytes follow (Xing, Info, VBRI), and how many samples the
encoder added. Otherwise the frames are walked to the end of the file.
"""

from __future__ import annotations

from typing import NamedTuple

from datafeed.converters.sound_facts import SoundFacts
from datafeed.sizes import counted

_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}  # by version: 1, 2, 2.5
_KBPS = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
_SEARCHED = 2**16  # for the first frame, behind whatever stands there
_TAGS = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"ID3", b"3DI")
_ENCODERS = (b"LAME", b"Lavc", b"Lavf", b"GOGO")


class _Frame(NamedTuple):
    version: int
    rate: int
    channels: int
    nbytes: int

    @property
    def samples(self) -> int:
        return 1152 if self.version == 3 else 576


def is_mp3(data: bytes, start: int) -> bool:
    """Whether frames of MP3 begin at or soon after a place."""
    return _first(data, start) is not None


def mp3_sound(data: bytes, start: int) -> SoundFacts:
    """Return what an MP3 file holds.

    Args:
        data: The whole file.
        start: Where its tags end.

    Raises:
        ValueError: It is truncated or damaged.
    """
    found = _first(data, start)
    assert found is not None
    at, frame = found
    head = _vbri(data[at : at + frame.nbytes]) or _xing(data[at : at + frame.nbytes], frame)
    if head is None:
        return SoundFacts("MP3", frame.rate, frame.channels, _walk(data, at, frame) * frame.samples)
    if head.nbytes > len(data) - at:
        raise ValueError(f"truncated MP3: expected {counted(head.nbytes, 'byte')} of sound, found {len(data) - at:,}")
    frames = head.frames if head.frames and head.nbytes else _walk(data, at + frame.nbytes, frame)
    if frames < head.frames:
        raise ValueError(f"truncated MP3: expected {counted(head.frames, 'frame')}, found {frames:,}")
    return SoundFacts("MP3", frame.rate, frame.channels, max(frames * frame.samples - head.added, 0))


def _first(data: bytes, start: int) -> tuple[int, _Frame] | None:
    """Return the first frame that another follows, or the end."""
    at, stop = start - 1, start + _SEARCHED
    while (at := data.find(b"\xff", at + 1, stop)) >= 0:
        frame = _frame(data, at)
        if frame is None:
            continue
        behind = at + frame.nbytes
        after = _frame(data, behind)
        if behind == len(data) or data.startswith(_TAGS, behind) or (after and _alike(frame, after)):
            return at, frame
    return None


def _frame(data: bytes, at: int) -> _Frame | None:
    """Return what a frame's header says; None where there is none."""
    head = data[at : at + 4]
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:  # sync, layer III
        return None
    version, kbps, rate = head[1] >> 3 & 3, head[2] >> 4, head[2] >> 2 & 3
    if version == 1 or kbps in {0, 15} or rate == 3:
        return None
    hertz = _RATES[version][rate]
    scale = 144_000 if version == 3 else 72_000
    nbytes = scale * _KBPS[version != 3][kbps] // hertz + (head[2] >> 1 & 1)
    return _Frame(version, hertz, 1 if head[3] >> 6 == 3 else 2, nbytes)


def _alike(one: _Frame, other: _Frame) -> bool:
    return (one.version, one.rate) == (other.version, other.rate)


class _Head(NamedTuple):
    frames: int
    nbytes: int
    added: int


def _xing(frame: bytes, about: _Frame) -> _Head | None:
    """Read what LAME and others write into the first frame."""
    side = (17 if about.channels == 1 else 32) if about.version == 3 else (9 if about.channels == 1 else 17)
    at = 4 + side + (0 if frame[4 + side : 8 + side] in {b"Xing", b"Info"} else 2)  # 2 of a checksum
    if frame[at : at + 4] not in {b"Xing", b"Info"} or len(frame) < at + 8:
        return None
    flags = frame[at + 7]
    at += 8
    numbers = []
    for bit in (1, 2):
        numbers.append(int.from_bytes(frame[at : at + 4], "big") if flags & bit else 0)
        at += 4 if flags & bit else 0
    at += (100 if flags & 4 else 0) + (4 if flags & 8 else 0)
    added = int.from_bytes(frame[at + 21 : at + 24], "big") if frame.startswith(_ENCODERS, at) else 0
    return _Head(numbers[0], numbers[1], (added >> 12) + (added & 0xFFF))


def _vbri(frame: bytes) -> _Head | None:
    """Read what Fraunhofer's encoder writes into the first frame."""
    if frame[36:40] != b"VBRI" or len(frame) < 54:
        return None
    return _Head(int.from_bytes(frame[50:54], "big"), int.from_bytes(frame[46:50], "big"), 0)


def _walk(data: bytes, at: int, first: _Frame) -> int:
    """Return how many frames follow, up to tags or zeros at the end."""
    count = 0
    while at < len(data):
        frame = _frame(data, at)
        if frame is None or not _alike(frame, first):
            if data.startswith(_TAGS, at) or not data[at:].strip(b"\0"):
                return count
            cut = len(data) - at < 4
            raise ValueError(f"{'truncated' if cut else 'damaged'} MP3: expected a frame at byte {at:,}")
        if frame.nbytes > len(data) - at:
            raise ValueError(f"truncated MP3: the frame at byte {at:,} ends after the file")
        at += frame.nbytes
        count += 1
    return count
