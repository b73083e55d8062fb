"""Test reading what files of sound hold."""

from __future__ import annotations

import io
import re
import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from datafeed.converters.audio_header import audio_facts

KINDS = re.compile("PCM|FLOAT|DOUBLE|ULAW|ALAW|MPEG_LAYER_III$")
LENGTHS = [(44100, 2, 44100), (22050, 1, 30000), (8000, 1, 8001), (48000, 1, 1000), (16000, 2, 16)]


def sound(form: str, rate: int = 8000, channels: int = 1, frames: int = 999, subtype: str | None = None) -> bytes:
    """Encode noise with libsndfile."""
    noise = np.random.Generator(np.random.PCG64(frames)).random((frames, channels)) * 0.2 - 0.1
    file = io.BytesIO()
    soundfile.write(file, noise, rate, format=form, subtype=subtype)
    return file.getvalue()


def chunk(name: bytes, body: bytes, size: int | None = None) -> bytes:
    """Encode a chunk of a RIFF file."""
    return name + (len(body) if size is None else size).to_bytes(4, "little") + body + bytes(len(body) % 2)


def wav(*chunks: bytes, size: int | None = None, form: bytes = b"RIFF") -> bytes:
    """Encode a WAV file of chunks."""
    body = b"WAVE" + b"".join(chunks)
    return form + (len(body) if size is None else size).to_bytes(4, "little") + body


def fmt(code: int = 1, channels: int = 2, rate: int = 8000, frame: int = 4) -> bytes:
    """Encode a chunk of the format."""
    parts = (code, 2), (channels, 2), (rate, 4), (rate * frame, 4), (frame, 2), (16, 2)
    return chunk(b"fmt ", b"".join(value.to_bytes(size, "little") for value, size in parts))


@pytest.mark.parametrize("form", ["WAV", "WAVEX", "RF64", "FLAC", "MP3"])
def test_facts_are_those_of_libsndfile(form: str) -> None:
    """For every encoding of numbers, and sounds shorter than a frame of the format."""
    kinds = [kind for kind in soundfile.available_subtypes(form) if KINDS.match(kind)]
    kinds = [kind for kind in kinds if form == "MP3" or not kind.startswith("MPEG")]
    assert kinds
    for kind in kinds:
        for rate, channels, frames in LENGTHS:
            data = sound(form, rate, channels, frames, kind)
            found = soundfile.info(io.BytesIO(data))
            assert audio_facts(data)[1:] == (found.samplerate, found.channels, found.frames) == (rate, channels, frames)


def test_a_file_of_the_wave_module_is_read() -> None:
    """Its own writer."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((2, 3, 11025, 0, "NONE", ""))
        out.writeframes(bytes(6 * 77))
    facts = audio_facts(file.getvalue())
    assert facts == ("WAV", 11025, 2, 77)
    assert facts.duration_s == 77 / 11025


def test_chunks_before_the_sound_are_passed_over() -> None:
    """One of an odd length has a byte of padding; what follows the sound does not count."""
    assert audio_facts(wav(chunk(b"LIST", b"odd"), fmt(), chunk(b"data", bytes(12)), b"junk")).frames == 3
    assert audio_facts(wav(fmt(), chunk(b"data", b""))).frames == 0


@pytest.mark.parametrize("size", [0, 0x7FFFF000, 0xFFFFFFFF])
def test_sound_of_no_known_length_goes_to_the_end(size: int) -> None:
    """As programs write it that write to a pipe; half a frame shows that it was cut."""
    head = wav(fmt(), chunk(b"data", b"", size), size=size)
    assert audio_facts(head + bytes(40)).frames == 10
    with pytest.raises(ValueError, match="truncated WAV: 41 bytes of sound in frames of 4"):
        audio_facts(head + bytes(41))


def test_sound_that_is_packed_needs_its_length() -> None:
    """It stands in a chunk of its own."""
    packed = fmt(code=0x11), chunk(b"data", bytes(50))
    assert audio_facts(wav(chunk(b"fact", (99).to_bytes(4, "little")), *packed)).frames == 99
    with pytest.raises(ValueError, match="codec 0x0011 and no chunk b'fact'"):
        audio_facts(wav(*packed))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (bytes(50), "50 zero bytes"),
        (b"OggS" + bytes(40), "expected a WAV, FLAC or MP3 file, found 44 bytes, beginning with b'OggS"),
        (wav(chunk(b"data", bytes(4))), "expected a chunk b'fmt ' of 16 bytes"),
        (wav(fmt()), "truncated WAV: no chunk b'data'"),
        (wav(fmt(frame=0), chunk(b"data", bytes(4))), "damaged WAV: a chunk b'fmt ' in frames of 0 bytes"),
        (
            wav(fmt(rate=0), chunk(b"data", bytes(4))),
            "damaged WAV: expected a rate and channels, found 0 Hz and 2 chan",
        ),
        (wav(fmt(channels=0), chunk(b"data", bytes(4))), "found 8,000 Hz and 0 channels"),
        (b"fLaC\x04" + bytes(40), "expected STREAMINFO first, found block 4 of 0 bytes"),
        (sound("FLAC") + b"junk", "truncated FLAC: it does not end with a whole frame"),
        (sound("FLAC")[:42], "truncated FLAC"),
    ],
)
def test_what_is_no_whole_file_of_sound_is_refused(data: bytes, reason: str) -> None:
    """The reason says what was found."""
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        audio_facts(data)


@pytest.mark.parametrize(
    "data", [sound("WAV"), sound("FLAC", frames=4500), sound("MP3", 48000, 1, 1000)], ids=["wav", "flac", "mp3"]
)
def test_f44_a_cut_is_found_at_every_length(data: bytes) -> None:
    """These formats say where the sound ends, or a checksum does: FLAC's of 16 bits may be right by chance."""
    assert audio_facts(data).frames
    for stop in range(len(data)):
        with pytest.raises(ValueError, match=r"truncated|expected"):
            audio_facts(data[:stop])


