"""Read files that hold columns and say at their ends, or in their headers, which ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from datafeed.converters.leaves import Leaf, dig
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Stamp, Unit, Where
from datafeed.converters.tables import Facts, Wanted, columns_of, notes_of
from datafeed.errors import EmptySource, SourceError
from datafeed.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_SNIFFED_ROWS = 16

F = TypeVar("F", bound=Facts)


@dataclass(frozen=True)
class TableFiles(ABC, Generic[F]):
    """Hold what sources of columnar files have in common.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    called: ClassVar[str]
    """What people call such a file."""
    suffixes: ClassVar[tuple[str, ...]]
    path: Where
    asked: SourceOptions

    @abstractmethod
    def _facts(self, file: Stamp) -> F | str:
        """Return what a file says of itself, or why it cannot be read."""

    @abstractmethod
    def _units(self, file: Stamp, facts: F) -> Iterable[Unit]:
        """Yield the units of a file that can be read."""

    @abstractmethod
    def _first(self, file: Stamp, facts: F, rows: int, leaf: Leaf) -> pa.RecordBatch | None:
        """Return one column of a file's first rows; None where it has none."""

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_files"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        options: dict[str, object] = {"int64_lists": self.asked.int64_lists}
        return {**options, "columns": list(self.asked.columns)} if self.asked.columns else options

    @cached_property
    def _files(self) -> list[tuple[Stamp, F | str]]:
        """List files with what they say of themselves, or why they cannot be read."""
        found = self.asked.files.some(self.path, self.suffixes)
        return [(file, self._facts(file)) for file in found if file.nbytes]

    @property
    def _good(self) -> list[tuple[Stamp, F]]:
        return [(file, facts) for file, facts in self._files if not isinstance(facts, str)]

    def schema(self) -> Schema:
        """Return the columns, from what the files say of themselves; images are told by the first rows.

        Raises:
            SourceError: No file can be read, the files' columns differ, or no feature holds one of them.
            ConfigError: A column is asked for that is not there.
            EmptySource: There is no row.
        """
        return Schema([column.feature for column in self._columns])

    @cached_property
    def _columns(self) -> list[Wanted]:
        """Return what becomes of the columns; a worker gets it with the source."""
        units = self.units()
        if not self._good:
            name, reason = shown(units[0].files[0].path), units[0].detail
            raise SourceError(f"no {self.called} file can be read; the first is {name}: {reason}")
        return columns_of(self._good, self.asked, self._heads)

    def _heads(self, leaf: Leaf) -> list[bytes]:
        """Return the first bytes of the first values that can be read; what cannot is told as a bad item later."""
        from pyarrow import ArrowException

        for file, facts in self._good:
            with suppress(OSError, ArrowException):
                batch = None if facts.leaves[leaf.name].empty else self._first(file, facts, _SNIFFED_ROWS, leaf)
                values = [] if batch is None else dig(batch, leaf.path).to_pylist()
                heads = [value[:16] for value in values if value is not None]
                if heads:
                    return heads
        return []

    def notes(self) -> Sequence[str]:
        """Say what was left out."""
        notes = list(notes_of(self._good, self.asked))
        empty = len(self.asked.files.listed(self.path, self.suffixes)) - len(self._files)
        if empty:
            notes.append(f"{empty} of the files ha{'s' if empty == 1 else 've'} 0 bytes")
        return notes

    def units(self) -> Sequence[Unit]:
        """List the units that hold rows; a file that cannot be read is one.

        Raises:
            SourceError: A file cannot be looked at.
            EmptySource: There is no file, or no row.
        """
        units: list[Unit] = []
        for file, facts in self._files:
            if isinstance(facts, str):
                units.append(Unit(file.path, file.nbytes, (file,), facts))
            else:
                units += self._units(file, facts)
        if not units:
            raise EmptySource(f"{shown(self.path)}: no {self.called} file has a row")
        return units
