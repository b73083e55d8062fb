"""Read what a WAV file holds (Multimedia Programming Interface 1.0, "RIFF"; EBU Tech 3306 for RF64).

Programs that write to a pipe know no length: they leave 0, or one past 2 GB, in its place. The sound then goes to the
end of the file. What stands behind the sound is not looked at.
"""

from __future__ import annotations

from datafeed.converters.sound_facts import SoundFacts
from datafeed.sizes import counted

_PCM, _FLOAT, _ALAW, _MULAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_ENDLESS = 0x7FFFF000  # and above: what sox, ffmpeg and others write for a length that they do not know
_LONGEST_BODY = 40  # of the chunks that are looked at
_FMT_NBYTES = 16


def is_wav(data: bytes) -> bool:
    """Whether a file begins as a WAV or RF64 file does."""
    return data[:4] in {b"RIFF", b"RF64", b"BW64"} and data[8:12] == b"WAVE"


def wav_sound(data: bytes) -> SoundFacts:
    """Return what a WAV file holds.

    Raises:
        ValueError: It is truncated or damaged.
    """
    chunks: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], _u32(data[at + 4 : at + 8])
        at += 8
        if name == b"data":
            return _facts(chunks, _sound_nbytes(data, chunks, size, at))
        chunks.setdefault(name, data[at : at + min(size, _LONGEST_BODY)])
        at += size + (size & 1)
    raise ValueError(f"truncated WAV: no chunk b'data' within {counted(len(data), 'byte')}")


def _sound_nbytes(data: bytes, chunks: dict[bytes, bytes], size: int, at: int) -> tuple[int, bool]:
    """Return the bytes of the sound, and whether they are told by the end of the file alone."""
    long = chunks.get(b"ds64", b"")
    if size == 0xFFFFFFFF and len(long) >= 16:
        size = int.from_bytes(long[8:16], "little")
    elif size >= _ENDLESS or (not size and _u32(data[4:8]) + 8 <= at < len(data)):
        return len(data) - at, True
    if size > len(data) - at:
        raise ValueError(f"truncated WAV: expected {counted(size, 'byte')} of sound, found {len(data) - at:,}")
    return size, False


def _facts(chunks: dict[bytes, bytes], sound: tuple[int, bool]) -> SoundFacts:
    fmt = chunks.get(b"fmt ", b"")
    if len(fmt) < _FMT_NBYTES:
        raise ValueError("damaged WAV: expected a chunk b'fmt ' of 16 bytes or more before the sound, found none")
    code, channels, rate, frame = _u16(fmt[:2]), _u16(fmt[2:4]), _u32(fmt[4:8]), _u16(fmt[12:14])
    if code == _EXTENSIBLE and len(fmt) >= 26:
        code = _u16(fmt[24:26])
    if code not in {_PCM, _FLOAT, _ALAW, _MULAW}:
        return SoundFacts("WAV", rate, channels, _counted_frames(chunks, code))
    nbytes, endless = sound
    if not frame or (endless and nbytes % frame):
        reason = f"truncated WAV: {counted(nbytes, 'byte')} of sound" if frame else "damaged WAV: a chunk b'fmt '"
        raise ValueError(f"{reason} in frames of {counted(frame, 'byte')}")
    return SoundFacts("WAV", rate, channels, nbytes // frame)


def _counted_frames(chunks: dict[bytes, bytes], code: int) -> int:
    """Return the length that stands in the file, as it must for sound that is packed."""
    fact = chunks.get(b"fact", b"")
    if len(fact) < 4:
        raise ValueError(f"damaged WAV: sound packed with codec {code:#06x} and no chunk b'fact' that says its length")
    return _u32(fact[:4])


def _u16(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _u32(data: bytes) -> int:
    return int.from_bytes(data, "little")
