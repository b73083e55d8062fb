"""Read data sets of LitData: an index.json and the chunks that it names.

The leaves of an item are features: a key of a dict, or the number of one in a list or tuple, "a.b" below others; an
item that is one value is "value". Numbers, text, bytes and files stay what they are; arrays get the shape of the first
items, ragged in the first dimension where it differs there. Dicts of plain values, which LitData keeps as Arrow rows,
are read as such. Chunks of token ids are cut to blocks of `seq_len`, none across two chunks, as LitData's TokensLoader
cuts them; without it, an item is what was written as one. A chunk that is not as its index says is a bad item; so is an
item whose place, sizes or values do not fit. Pickles are never unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

from datafeed.converters.item_units import ItemFile, units_of
from datafeed.converters.litdata_blocks import Blocks
from datafeed.converters.litdata_fields import check, dtype_of
from datafeed.converters.litdata_index import Chunks, Config, chunks_of, unpacked_nbytes
from datafeed.converters.litdata_items import Items, items_of
from datafeed.converters.litdata_rows import Rows, has_rows, rows_of
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.shard_index import indexes
from datafeed.converters.source import OnBad, Unit, Where
from datafeed.errors import EmptySource, SchemaError, SourceError
from datafeed.schema import Schema, stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from datafeed.converters.source import Chunk


@dataclass(frozen=True)
class LitData:
    """Offer the items of LitData chunks, in the order of the index.

    Args:
        path: A folder with an index.json, one whose folders have them, or an index.json; a path or URL; or several.
        asked: How it is read; `seq_len`, `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "litdata"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_indexed"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"seq_len": self.asked.seq_len, "int64_lists": self.asked.int64_lists}

    @cached_property
    def _indexed(self) -> list[Chunks]:
        """Return what the indexes say, which all must say the same of what the chunks hold."""
        found = [(index, chunks_of(index)) for index in indexes(self.asked.files, self.path)]
        first, said = found[0]
        for index, chunks in found:
            if replace(chunks.config, types="") != replace(said.config, types=""):
                raise SourceError(
                    f"the chunks differ: {shown(first.file.path)} says {dict(said.config.columns)}, "
                    f"{shown(index.file.path)} says {dict(chunks.config.columns)}: convert them apart"
                )
            for name, form in () if self._by_rows(chunks) else chunks.config.columns:
                try:
                    check(name, form)
                except SchemaError as exc:
                    raise SourceError(f"{shown(index.file.path)}: {exc}") from exc
        return [chunks for _, chunks in found]

    @property
    def _config(self) -> Config:
        return self._indexed[0].config

    @property
    def _files(self) -> list[ItemFile]:
        return [one for chunks in self._indexed for one in chunks.found]

    def notes(self) -> Sequence[str]:
        """Say how many token ids are left out."""
        if not self._blocks:
            return []
        left = sum(ids % self._blocks.feature.row_items for chunks in self._indexed for ids in chunks.sizes)
        what = f"{left} token ids at the ends of chunks fill no sample, and are left out"
        return [what] if left else []

    def schema(self) -> Schema:
        """Return the leaves; shapes and images are told by the first items.

        Raises:
            SourceError: No item can be read, the chunks differ, or a format is refused.
            ConfigError: A column is asked for that is not there.
            EmptySource: There is no item.
        """
        try:
            return Schema(self._reader.features)
        except SchemaError as exc:
            raise SourceError(f"{shown(self.path)}: {exc}") from exc

    @cached_property
    def _reader(self) -> Items | Rows | Blocks:
        """Return what reads units; a worker gets it with the source."""
        units = self.units()
        if self._blocks:
            return self._blocks
        try:
            if self._by_rows(self._indexed[0]):
                return rows_of(self.asked, self._files, self._config.types)
            return items_of(self._config, self.asked, units)
        except SchemaError as exc:
            raise SourceError(f"{shown(self.path)}: {exc}") from exc

    @property
    def _blocks(self) -> Blocks | None:
        config, length = self._config, self.asked.seq_len
        if not config.tokens or length is None:
            return None
        dtype = dtype_of(*config.columns[0])
        return Blocks(stored(config.columns[0][0], dtype, (length,), int64_lists=self.asked.int64_lists))

    def _by_rows(self, chunks: Chunks) -> bool:
        """Whether the chunks keep Arrow rows: the first that is there tells."""
        if chunks.config.tokens or chunks.config.level:
            return False
        first = next((one.file for one in chunks.found if not one.fault), None)
        try:
            return first is not None and has_rows(self.asked.files, first)
        except OSError as exc:
            raise SourceError(f"{shown(self.path)}: {exc}") from exc

    def units(self) -> Sequence[Unit]:
        """List chunks, those without packing in parts.

        Raises:
            SourceError: There is no index, or it is not as it should be.
            EmptySource: There is no item.
        """
        units = list(chain.from_iterable(map(self._cut, self._indexed)))
        if not units:
            raise EmptySource(f"{shown(self.path)}: its chunks hold no sample")
        return units

    def _cut(self, chunks: Chunks) -> Iterator[Unit]:
        whole = chunks.config.level == "batch" or self._by_rows(chunks)
        for found, ids in zip(chunks.found, chunks.sizes, strict=True):
            if self._blocks:
                yield from self._blocks.units(found, ids)
                continue
            for unit in units_of(found, whole=whole):
                yield replace(unit, nbytes=unpacked_nbytes(chunks.config, unit.nbytes))

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: The chunk cannot be read; or whatever `on_bad` raises.
        """
        yield from self._reader.read(self.asked, unit, on_bad)
