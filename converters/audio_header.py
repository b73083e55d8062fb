"""Read what a file of sound holds, checking as far as its format allows that it is whole. Nothing is decoded."""

from __future__ import annotations

from datafeed.converters.flac_header import flac_sound
from datafeed.converters.mp3_header import is_mp3, mp3_sound
from datafeed.converters.sound_facts import SoundFacts
from datafeed.converters.wav_header import is_wav, wav_sound
from datafeed.sizes import counted

MOST_RATE = 2**31 - 1
_TAG_NBYTES = 10


def audio_facts(data: bytes) -> SoundFacts:
    """Return the rate, channels and length of a WAV, FLAC or MP3 file, told by its content.

    Args:
        data: The whole file.

    Raises:
        ValueError: It is none of these, or it is truncated or damaged; the message says what was found.
    """
    start = _after_tags(data)
    if is_wav(data):
        facts = wav_sound(data)
    elif data[start : start + 4] == b"fLaC":
        facts = flac_sound(data, start)
    elif is_mp3(data, start):
        facts = mp3_sound(data, start)
    else:
        raise ValueError(_unknown(data))
    if not 0 < facts.rate <= MOST_RATE or not facts.channels:
        raise ValueError(
            f"damaged {facts.form}: expected a rate and channels, found {facts.rate:,} Hz and "
            f"{counted(facts.channels, 'channel')}"
        )
    return facts


def _after_tags(data: bytes) -> int:
    """Return where the ID3v2 tags end that stand before the sound, 0 where there is none (ID3v2.4, 3.1)."""
    at = 0
    while data[at : at + 3] == b"ID3" and max(data[at + 6 : at + _TAG_NBYTES], default=0x80) < 0x80:
        size = 0
        for byte in data[at + 6 : at + _TAG_NBYTES]:
            size = size << 7 | byte
        footer = _TAG_NBYTES if data[at + 5] & 0x10 else 0
        at += _TAG_NBYTES + size + footer
    return at


def _unknown(data: bytes) -> str:
    if not data:
        return "expected a WAV, FLAC or MP3 file, found an empty file"
    if not data.strip(b"\0"):
        return f"expected a WAV, FLAC or MP3 file, found {len(data):,} zero bytes"
    return f"expected a WAV, FLAC or MP3 file, found {counted(len(data), 'byte')}, beginning with {data[:12]!r}"
