"""Read parquet files.

A struct becomes a feature per field, named "a.b". A struct of `bytes` and `path` that holds images, as Hugging Face
writes them, becomes the image under the struct's name, with "a.path" beside it. A column may be missing only where the
files allow nulls and their statistics do not rule them out; an empty list counts as null in them. Columns of nothing
but nulls are left out, and noted. A row with a null in a list, or with text that is no UTF-8, is a bad item; rows count
from 0 in their file. Files of 0 bytes or 0 rows are read as empty; a file without a readable footer is a bad item.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from datafeed.converters.arrow import column_of, feature_of, plain, unfit_rows
from datafeed.converters.files import Files
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.parquet_facts import Facts, Leaf, dig, facts_of
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.errors import BadItem, EmptySource, SchemaError, SourceError
from datafeed.infer import image_media
from datafeed.schema import Feature, Schema

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
CHUNK_NBYTES = 4 * 2**20
CHUNK_ROWS = 65_536
READ_NBYTES = 2**20  # of a remote file, beside the columns, which Arrow asks for as a whole
UNEVEN_ROWS = 4096  # where values differ in size, those to come are unknown: a dictionary's count once in the footer
_SNIFFED_ROWS = 16


@dataclass(frozen=True)
class Parquet:
    """Offer the rows of parquet files; a unit is a row group, read some MB at a time.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` counts here.
    """

    kind: ClassVar[str] = "parquet"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_files"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"int64_lists": self.asked.int64_lists}

    @cached_property
    def _files(self) -> list[tuple[Stamp, Facts | str]]:
        """List files with what their footers say, or why they cannot be read."""
        files = self.asked.files
        found = files.listed(self.path, SUFFIXES)
        if not found:
            raise EmptySource(f"{shown(self.path)}: no file ends in {', '.join(SUFFIXES)}")
        return [(file, facts_of(files, file.path)) for file in found if file.nbytes]

    @property
    def _good(self) -> list[tuple[Stamp, Facts]]:
        return [(file, facts) for file, facts in self._files if isinstance(facts, Facts)]

    def schema(self) -> Schema:
        """Return the columns, from the footers alone; images are told by the first rows.

        Raises:
            SourceError: No file can be read, the files' columns differ, or no feature holds one of them.
            EmptySource: There is no row.
        """
        return Schema([feature for feature, _ in self._columns])

    @cached_property
    def _columns(self) -> list[tuple[Feature, tuple[str, ...]]]:
        """Return the features, with the fields that lead to each; a worker gets them with the source."""
        units = self.units()
        if not self._good:
            raise SourceError(
                f"no parquet file can be read; the first is {units[0].files[0].path!r}: {units[0].detail}"
            )
        leaves = self._leaves()
        if not leaves:
            raise SourceError(f"{shown(self._good[0][0].path)}: its columns hold nothing but nulls")
        try:
            columns = [(self._feature(leaf), leaf.path) for leaf in leaves.values()]
            Schema([feature for feature, _ in columns])
        except SchemaError as exc:
            raise SourceError(f"{shown(self._good[0][0].path)}: {exc}") from exc
        return columns

    def _leaves(self) -> dict[str, Leaf]:
        """Return the columns that any file fills, which must agree."""
        leaves: dict[str, Leaf] = {}
        first, facts = self._good[0]
        for file, other in self._good:
            if set(other.leaves) != set(facts.leaves):
                odd = min(set(other.leaves) ^ set(facts.leaves))
                has, lacks = (file, first) if odd in other.leaves else (first, file)
                raise SourceError(
                    f"the files' columns differ: {shown(has.path)} has {odd!r}, {shown(lacks.path)} lacks it: convert "
                    "them apart, or write them alike"
                )
            for name, leaf in other.leaves.items():
                known = leaves.setdefault(name, leaf)
                if known.empty:
                    leaves[name] = leaf
                elif not leaf.empty and leaf.plain_kind != known.plain_kind:
                    raise SourceError(
                        f"the files' columns differ: {name!r} is {leaf.kind} in {shown(file.path)} and {known.kind} in "
                        "a file before it: cast one of them"
                    )
        return {name: leaf for name in facts.leaves if not (leaf := leaves[name]).empty}

    def _feature(self, leaf: Leaf) -> Feature:
        optional = any(facts.may_lack(leaf.name) for _, facts in self._good)
        made = feature_of(leaf.name, leaf.kind, optional=optional, int64_lists=self.asked.int64_lists)
        if made.dtype != "bytes" or made.shape or not self._is_image(leaf):
            return made
        name = leaf.name.removesuffix(".bytes") if leaf.of_image else leaf.name
        return Feature(name, "bytes", "bytes", media="image", optional=optional)

    def _is_image(self, leaf: Leaf) -> bool:
        """Whether the first values there are are all images."""
        for file, facts in self._good:
            if any(facts.rows) and not facts.leaves[leaf.name].empty:
                group = int(np.flatnonzero(facts.rows)[0])
                batch = next(_batches(self.asked.files, file.path, group, _SNIFFED_ROWS, [leaf.path[0]]))
                heads = [value[:16] for value in dig(batch, leaf.path).to_pylist() if value is not None]
                if heads:
                    return all(map(image_media, heads))
        return False

    def notes(self) -> Sequence[str]:
        """Say what was left out."""
        if not self._good:
            return []
        filled = self._leaves()
        lost = [name for name in self._good[0][1].leaves if name not in filled]
        notes = [f"left out, as it holds nothing but nulls: {shown(name)}" for name in lost]
        empty = len(self.asked.files.listed(self.path, SUFFIXES)) - len(self._files)
        if empty:
            notes.append(f"{empty} of the files ha{'s' if empty == 1 else 've'} 0 bytes")
        parts = {part for file, _ in self._files for part in _partitions(file.path)}
        if parts:
            notes.append(f"in the names of folders only, and not in the samples: {shown(', '.join(sorted(parts)))}")
        return notes

    def units(self) -> Sequence[Unit]:
        """List the row groups that hold rows.

        Raises:
            SourceError: A file cannot be looked at.
            EmptySource: There is no file, or no row.
        """
        units: list[Unit] = []
        for file, facts in self._files:
            if isinstance(facts, str):
                units.append(Unit(file.path, file.nbytes, (file,), facts))
            else:
                units += _groups(file, facts)
        if not units:
            raise EmptySource(f"{shown(self.path)}: no parquet file has a row")
        return units

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one row group.

        Raises:
            BadItem: The row group cannot be read; or whatever `on_bad` raises.
        """
        import pyarrow as pa

        path = unit.files[0].path
        if isinstance(unit.detail, str):
            raise BadItem(shown(path), unit.detail)
        assert isinstance(unit.detail, tuple)
        group, start, rows = unit.detail
        columns = self._columns
        try:
            for batch in _batches(self.asked.files, path, group, rows):
                for part in _parts(batch):
                    arrays = {feature: dig(part, way) for feature, way in columns}
                    yield from _chunk(arrays, (path, start), on_bad)
                    start += len(part)
        except (OSError, pa.ArrowException) as exc:
            raise BadItem(f"{shown(path)}:{start}", f"row group {group} cannot be read: {exc}") from exc


def _partitions(path: str) -> set[str]:
    """Return the names of columns that stand in the names of folders, as `year=2024`."""
    folders = os.path.dirname(path).split("/")
    return {folder.partition("=")[0] for folder in folders if "=" in folder}


def _groups(file: Stamp, facts: Facts) -> Iterator[Unit]:
    """Yield a unit per row group; its detail is (group, its first row, rows to read at a time)."""
    start = 0
    for group, (rows, nbytes) in enumerate(zip(facts.rows, facts.nbytes, strict=True)):
        if rows:
            most = CHUNK_ROWS if all(leaf.width for leaf in facts.leaves.values()) else UNEVEN_ROWS
            at_once = max(min(CHUNK_NBYTES * rows // nbytes, most), 1)
            yield Unit(f"{file.path}#{group}", nbytes, (file,), (group, start, at_once))
        start += rows


def _batches(
    files: Files, path: str, group: int, rows: int, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    from pyarrow.parquet import ParquetFile

    # Opened here, as Arrow takes no name that is not UTF-8.
    with files.open(path, read_ahead=READ_NBYTES) as raw, ParquetFile(raw, pre_buffer=True) as file:
        # A worker has one core; Arrow's own threads would only add to those of the other workers.
        yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = max(CHUNK_NBYTES * len(batch) // max(batch.nbytes, 1), 1)
    for start in range(0, len(batch), rows):
        yield batch.slice(start, rows)


def _chunk(arrays: dict[Feature, pa.Array], place: tuple[str, int], on_bad: OnBad) -> Iterator[Chunk]:
    path, start = place
    count = len(next(iter(arrays.values())))
    bad: dict[int, str] = {}
    for feature, array in arrays.items():
        bad = {**unfit_rows(feature, array), **bad}
    for row in sorted(bad):
        on_bad(BadItem(f"{shown(path)}:{start + row}", bad[row], _as_text(arrays, row)))
    rows = np.delete(np.arange(count), list(bad))
    if not len(rows):
        return
    if bad:
        arrays = {feature: array.take(rows) for feature, array in arrays.items()}
    columns = {feature.name: column_of(feature, array) for feature, array in arrays.items()}
    yield Chunk(columns, len(rows), where=lambda row: f"{shown(path)}:{start + int(rows[row])}")


def _as_text(arrays: dict[Feature, pa.Array], row: int) -> bytes:
    """Return a row for quarantine, as Python writes it."""
    ones = {feature: plain(array.slice(row, 1)) for feature, array in arrays.items()}
    texts = {feature for feature in ones if feature.dtype == "utf8" and not feature.shape}
    values = {feature.name: one.cast("binary") if feature in texts else one for feature, one in ones.items()}
    return repr({name: one.to_pylist()[0] for name, one in values.items()}).encode()
