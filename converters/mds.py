"""Read data sets of MosaicML Streaming: an index.json and the MDS shards that it names.

A column is a feature: numbers keep their type, `str_int` is an int64 and `str_float` a float64, `str_decimal` and
`json` are text. Arrays that say their shape themselves get that of the first samples, ragged in the first dimension
where it differs there. Bytes that are images, as the first ones tell, get that as their media. Shards packed with zstd,
gz or bz2 are unpacked; their size is compared, and digests that Python's hashlib knows. A shard that is not as its
index says is a bad item; so is a sample whose place, sizes or values do not fit. Pickles are never unpickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import ClassVar

from datafeed.converters.item_chunks import chunk_of
from datafeed.converters.item_fields import Field, split, values_of
from datafeed.converters.item_table import Piece, Table, TableError
from datafeed.converters.mds_fields import field_of, fixed_nbytes
from datafeed.converters.mds_index import Shard, shards_of
from datafeed.converters.names import FirstBad, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.shard_index import indexes
from datafeed.converters.source import Chunk, OnBad, Unit, Where
from datafeed.converters.unpack import PACKED_ERRORS
from datafeed.converters.whole_file import Facts, beginning, opened
from datafeed.errors import BadItem, EmptySource, SchemaError, SourceError
from datafeed.schema import Schema

UNIT_NBYTES = 16 * 10**6
_READ_NBYTES = 2**18  # of a remote file's first samples
_SNIFFED_ROWS = 1000
_SNIFFED_SHARDS = 16  # raw ones, whose first samples are read alone


@dataclass(frozen=True)
class Mds:
    """Offer the samples of MDS shards, in the order of the index.

    Args:
        path: A folder with an index.json, one whose folders have them, or an index.json; a path or URL; or several.
        asked: How it is read.
    """

    kind: ClassVar[str] = "mds"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_shards"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output: nothing does."""
        return {}

    def notes(self) -> Sequence[str]:
        """Say which digests were not compared."""
        unknown = sorted({name for shard in self._shards for name in shard.unknown})
        return [f"digests not compared, as Python's hashlib lacks them: {shown(tuple(unknown))}"] if unknown else []

    @cached_property
    def _shards(self) -> list[Shard]:
        return [shard for index in indexes(self.asked.files, self.path) for shard in shards_of(index)]

    def schema(self) -> Schema:
        """Return the columns; shapes and images are told by the first samples.

        Raises:
            SourceError: No sample can be read, the shards' columns differ, or one is refused.
            EmptySource: There is no sample.
        """
        return Schema([field.feature for field in self._fields])

    @cached_property
    def _columns(self) -> tuple[tuple[str, str], ...]:
        """Return the names and encodings of the columns, which all shards share; a worker gets them with the source."""
        if not self._shards:
            raise EmptySource(f"{shown(self.path)}: its index names no shard")
        first = self._shards[0]
        for shard in self._shards:
            if shard.columns != first.columns:
                raise SourceError(
                    f"the shards' columns differ: {first.where} has {dict(first.columns)}, {shard.where} "
                    f"has {dict(shard.columns)}: convert them apart"
                )
        return first.columns

    @property
    def _fixed(self) -> list[int | None]:
        try:
            return [fixed_nbytes(name, encoding) for name, encoding in self._columns]
        except SchemaError as exc:
            raise SourceError(f"{shown(self.path)}: {exc}") from exc

    @cached_property
    def _fields(self) -> list[Field]:
        """Return what reads the columns; a worker gets it with the source."""
        bad = FirstBad()
        rows = self._first_rows(bad)
        if not rows:
            raise SourceError(f"{shown(self.path)}: no sample can be read{bad.ending}")
        columns = zip(self._columns, zip(*rows, strict=True), strict=True)
        try:
            fields = [field_of(name, encoding, values_of(values)) for (name, encoding), values in columns]
            Schema([field.feature for field in fields])
        except SchemaError as exc:
            raise SourceError(f"{shown(self.path)}: {exc}") from exc
        return fields

    def _first_rows(self, on_bad: OnBad) -> list[tuple[bytes, ...]]:
        """Return the fields of the first samples: of several shards, or of one where they must be unpacked."""
        fixed = self._fixed
        units = self.units()
        for unit in units:
            if isinstance(unit.detail, str):
                on_bad(BadItem(unit.name, unit.detail))
        begins = [unit for unit in units if isinstance(unit.detail, tuple) and unit.detail[0] == 0]
        begins = begins[:_SNIFFED_SHARDS]
        rows: list[tuple[bytes, ...]] = []
        for unit in begins:
            try:
                for piece in _first_piece(self.asked, unit, -(-_SNIFFED_ROWS // len(begins))):
                    values, broken = split(piece.data, piece.offsets, fixed)
                    found = zip(*(column.each() for column in values), strict=True)
                    rows += [row for number, row in enumerate(found) if number not in broken]
            except (TableError, *PACKED_ERRORS) as exc:
                on_bad(BadItem(shown(unit.files[0].path), str(exc)))
            if rows and _part(unit)[3].packed:
                break
        return rows

    def units(self) -> Sequence[Unit]:
        """List shards, raw ones without digests in parts.

        Raises:
            SourceError: There is no index, or it is not as it should be.
            EmptySource: There is no sample.
        """
        self._fixed  # noqa: B018  (a column that is refused is refused before anything is read)
        units = [unit for shard in self._shards for unit in _cut(shard)]
        if not units:
            raise EmptySource(f"{shown(self.path)}: its index names no sample")
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: The shard cannot be read; or whatever `on_bad` raises.
        """
        path = shown(unit.files[0].path)
        if isinstance(unit.detail, str):
            raise BadItem(unit.name, unit.detail)
        fields, fixed = self._fields, self._fixed

        def where(item: int) -> str:
            return f"{path}: sample {item}"

        start, end, items, facts = _part(unit)
        try:
            with opened(self.asked.files, unit.files[0], facts) as file:
                table = Table(file, facts.nbytes, items)
                for piece in table.pieces(start, end, lambda item, reason: on_bad(BadItem(where(item), reason))):
                    made = chunk_of(fields, split(piece.data, piece.offsets, fixed), piece, where, on_bad)
                    if made is not None:
                        yield made
        except (TableError, *PACKED_ERRORS) as exc:
            raise BadItem(path, f"samples {start} to {end} cannot be read: {exc}") from exc


def _cut(shard: Shard) -> Iterator[Unit]:
    """Yield the units of a shard; a unit's detail is as `_part` says, or why the shard cannot be read."""
    path = shard.file.path
    if shard.fault:
        yield Unit(shard.where, shard.facts.nbytes, (shard.file,), shard.fault)
        return
    parts = 1 if shard.facts.whole else max(shard.facts.nbytes // UNIT_NBYTES, 1)
    rows = -(-shard.items // parts)
    for start in range(0, shard.items, max(rows, 1)):
        end = min(start + rows, shard.items)
        nbytes = shard.facts.nbytes * (end - start) // shard.items
        yield Unit(f"{path}#{start}", nbytes, (shard.file,), (start, end, shard.items, shard.facts))


def _part(unit: Unit) -> tuple[int, int, int, Facts]:
    """Return the first sample of a unit, the one behind its last, the samples of its shard, what its file is."""
    assert isinstance(unit.detail, tuple)
    start, end, items, facts = unit.detail
    return start, end, items, facts


def _first_piece(asked: SourceOptions, unit: Unit, most: int) -> Iterator[Piece]:
    """Yield the first samples of a shard, some MB at most; no digest is compared, no more than that unpacked."""
    _, end, items, facts = _part(unit)
    with asked.files.open(unit.files[0].path, read_ahead=_READ_NBYTES) as file, beginning(file, facts.packed) as plain:
        table = Table(plain, facts.nbytes, items)
        yield from islice(table.pieces(0, min(most, end), lambda _item, _reason: None), 1)
