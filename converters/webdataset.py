"""Read WebDataset tars: consecutive members of one key are a sample.

Features are `key` and one for each ending, in the order in which the first samples have them; `tar_fields` says what
they become. An ending that some of the first samples lack may be missing. Bad items: a sample with a member that is
damaged, is no file, has a name that leads out of the tar, or an ending that the first samples lack; one that lacks a
member, or whose key came before in its tar; a member without a key or an ending. After a damaged header the rest of the
tar is lost, which that item says. Folders are passed over.

A plain tar on a local disk is cut into units by its headers. A packed or remote one is a unit as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, cast

from datafeed.columns import Column, end_to_end
from datafeed.converters.chosen import chosen
from datafeed.converters.files import READ_AHEAD_NBYTES, open_failed
from datafeed.converters.names import FirstBad, base_name, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.converters.tar import read_members
from datafeed.converters.tar_fields import Field, Value
from datafeed.converters.tar_first import KEY, fields_of
from datafeed.converters.tar_header import DamagedError, Member
from datafeed.converters.tar_samples import Keys, Run, TarSample, group, runs, text_of
from datafeed.converters.unpack import PACKED_ERRORS, unpacked
from datafeed.errors import BadItem, EmptySource
from datafeed.packing import packing
from datafeed.schema import Schema, stored
from datafeed.sizes import counted
from datafeed.storage import local_path

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst")
UNIT_NBYTES = 16 * 10**6
CHUNK_NBYTES = 4 * 2**20
SAMPLES = 512
SAMPLE_NBYTES = 64 * 10**6
_SAMPLE_FILES = 32
_SAMPLE_READ_NBYTES = 2**20
_GROWTH = 2  # of packed ones: JPEG hardly shrinks, text to a quarter
_WHOLE = Run(0, None, None)
_NO_KEY = "expected a name such as 000017.jpg: a key, a dot and an ending"


@dataclass(frozen=True)
class WebDataset:
    """Offer the samples of WebDataset tars.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `columns` and `int64_lists` count here.
    """

    kind: ClassVar[str] = "webdataset"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name not in {"_listed", "_units"}}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        options: dict[str, object] = {"int64_lists": self.asked.int64_lists}
        return {**options, "columns": list(self.asked.columns)} if self.asked.columns else options

    def notes(self) -> Sequence[str]:
        """Say which files are passed over."""
        files, others = self._listed
        empty = sum(file.nbytes == 0 for file in files)
        notes = [f"{empty} of the files ha{'s' if empty == 1 else 've'} 0 bytes"] if empty else []
        return notes + ([f"{counted(others, 'file')} passed over, by name no tar"] if others else [])

    @cached_property
    def _listed(self) -> tuple[list[Stamp], int]:
        """Return the tars, and how many other files lie in the folders."""
        return chosen(self.asked.files, self.path, _tars)

    def schema(self) -> Schema:
        """Return the key, and what the first samples hold.

        Raises:
            SourceError: They hold what no feature can, or no tar can be read.
            EmptySource: There is no sample.
            ConfigError: A feature is asked for that they lack.
        """
        return self._schema

    @cached_property
    def _schema(self) -> Schema:
        key = [stored(KEY, "utf8")] if self._wants(KEY) else []
        return Schema([*key, *(found.feature for found in self._fields)])

    def _wants(self, name: str) -> bool:
        return not self.asked.columns or name in self.asked.columns

    @cached_property
    def _fields(self) -> tuple[Field, ...]:
        """Return what becomes of the members; a worker gets it with the source."""
        bad = FirstBad()
        found = fields_of(self._first_samples(bad), self.asked, shown(self.path))
        if found is None:
            raise EmptySource(f"{shown(self.path)}: no tar holds a sample{bad.ending}")
        return found

    def _first_samples(self, bad: FirstBad) -> Iterator[TarSample]:
        """Yield samples from the beginnings of tars, one of each at least."""
        files = [file for file in self._listed[0] if file.nbytes]
        looked_at = files[:: -(-len(files) // _SAMPLE_FILES)] if files else []
        for file in looked_at:
            rows = nbytes = 0
            for sample in self._samples(Unit(file.path, 0, (file,)), bad, _SAMPLE_READ_NBYTES):
                if sample.flaw or sample.cut:
                    continue
                yield sample
                rows += len(looked_at)
                nbytes += sample.nbytes * len(looked_at)
                if rows >= SAMPLES or nbytes >= SAMPLE_NBYTES:
                    break

    def units(self) -> Sequence[Unit]:
        """List runs of samples of plain local tars, and other tars whole.

        Raises:
            SourceError: A file cannot be read.
            EmptySource: There is no tar with a byte.
        """
        return self._units

    @cached_property
    def _units(self) -> list[Unit]:
        units = [unit for file in self._listed[0] if file.nbytes for unit in self._cut(file)]
        if not units:
            raise EmptySource(f"{shown(self.path)}: no file with a byte ends in {', '.join(SUFFIXES)}")
        return units

    def _cut(self, file: Stamp) -> Iterator[Unit]:
        """Yield the units of a tar; a unit's detail is what `runs` yields, None for the tar as a whole."""
        if local_path(file.path) is None:
            packed = not base_name(file.path).lower().endswith(".tar")
            yield Unit(file.path, file.nbytes * (_GROWTH if packed else 1), (file,))
            return
        try:
            with self.asked.files.open(file.path) as tar:
                packed = packing(tar.read(4)) in {"gzip", "zstd"}
                cuts = [] if packed else list(runs(tar, file.nbytes, UNIT_NBYTES))
        except OSError as exc:
            raise open_failed(file.path, exc) from exc
        if packed:
            yield Unit(file.path, file.nbytes * _GROWTH, (file,))
        for run in cuts:
            start, end, _ = run
            yield Unit(f"{file.path}#{start}", (file.nbytes if end is None else end) - start, (file,), run)

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: Whatever `on_bad` raises.
        """
        path = unit.files[0].path
        keys: list[bytes] = []
        rows: list[list[Value | None]] = []
        nbytes = 0
        for sample in self._samples(unit, on_bad):
            try:
                row = self._row(sample)
            except ValueError as exc:
                on_bad(BadItem(_where(path, sample.key), str(exc), sample.raw))
                continue
            keys.append(sample.key)
            rows.append(row)
            nbytes += sample.nbytes
            if nbytes >= CHUNK_NBYTES:
                yield self._chunk(path, keys, rows)
                keys, rows, nbytes = [], [], 0
        if rows:
            yield self._chunk(path, keys, rows)

    def _row(self, sample: TarSample) -> list[Value | None]:
        """Return the value of each field, None where it is missing.

        Raises:
            ValueError: It is no sample.
        """
        if sample.flaw:
            raise ValueError(sample.flaw)
        row: list[Value | None] = []
        for found in self._fields:
            feature = found.feature
            data = sample.parts.get(feature.name)
            if data is None:
                if not feature.optional:
                    raise ValueError(f"missing member .{shown(feature.name)}, which the first samples have")
                row.append(None)
                continue
            try:
                row.append(found.value(data))
            except ValueError as exc:
                raise ValueError(f"member .{shown(feature.name)}: {exc}") from exc
        if not self.asked.columns and len(sample.parts) > len(row) - row.count(None):
            known = {found.feature.name for found in self._fields}
            others = [shown(ending) for ending in sample.parts if ending not in known]
            raise ValueError(f"it has a member .{others[0]}, which the first samples lack")
        return row

    def _chunk(self, path: str, keys: list[bytes], rows: list[list[Value | None]]) -> Chunk:
        columns = {}
        if self._wants(KEY):
            columns[KEY] = Column(*end_to_end([key.decode("utf-8", "backslashreplace").encode() for key in keys]))
        for found, values in zip(self._fields, zip(*rows, strict=True), strict=True):
            columns[found.feature.name] = found.column(values)
        return Chunk(columns, len(rows), where=lambda row: _where(path, keys[row]))

    def _samples(self, unit: Unit, on_bad: OnBad, read_ahead: int = READ_AHEAD_NBYTES) -> Iterator[TarSample]:
        """Yield the samples of a unit, those with a flaw too."""
        path = unit.files[0].path
        start, end, again = cast("Run", unit.detail or _WHOLE)
        came_before = Keys() if again is None else frozenset(again)

        def stray(member: Member, data: bytes) -> None:
            on_bad(BadItem(f"{shown(path)}: member {text_of(member.name)}", member.flaw or _NO_KEY, data))

        try:
            with self.asked.files.open(path, read_ahead=read_ahead) as file, unpacked(file) as tar:
                if start:
                    tar.seek(start)
                yield from group(read_members(tar, start, end), came_before, stray)
        except DamagedError as exc:
            on_bad(BadItem(f"{shown(path)}: byte {exc.at}", f"the rest of it cannot be read: {exc.reason}"))
        except PACKED_ERRORS as exc:
            on_bad(BadItem(shown(path), f"it cannot be read: {exc}"))


def _tars(found: Sequence[Stamp]) -> list[Stamp]:
    return [file for file in found if base_name(file.path).lower().endswith(SUFFIXES)]


def _where(path: str, key: bytes) -> str:
    return f"{shown(path)}: {text_of(key)}"
