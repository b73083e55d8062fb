"""What every source of raw samples promises, as tests that each one subclasses."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from datafeed.columns import Column
from datafeed.converters.encode import read_chunks
from datafeed.converters.source import Addressed, Chunk, OnBad, Source, Unit
from datafeed.errors import BadItem, SourceNotFound
from datafeed.schema import Feature

Row = dict[str, object]


class SourceContract(ABC):
    """Subclass this with a source, a raw data set and a flaw in it; name the subclass `Test...`."""

    @abstractmethod
    def open(self, path: Path) -> Source:
        """Return the source of a path, which may be missing."""

    @abstractmethod
    def write(self, folder: Path) -> list[Row]:
        """Write three files or more below a folder that exists, one without samples where the format has such.

        Returns:
            The expected samples in order, as `rows_of` gives them.
        """

    @abstractmethod
    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Make one item of what `write` wrote bad.

        Returns:
            Patterns that the bad item's `where` and `reason` contain, then the samples that are left.
        """

    def test_reading_all_units_gives_every_row_in_order(self, tmp_path: Path) -> None:
        """No sample is lost, doubled, moved or changed."""
        expected = self.write(tmp_path)
        assert _read(self.open(tmp_path)) == list(map(repr, expected))

    def test_units_are_the_same_for_every_listing(self, tmp_path: Path) -> None:
        """Two instances list equal units with names of their own."""
        self.write(tmp_path)
        units = self.open(tmp_path).units()
        assert list(units) == list(self.open(tmp_path).units())
        assert len({unit.name for unit in units}) == len(units)
        assert all(unit.nbytes >= 0 for unit in units)

    def test_schema_is_the_same_whenever_it_is_asked(self, tmp_path: Path) -> None:
        """Before and after the samples are read, and from another instance."""
        self.write(tmp_path)
        source = self.open(tmp_path)
        before = source.schema().features
        _read(source)
        assert source.schema().features == self.open(tmp_path).schema().features == before

    def test_units_can_be_read_in_any_order_by_a_copy(self, tmp_path: Path) -> None:
        """A worker has a pickled copy that has listed nothing, and any unit."""
        expected = self.write(tmp_path)
        source = self.open(tmp_path)
        units = source.units()
        copy, units = pickle.loads(pickle.dumps((source, units)))  # noqa: S301  (its own)
        parts = [_read(copy, [unit]) for unit in reversed(units)]
        assert [row for part in reversed(parts) for row in part] == list(map(repr, expected))

    @pytest.mark.parametrize("step", [1, 3])
    def test_rows_are_read_by_number_where_they_can_be(self, tmp_path: Path, step: int) -> None:
        """All of them, or some, by a copy that has listed nothing; the tables hold the rows in order."""
        expected = self.write(tmp_path)
        source = self.open(tmp_path)
        tables = source.tables() if isinstance(source, Addressed) else None
        source.schema()
        copy, tables = pickle.loads(pickle.dumps((source, tables)))  # noqa: S301  (its own)
        start = 0
        for table in tables or ():
            numbers = np.arange(0, table.rows, step)
            chunks = list(copy.pick(table.unit, numbers, _refuse)) if table.rows else []
            got = [repr(row) for chunk in chunks for row in rows_of(copy.schema().features, chunk)]
            assert got == list(map(repr, expected[start : start + table.rows : step]))
            places = [chunk.where(row).rpartition(":")[2] for chunk in chunks for row in range(chunk.rows)]
            assert places == list(map(str, numbers))
            start += table.rows
        assert tables is None or start == len(expected)

    def test_a_source_in_use_can_be_pickled(self, tmp_path: Path) -> None:
        """What it keeps for itself travels, or is made anew."""
        expected = self.write(tmp_path)
        source = self.open(tmp_path)
        source.schema(), source.units(), _read(source)
        copy = pickle.loads(pickle.dumps(source))  # noqa: S301  (its own)
        assert copy.kind == source.kind
        assert copy.schema().features == source.schema().features
        assert _read(copy) == list(map(repr, expected))

    def test_columns_have_the_forms_of_their_features(self, tmp_path: Path) -> None:
        """The types, shapes and offsets are those that the encoder takes without a copy."""
        self.write(tmp_path)
        source = self.open(tmp_path)
        schema = source.schema()
        for chunk in read_chunks(source, source.units(), _refuse):
            assert chunk.rows > 0
            assert list(chunk.columns) == [feature.name for feature in schema]
            for feature in schema:
                check_form(feature, chunk.columns[feature.name], chunk.rows)
            assert all(chunk.where(row) for row in range(chunk.rows))

    def test_stamps_are_those_of_files_that_exist(self, tmp_path: Path) -> None:
        """Every unit names its files with size and time of change."""
        self.write(tmp_path)
        for unit in self.open(tmp_path).units():
            assert unit.files
            for stamp in unit.files:
                found = Path(stamp.path).stat()
                assert (stamp.nbytes, stamp.version) == (found.st_size, found.st_mtime_ns)

    def test_a_missing_path_raises_only_when_it_is_needed(self, tmp_path: Path) -> None:
        """The constructor opens nothing; the error names the nearest folder there is."""
        source = self.open(tmp_path / "gone" / "further")
        for need in (source.schema, source.units):
            with pytest.raises(SourceNotFound, match=r"gone.further") as caught:
                need()
            assert str(tmp_path) in str(caught.value)

    def test_a_bad_item_is_passed_over_with_where_and_reason(self, tmp_path: Path) -> None:
        """The other samples are kept, in order."""
        self.write(tmp_path)
        where, reason, expected = self.spoil(tmp_path)
        bad: list[BadItem] = []
        assert _read(self.open(tmp_path), None, bad.append) == list(map(repr, expected))
        assert len(bad) == 1
        assert where in bad[0].where
        assert reason in bad[0].reason

    def test_a_bad_item_stops_the_reading_where_asked(self, tmp_path: Path) -> None:
        """What `on_bad` raises comes through."""
        self.write(tmp_path)
        where, reason, _ = self.spoil(tmp_path)
        with pytest.raises(BadItem) as caught:
            _read(self.open(tmp_path))
        assert where in caught.value.where
        assert reason in caught.value.reason

    def test_options_are_json_values(self, tmp_path: Path) -> None:
        """They stand in the dataset's provenance and are the same each time; notes are lines for a person."""
        self.write(tmp_path)
        source = self.open(tmp_path)
        options = source.options()
        assert json.loads(json.dumps(options)) == options == self.open(tmp_path).options()
        assert all(note.isprintable() for note in source.notes())


