"""Read TFRecord files, plain or packed with gzip or zlib, of tf.train.Example or tf.train.SequenceExample records.

The schema is drawn from the first records of the files, or given. A list that always has one value becomes a scalar,
one of constant length a fixed shape, others are ragged. A record that is no Example, lacks what is not optional, has a
feature in another form, one that the first records lack, or text that is no UTF-8, is a bad item; so is one with a
wrong CRC. After a wrong length the rest of the file is lost, which that item says. Large plain files are cut into units
of whole records; a packed one is read as one unit. Packing is told by the content, and so are SequenceExamples, by the
feature lists of the first records.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import ClassVar

from datafeed.converters.chosen import chosen
from datafeed.converters.examples import Places, Reader, sound_rows
from datafeed.converters.files import Files, open_failed
from datafeed.converters.listing import refuse_zstd
from datafeed.converters.names import FirstBad, base_name, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.record_pieces import (
    Piece,
    is_plain,
    pieces,
    plain,
    record_length,
    unpacked,
)
from datafeed.converters.sequence_examples import Lists, as_examples, draw_lists, examples_of, with_shapes
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.errors import BadItem, CorruptRecord, EmptySource, SchemaError, SourceError
from datafeed.framing import FRAMING_NBYTES, HEAD_NBYTES
from datafeed.infer import infer_schema
from datafeed.packing import packing
from datafeed.schema import Feature, Schema, stored
from datafeed.sizes import counted

NAMES = re.compile(r"[.-](tfrecords?|tfrec|record)(-\d+-of-\d+)?(\.gz|\.zlib)?$", re.IGNORECASE)
UNIT_NBYTES = 16 * 10**6
SAMPLE_RECORDS = 2000
SAMPLE_NBYTES = 64 * 2**20
_SAMPLE_FILES = 100
_GROWTH = 3  # about what gzip saves on records


@dataclass(frozen=True)
class TFRecords:
    """Offer the records of TFRecord files.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` counts here.
        given: What the records hold, where it is known; features that it does not name are then left out.
    """

    kind: ClassVar[str] = "tfrecord"
    path: Where
    asked: SourceOptions
    given: Schema | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name not in {"_listed", "_units"}}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        given = None if self.given is None else self.given.to_json()
        return {"int64_lists": self.asked.int64_lists, "schema": given}

    def notes(self) -> Sequence[str]:
        """Say which files are passed over."""
        files, others = self._listed
        empty = sum(file.nbytes == 0 for file in files)
        notes = [f"{empty} of the files ha{'s' if empty == 1 else 've'} 0 bytes"] if empty else []
        return notes + ([f"{counted(others, 'file')} passed over, by name no TFRecords"] if others else [])

    @cached_property
    def _listed(self) -> tuple[list[Stamp], int]:
        """Return the files, and how many others there are."""
        return chosen(self.asked.files, self.path, self._told)

    def _told(self, found: Sequence[Stamp]) -> list[Stamp]:
        """Return which files of a folder are TFRecords, by their names, or where none is named so by their content."""
        files = self.asked.files
        named = [file for file in found if NAMES.search(base_name(file.path))]
        return named or [file for file in found if is_plain(files.head(file.path, HEAD_NBYTES))]

    def units(self) -> Sequence[Unit]:
        """List files, the large plain ones in parts.

        Raises:
            SourceError: A file cannot be looked at.
            EmptySource: There is no file.
        """
        return self._units

    @cached_property
    def _units(self) -> list[Unit]:
        files, _ = self._listed
        try:
            units = [unit for file in files if file.nbytes for unit in _cut(self.asked.files, file)]
        except OSError as exc:
            raise open_failed(shown(self.path), exc) from exc
        if not units:
            raise EmptySource(f"{shown(self.path)}: no TFRecord file holds a record")
        return units

    def schema(self) -> Schema:
        """Return the features, sorted by name where they are drawn from the records.

        Raises:
            SourceError: No record is a tf.train.Example.
            EmptySource: There is no record.
        """
        lists = self.asked.int64_lists
        return self.given or Schema([_stored(feature, int64_lists=lists) for feature in self._drawn[0]])

    @cached_property
    def _drawn(self) -> tuple[tuple[Feature, ...], Lists]:
        """Return the features as the records hold them, and the feature lists; a worker gets them with the source."""
        if self.given is not None:
            return self.given.features, {}
        begins = [unit for unit in self.units() if _span(unit)[0] == 0][:_SAMPLE_FILES]
        bad = FirstBad()
        records = _first_records(self.asked.files, begins, bad)
        if not records:
            raise EmptySource(
                f"{shown(self.path)}: no record of the first {counted(len(begins), 'file')} can be read{bad.ending}"
            )
        lists = draw_lists(records, self.asked.columns, shown(self.path))
        if lists:
            records = examples_of(records, lists)
        return with_shapes(_infer(records, shown(self.path)), lists), lists

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, some MB at a time.

        Raises:
            BadItem: Whatever `on_bad` raises.
        """
        features, lists = self._drawn
        reader = Reader(features, check_names=self.given is None)
        for piece in _pieces(self.asked.files, unit, on_bad):
            places = Places(shown(unit.files[0].path), piece)
            sound = sound_rows(places, on_bad)
            if lists:
                places, sound = as_examples(places, sound, lists, on_bad)
            for columns, rows in reader.runs(places, sound, on_bad):
                yield Chunk(columns, len(rows), where=places.among(rows))


def _cut(files: Files, file: Stamp) -> Iterator[Unit]:
    """Yield the units of a file; a part's detail is (its first byte, its end, its first record's number)."""
    with files.open(file.path, read_ahead=2**16) as data:
        head = data.read(HEAD_NBYTES)
        if not is_plain(head) and packing(head):
            refuse_zstd(file.path, head)
            yield Unit(file.path, file.nbytes * _GROWTH, (file,))
            return
        start = first = number = position = 0
        while file.nbytes - start > 2 * UNIT_NBYTES:
            data.seek(position)
            length, reason = record_length(data.read(HEAD_NBYTES))
            if reason:  # reading will come to it
                break
            position += length + FRAMING_NBYTES
            number += 1
            if position - start >= UNIT_NBYTES and position < file.nbytes:
                yield Unit(f"{file.path}#{first}", position - start, (file,), (start, position, first))
                start, first = position, number
        yield Unit(f"{file.path}#{first}", file.nbytes - start, (file,), (start, file.nbytes, first))


def _span(unit: Unit) -> tuple[int, int, int]:
    """Return a part's first byte, its end, its first record's number; zeros for a packed file."""
    if unit.detail is None:
        return 0, 0, 0
    assert isinstance(unit.detail, tuple)
    start, end, first = unit.detail
    return start, end, first


def _pieces(files: Files, unit: Unit, on_bad: OnBad) -> Iterator[Piece]:
    path = unit.files[0].path
    start, end, first = _span(unit)
    try:
        with files.open(path) as file:
            file.seek(start)
            chunks = plain(file, end - start) if end else unpacked(file)
            yield from pieces(chunks, first, start)
    except CorruptRecord as exc:
        on_bad(BadItem(f"{shown(path)}: record {exc.record}, byte {exc.offset}", exc.reason))
    except (OSError, EOFError, zlib.error) as exc:
        on_bad(BadItem(shown(path), f"the rest of it cannot be read: {exc}"))


def _records(files: Files, unit: Unit, on_bad: OnBad) -> Iterator[memoryview]:
    """Yield the records of a unit that are sound; those of a wrong checksum are left for `read` to report."""
    for piece in _pieces(files, unit, on_bad):
        yield from (piece.payload(row) for row in range(len(piece)) if piece.is_sound(row))


def _first_records(files: Files, units: Sequence[Unit], on_bad: OnBad) -> list[memoryview]:
    """Return copies of the first records of units, about equally many of each."""
    share = -(-SAMPLE_RECORDS // len(units))
    records: list[memoryview] = []
    left = SAMPLE_NBYTES
    for unit in units:
        for record in islice(_records(files, unit, on_bad), share):
            records.append(memoryview(bytes(record)))
            left -= len(record)
            if left <= 0:
                return records
    return records


def _infer(records: list[memoryview], where: str) -> tuple[Feature, ...]:
    found, wrong = None, None
    while found is None and records:
        try:
            found = infer_schema(records)
        except SchemaError as exc:
            if exc.row < 0:
                raise SourceError(f"{where}: {exc}") from exc
            # It may be one of many, and all are looked at once before the next round.
            good = [record for record in records if _is_example(record)]
            records = good if len(good) < len(records) else records[: exc.row] + records[exc.row + 1 :]
            wrong = exc
    if found is None or not len(found):
        raise SourceError(f"{where}: expected tf.train.Example records with features, found none: {wrong}") from wrong
    return tuple(replace(feature, shape=(None,)) if feature.shape == (0,) else feature for feature in found)


def _is_example(record: memoryview) -> bool:
    try:
        infer_schema([record])
    except SchemaError:
        return False
    return True


def _stored(feature: Feature, *, int64_lists: bool) -> Feature:
    """Return the form in which a feature is written; columns are the same for both."""
    return stored(
        feature.name,
        feature.dtype,
        feature.shape,
        media=feature.media,
        optional=feature.optional,
        int64_lists=int64_lists,
    )
