"""Read a folder of files of sound.

Folders of the first level that hold such files at any depth are classes, as those of images are. The files are kept as
they are: WAV, FLAC or MP3, told by their content, whatever their names. As telling them apart beforehand would mean to
open every file, the schema says "audio" and not "audio/flac". Nothing is decoded: headers are read, and as far as a
format allows it is checked that a file is whole.

Files with a label are shuffled when they are listed, unless the options say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from datafeed.columns import Column, end_to_end
from datafeed.converters.audio_header import audio_facts
from datafeed.converters.class_listing import Listing, listed_by_class
from datafeed.converters.file_items import read_items
from datafeed.converters.file_units import labels_of, names_of
from datafeed.converters.names import escape, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.sound_facts import SoundFacts
from datafeed.converters.source import Chunk, OnBad, Unit, Where
from datafeed.schema import Schema, stored

SUFFIXES = (".wav", ".flac", ".mp3")


@dataclass(frozen=True)
class AudioFolder:
    """Offer the files of folders: `audio`, `label` where there are classes, `path`, `rate`, `channels`, `duration`.

    Args:
        path: A folder; or a file or a pattern, for files without a class; a path or URL, or several.
        asked: How to read it; `shuffle` and `seed` count here.
    """

    kind: ClassVar[str] = "audio"
    path: Where
    asked: SourceOptions
    _kept: list[Listing] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.asked)

    def _listing(self) -> Listing:
        if not self._kept:
            self._kept.append(listed_by_class(self.asked.files, self.path, SUFFIXES, "audio file"))
        return self._kept[0]

    def schema(self) -> Schema:
        """Return what every sample holds."""
        classes = self._listing().classes
        return Schema(
            [
                stored("audio", "bytes", media="audio"),
                *([stored("label", "int64", classes=classes)] if classes else []),
                stored("path", "utf8"),
                stored("rate", "int32"),
                stored("channels", "int32"),
                stored("duration", "float64"),
            ]
        )

    def units(self) -> Sequence[Unit]:
        """List runs of files, about 8 MB each."""
        return self._listing().units("audio files", self.asked)

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read the files of a unit as one chunk.

        Raises:
            SourceChanged: A file has another size than it was listed with.
            BadItem: Whatever `on_bad` raises.
        """
        rows: list[int] = []
        sounds: list[bytes] = []
        known: list[SoundFacts] = []
        for row, data, facts in read_items(self.asked.files, unit.files, audio_facts, on_bad):
            rows.append(row)
            sounds.append(data)
            known.append(facts)
        if not rows:
            return
        names, labels = names_of(unit), labels_of(unit)
        columns = {"audio": Column(*end_to_end(sounds))}
        if labels is not None:
            columns["label"] = Column(labels[rows])
        columns["path"] = Column(*end_to_end([escape(names[row]).encode() for row in rows]))
        columns["rate"] = Column(np.array([facts.rate for facts in known], np.int32))
        columns["channels"] = Column(np.array([facts.channels for facts in known], np.int32))
        columns["duration"] = Column(np.array([facts.duration_s for facts in known], np.float64))
        yield Chunk(columns, len(rows), where=lambda row: shown(unit.files[rows[row]].path))

    def notes(self) -> Sequence[str]:
        """Say what was passed over or looks odd."""
        return self._listing().notes

    def options(self) -> dict[str, object]:
        """Return the order, and a digest of the files' names."""
        return self._listing().options(self.asked)