def _refuse(item: BadItem) -> None:
    raise item


def _read(source: Source, units: Sequence[Unit] | None = None, on_bad: OnBad = _refuse) -> list[str]:
    """Read units, all by default, to one text per sample: equal for NaN, different for 1, 1.0 and True."""
    features = source.schema().features
    units = source.units() if units is None else units
    return [repr(row) for chunk in read_chunks(source, units, on_bad) for row in rows_of(features, chunk)]


def rows_of(features: Sequence[Feature], chunk: Chunk) -> list[Row]:
    """Return the samples of a chunk as Python values: None, numbers, lists of numbers, bytes, text, lists of those."""
    columns = [(feature, chunk.columns[feature.name]) for feature in features]
    return [{feature.name: _value(feature, column, row) for feature, column in columns} for row in range(chunk.rows)]


def _value(feature: Feature, column: Column, row: int) -> object:
    if column.present is not None and not column.present[row]:
        return None
    if feature.numeric:
        if column.offsets is None:
            return column.values[row].tolist()
        return column.values[column.offsets[row] : column.offsets[row + 1]].tolist()
    assert column.offsets is not None
    if column.inner is None:
        return _text(feature, column, column.offsets[row], column.offsets[row + 1])
    spans = range(column.offsets[row], column.offsets[row + 1])
    return [_text(feature, column, column.inner[i], column.inner[i + 1]) for i in spans]


def _text(feature: Feature, column: Column, start: int, end: int) -> bytes | str:
    value = column.values[start:end].tobytes()
    return value.decode() if feature.dtype == "utf8" else value


def check_form(feature: Feature, column: Column, rows: int) -> None:
    """Assert that a column is as `datafeed.columns.Column` says."""
    count = rows
    for offsets, wanted in ((column.offsets, _has_offsets(feature)), (column.inner, _has_inner(feature))):
        assert (offsets is not None) == wanted, feature.name
        if offsets is not None:
            assert offsets.dtype == np.int64
            assert offsets.shape == (count + 1,)
            assert offsets[0] == 0
            assert (np.diff(offsets) >= 0).all()
            count = int(offsets[-1])
    assert column.values.dtype == feature.numpy_dtype, feature.name
    assert column.values.flags.c_contiguous
    assert column.values.shape == (count, *(feature.row_shape if feature.numeric else ()))
    if column.present is not None:
        assert feature.optional
        assert column.present.dtype == np.bool_
        assert column.present.shape == (rows,)


def _has_offsets(feature: Feature) -> bool:
    return feature.ragged or not feature.numeric


def _has_inner(feature: Feature) -> bool:
    return not feature.numeric and bool(feature.shape)
