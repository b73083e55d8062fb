"""Read data sets of MosaicML Streaming: an index.json and the MDS shards that it names.

A column is a feature: numbers keep their type, `str_int` is an int64 and `str_float` a float64, `str_decimal` and
`json` are text. Arrays that say their shape themselves get that of the first samples, ragged in the first dimension
where it differs there. Bytes that are images, as the first ones tell, get that as their media. Shards packed with zstd,
gz or bz2 are unpacked; their size is compared, and digests that Python's hashlib knows. A shard that is not as its
index says is a bad item; so is a sample whose place, sizes or values do not fit. Pickles are never unpickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from datafeed.converters.item_chunks import chunk_of
from datafeed.converters.item_fields import Field, listed, split, values_of
from datafeed.converters.item_table import Piece, Readable, Table, TableError
from datafeed.converters.item_units import Part, first_rows, part_of, units_of
from datafeed.converters.mds_fields import field_of, fixed_nbytes
from datafeed.converters.mds_index import Shard, shards_of
from datafeed.converters.names import FirstBad, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.shard_index import indexes
from datafeed.converters.source import Chunk, OnBad, Unit, Where
from datafeed.converters.unpack import PACKED_ERRORS
from datafeed.converters.whole_file import opened
from datafeed.errors import BadItem, EmptySource, SchemaError, SourceError
from datafeed.schema import Schema


@dataclass(frozen=True)
class Mds:
    """Offer the samples of MDS shards, in the order of the index.

    Args:
        path: A folder with an index.json, one whose folders have them, or an index.json; a path or URL; or several.
        asked: How it is read; `int64_lists` counts here.
    """

    kind: ClassVar[str] = "mds"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_shards"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"int64_lists": self.asked.int64_lists}

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
                    f"the shards' columns differ: {first.found.where} has {dict(first.columns)}, {shard.found.where} "
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
        fixed = self._fixed
        rows = first_rows(self.asked, self.units(), _pieces, lambda piece: split(piece.data, piece.offsets, fixed), bad)
        if not rows:
            raise SourceError(f"{shown(self.path)}: no sample can be read{bad.ending}")
        columns = zip(self._columns, zip(*rows, strict=True), strict=True)
        try:
            fields = [field_of(name, encoding, values_of(values)) for (name, encoding), values in columns]
            Schema([field.feature for field in fields])
        except SchemaError as exc:
            raise SourceError(f"{shown(self.path)}: {exc}") from exc
        return [listed(field) for field in fields] if self.asked.int64_lists else fields

    def units(self) -> Sequence[Unit]:
        """List shards, raw ones without digests in parts.

        Raises:
            SourceError: There is no index, or it is not as it should be.
            EmptySource: There is no sample.
        """
        self._fixed  # noqa: B018  (a column that is refused is refused before anything is read)
        units = [unit for shard in self._shards for unit in units_of(shard.found)]
        if not units:
            raise EmptySource(f"{shown(self.path)}: its index names no sample")
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: The shard cannot be read; or whatever `on_bad` raises.
        """
        part = part_of(unit)
        path = shown(unit.files[0].path)
        fields, fixed = self._fields, self._fixed

        def where(item: int) -> str:
            return f"{path}: sample {item}"

        try:
            with opened(self.asked.files, unit.files[0], part.facts) as file:
                for piece in _pieces(file, part, lambda item, reason: on_bad(BadItem(where(item), reason))):
                    made = chunk_of(fields, split(piece.data, piece.offsets, fixed), piece, where, on_bad)
                    if made is not None:
                        yield made
        except (TableError, *PACKED_ERRORS) as exc:
            raise BadItem(path, f"samples {part.start} to {part.end} cannot be read: {exc}") from exc


def _pieces(file: Readable, part: Part, on_bad: Callable[[int, str], None]) -> Iterator[Piece]:
    return Table(file, part.facts.nbytes, part.items).pieces(part.start, part.end, on_bad)
