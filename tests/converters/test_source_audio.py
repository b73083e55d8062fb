"""Test reading a folder of files of sound."""

from __future__ import annotations

import io
from pathlib import Path

import fsspec
import numpy as np
import pytest
import soundfile
from source_contract import Row, SourceContract, rows_of

import datafeed
from datafeed.converters.audio import AudioFolder
from datafeed.converters.detect import open_source
from datafeed.converters.options import SourceOptions
from datafeed.converters.settings import ConvertOptions
from datafeed.errors import BadItem

KEPT = SourceOptions(shuffle=False)


def encoded(form: str, rate: int = 8000, channels: int = 1, frames: int = 100) -> bytes:
    """Encode a short sound."""
    file = io.BytesIO()
    soundfile.write(file, np.linspace(-0.1, 0.1, frames * channels).reshape(frames, channels), rate, format=form)
    return file.getvalue()


def put(path: Path, data: bytes) -> bytes:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data


def read(source: AudioFolder) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    bad: list[BadItem] = []
    features = source.schema().features
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append)]
    return [row for chunk in chunks for row in rows_of(features, chunk)], bad


class TestAudioFolder(SourceContract):
    """Hold a labelled folder, in its own order, to what every source promises."""

    def open(self, path: Path) -> AudioFolder:
        """Keep the order of the names."""
        return AudioFolder(str(path), KEPT)

    def write(self, folder: Path) -> list[Row]:
        """Write two classes with sounds and one without."""
        (folder / "b").mkdir()
        self.rows: list[Row] = []
        for label, name, form, rate, channels in (
            (0, "a/1/3.flac", "FLAC", 16000, 2),
            (0, "a/2.WAV", "WAV", 8000, 1),
            (2, "c/0.mp3", "MP3", 44100, 1),
        ):
            data = put(folder / name, encoded(form, rate, channels, 4000))
            row = {"audio": data, "label": label, "path": name, "rate": rate, "channels": channels}
            self.rows.append({**row, "duration": 4000 / rate})
        return self.rows

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Cut off the end of a sound."""
        path = folder / "a" / "2.WAV"
        path.write_bytes(path.read_bytes()[:-1])
        return "a/2.WAV", "truncated WAV: expected 8,000 bytes of sound, found 7,999", [self.rows[0], self.rows[2]]


def test_content_decides_and_not_the_name(tmp_path: Path) -> None:
    """A FLAC file named .wav is one; what is neither is a bad item, and other files are passed over and counted."""
    put(tmp_path / "a.wav", encoded("FLAC"))
    put(tmp_path / "b.mp3", b"<html>no</html>")
    put(tmp_path / "notes.txt", b"")
    source = AudioFolder(str(tmp_path), KEPT)
    rows, bad = read(source)
    assert [row["path"] for row in rows] == ["a.wav"]
    assert [(item.where, item.data) for item in bad] == [(str(tmp_path / "b.mp3"), b"<html>no</html>")]
    assert source.notes() == ("1 file passed over that are no audio files: 1 x '.txt'",)
    assert [(one.name, one.dtype, one.media) for one in source.schema()] == [
        ("audio", "bytes", "audio"),
        ("path", "utf8", ""),
        ("rate", "int32", ""),
        ("channels", "int32", ""),
        ("duration", "float64", ""),
    ]


def test_labelled_sounds_are_shuffled_by_the_seed(tmp_path: Path) -> None:
    """Unless told not to; labels stay with their sounds."""
    for label in "abcd":
        for number in range(9):
            put(tmp_path / label / f"{number}.wav", encoded("WAV", frames=number + 1))
    kept = [row["path"] for row in read(AudioFolder(str(tmp_path), KEPT))[0]]
    assert kept == sorted(map(str, kept))
    rows, _ = read(AudioFolder(str(tmp_path), SourceOptions(seed=1)))
    assert [row["path"] for row in rows] != kept
    assert all("abcd"[int(str(row["label"]))] == str(row["path"])[0] for row in rows)


@pytest.mark.parametrize(("name", "form"), [("a.wav", "WAV"), ("a.FLAC", "FLAC"), ("a.mp3", "MP3"), ("bare", "FLAC")])
def test_names_and_content_tell_the_kind(tmp_path: Path, name: str, form: str) -> None:
    """A name in any case; a FLAC file by its first bytes."""
    put(tmp_path / name, encoded(form))
    assert open_source(str(tmp_path / name), None, KEPT).kind == "audio"


def test_sounds_behind_urls_are_read() -> None:
    """With their classes."""
    files = fsspec.filesystem("memory")
    data = encoded("FLAC")
    files.pipe("/sounds/dog/a.flac", data)
    source = AudioFolder("memory://sounds", KEPT)
    row = {"audio": data, "label": 0, "path": "dog/a.flac", "rate": 8000, "channels": 1, "duration": 0.0125}
    assert read(source) == ([row], [])
    assert source.schema()["label"].classes == ("dog",)
    files.rm("/sounds", recursive=True)


def test_sounds_are_loaded_as_the_bytes_they_are(tmp_path: Path) -> None:
    """From shards, in batches: a medium that the loader does not decode is plain bytes."""
    kept = [put(tmp_path / "in" / f"{number}.wav", encoded("WAV", frames=number + 1)) for number in range(6)]
    datafeed.convert(str(tmp_path / "in"), str(tmp_path / "out"), ConvertOptions(workers=1))
    batches = list(datafeed.Loader(str(tmp_path / "out"), batch_size=3))
    assert [data for batch in batches for data in batch["audio"]] == kept
    assert [rate for batch in batches for rate in batch["rate"].tolist()] == [8000] * 6