@given(st.sampled_from([sound("WAV", frames=9), sound("FLAC", frames=99), sound("MP3", 48000, 1, 999)]), st.data())
def test_damage_never_raises_anything_else(whole: bytes, data: st.DataObject) -> None:
    """Whatever the bytes, there are facts or a reason."""
    damaged = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, min(len(whole), 120) - 1), max_size=6)):
        damaged[at] = data.draw(st.integers(0, 255))
    try:
        facts = audio_facts(bytes(damaged))
    except ValueError:
        return
    assert facts.frames >= 0
    assert facts.rate > 0


def without_length(flac: bytes) -> bytes:
    """Leave the number of samples out of a FLAC file's head."""
    bits = int.from_bytes(flac[18:26], "big") >> 36 << 36
    return flac[:18] + bits.to_bytes(8, "big") + flac[26:]


def test_the_length_of_a_flac_file_is_told_by_its_last_frame() -> None:
    """Where its head does not say it; of many frames, with zeros or a tag behind the last."""
    assert audio_facts(without_length(sound("FLAC", frames=5000))).frames == 5000
    file = io.BytesIO()
    soundfile.write(file, np.zeros(2_000_000), 8000, format="FLAC")
    for end in (b"", bytes(5000), b"TAG" + bytes(125)):
        assert audio_facts(without_length(file.getvalue()) + end) == ("FLAC", 8000, 1, 2_000_000)


def test_a_checksum_that_ends_with_a_zero_is_right() -> None:
    """One of 256 FLAC files ends so."""
    files = (sound("FLAC", frames=frames) for frames in range(100, 5000))
    assert audio_facts(next(data for data in files if data[-1] == 0)).frames


def test_flac_frames_that_are_lost_at_the_end_are_missed() -> None:
    """A cut between two frames leaves whole ones, and fewer samples than the head says."""
    data = sound("FLAC", frames=5000)
    second = data.index(b"\xff\xf8", data.index(b"\xff\xf8") + 2)
    while not 0 < _frames(without_length(data[:second])) < 5000:
        second = data.index(b"\xff\xf8", second + 2)
    with pytest.raises(ValueError, match=r"truncated FLAC: expected 5,000 samples, found 4,096"):
        audio_facts(data[:second])


def _frames(data: bytes) -> int:
    try:
        return audio_facts(data).frames
    except ValueError:
        return 0


MP3 = sound("MP3", 44100, 2, 44100)
FIRST = MP3.index(b"\xff", 4)  # where the second frame begins, which holds sound


def test_mp3_frames_are_walked_where_nothing_counts_them() -> None:
    """Behind tags and junk, up to tags or zeros; a frame that is cut or damaged is told."""
    bare = MP3[FIRST:]
    tag = b"ID3\x04\0\x10\0\0\1\x02" + bytes(130) + b"3DI" + bytes(7)
    for data in (bare, tag + bare, tag + tag + b"junk" + bare, bare + bytes(99), bare + b"TAG" + bytes(125)):
        assert audio_facts(data) == ("MP3", 44100, 2, 40 * 1152)
    assert audio_facts(tag + MP3).frames == 44100
    with pytest.raises(ValueError, match=r"truncated MP3: the frame at byte [\d,]+ ends after the file"):
        audio_facts(bare[:-1])
    with pytest.raises(ValueError, match=r"damaged MP3: expected a frame at byte [\d,]+"):
        audio_facts(bare + b"junk" + bare)


@pytest.mark.parametrize("mode", ["CONSTANT", "AVERAGE", "VARIABLE"])
def test_mp3_of_any_bitrate_is_walked(mode: str) -> None:
    """Frames differ in length then."""
    file = io.BytesIO()
    tone = np.sin(np.arange(50_000) ** 1.5 / 500) * np.linspace(0, 0.9, 50_000)
    soundfile.write(file, tone, 22050, format="MP3", bitrate_mode=mode, compression_level=0.5)
    data = file.getvalue()
    assert audio_facts(data).frames == 50_000
    bare = data[data.index(b"\xff\xf3", 4) :]
    assert audio_facts(bare).frames == int.from_bytes(data[21:25], "big") * 576


def test_other_heads_of_mp3_are_read() -> None:
    """Fraunhofer's, one without a number of bytes, and one of more frames than there are."""
    first = bytearray(FIRST)
    first[:4] = MP3[:4]
    vbri = b"VBRI" + bytes(6) + len(MP3).to_bytes(4, "big") + (40).to_bytes(4, "big")
    assert audio_facts(bytes([*first[:36], *vbri, *first[36 + len(vbri) :]]) + MP3[FIRST:]).frames == 40 * 1152
    for count, frames in ((40, 40 * 1152), (41, None)):
        xing = b"Xing" + (1).to_bytes(4, "big") + count.to_bytes(4, "big")
        data = bytes([*first[:36], *xing, *first[36 + len(xing) :]]) + MP3[FIRST:]
        if frames is None:
            with pytest.raises(ValueError, match="truncated MP3: expected 41 frames, found 40"):
                audio_facts(data)
        else:
            assert audio_facts(data).frames == frames
