"""Read comma- or tab-separated text with a header line.

The delimiter is a tab in .tsv files, elsewhere the most frequent of , ; | and tab in the header line. Types come from a
first pass over all rows: a column is int64 where every filled cell is an integer of 64 bits without leading zeros,
float64 where every filled cell is a number, and utf8 otherwise; nothing is rounded but decimal fractions. An empty cell
is missing in a column of numbers and an empty string in a column of text. A row with another number of cells than the
header, a broken quotation, or bytes that are no UTF-8 is a bad item. A file is read as one unit: a quoted cell may hold
line ends, so that no place to cut is certain.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TextIO

from datafeed.converters.files import Files
from datafeed.converters.names import FirstBad, base_name, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.rows import chunk_of
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.converters.unpack import PACKED_ERRORS, unpacked
from datafeed.errors import BadItem, ConfigError, EmptySource, SourceError
from datafeed.schema import Feature, Schema, stored
from datafeed.sizes import counted

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.zst", ".tsv.zst")

_CHUNK_ROWS = 4096
_SURE_DIGITS = 15  # that a float64 holds whatever they are
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_NUMBER = re.compile(
    r"[+-]?(([1-9][0-9]*|0)?\.[0-9]+|([1-9][0-9]*|0)\.?)([eE][+-]?[0-9]+)?|[+-]?(nan|inf|infinity)", re.IGNORECASE
)
_TRUE_FALSE = {"true": True, "false": False, "1": True, "0": False}
CELL_CHARS = 2**26  # a quotation that is never closed would else take the rest of the file into memory

Row = tuple[int, list[str]]


@dataclass(frozen=True)
class Csv:
    """Offer the rows of CSV files.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read.
    """

    kind: ClassVar[str] = "csv"
    path: Where
    asked: SourceOptions

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"types": dict(self.asked.types)}

    def notes(self) -> Sequence[str]:
        """Say nothing: what is passed over is a bad item."""
        return []

    def units(self) -> Sequence[Unit]:
        """List the files.

        Raises:
            SourceError: There is none, or one cannot be looked at.
        """
        files = self.asked.files.some(self.path, SUFFIXES)
        return [_unit(file) for file in files]

    def schema(self) -> Schema:
        """Return the columns, by a first pass over all rows.

        Raises:
            SourceError: The files' headers differ, or a name stands in one twice.
            EmptySource: There is no row.
            ConfigError: A type is given for a column that is not there.
        """
        return self._schema

    @cached_property
    def _schema(self) -> Schema:
        header: list[str] = []
        kinds: list[_Kind] = []
        rows = 0
        bad = FirstBad()
        for unit in self.units():
            with _opened(self.asked.files, unit.files[0].path) as table:
                if not header:
                    header, kinds = table.header, [_Kind() for _ in table.header]
                if table.header not in (header, []):
                    raise SourceError(f"{table.path}: expected the columns {header}, found {table.header}")
                for _, cells in table.rows(bad):
                    rows += 1
                    for kind, cell in zip(kinds, cells, strict=True):
                        kind.add(cell)
        if not rows:
            raise EmptySource(f"{shown(self.path)}: no file has a row{bad.ending}")
        unknown = sorted(set(self.asked.types) - set(header))
        if unknown:
            raise ConfigError(f"types: no column {unknown[0]!r}; there are {', '.join(header)}")
        return Schema([self._feature(name, kind) for name, kind in zip(header, kinds, strict=True)])

    def _feature(self, name: str, kind: _Kind) -> Feature:
        dtype = self.asked.types.get(name, kind.dtype)
        return stored(name, dtype, optional=kind.empty and dtype not in ("utf8", "bytes"))

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one file, some thousand rows at a time."""
        schema = self.schema()
        casts = [_CASTS.get(feature.dtype, int) for feature in schema]
        with _opened(self.asked.files, unit.files[0].path) as table:
            lines: list[int] = []
            cells: list[list[str]] = []
            for line, row in table.rows(on_bad):
                lines.append(line)
                cells.append(row)
                if len(cells) == _CHUNK_ROWS:
                    yield _chunk(schema, casts, table.path, (lines, cells), on_bad)
                    lines, cells = [], []
            if cells:
                yield _chunk(schema, casts, table.path, (lines, cells), on_bad)


def _chunk(
    schema: Schema,
    casts: Sequence[Callable[[str], object]],
    path: str,
    rows: tuple[list[int], list[list[str]]],
    on_bad: OnBad,
) -> Chunk:
    names = [feature.name for feature in schema]
    samples = [dict(zip(names, map(_cast, casts, cells), strict=True)) for cells in rows[1]]
    return chunk_of(schema, samples, lambda row: f"{path}:{rows[0][row]}", on_bad)


def _cast(convert: Callable[[str], object], cell: str) -> object:
    """Return a cell's value; a cell that does not fit stays text, which its feature then refuses with its line."""
    if convert in (str, str.encode):
        return convert(cell)
    if not cell:
        return None
    if "_" in cell:  # which Python takes between digits
        return cell
    try:
        return convert(cell)
    except (ValueError, KeyError):
        return cell


_CASTS: dict[str, Callable[[str], object]] = {
    "utf8": str,
    "bytes": str.encode,
    "bool": lambda cell: _TRUE_FALSE[cell.lower()],
    "float16": float,
    "float32": float,
    "float64": float,
}


class _Kind:
    """Gather what the cells of one column are."""

    def __init__(self) -> None:
        self.dtype = "int64"
        self.empty = False
        self._exact_as_float = True

    def add(self, cell: str) -> None:
        """Take one more cell into account."""
        if not cell:
            self.empty = True
        elif self.dtype == "int64" and _INTEGER.fullmatch(cell) and -(2**63) <= int(cell) < 2**63:
            self._exact_as_float &= int(float(cell)) == int(cell)
        elif self.dtype != "utf8":
            self.dtype = "float64" if self._exact_as_float and _is_float(cell) else "utf8"


def _is_float(cell: str) -> bool:
    """Whether a cell is a number that loses no digit before the point as float64.

    "007" is none, nor is 2**63 + 1, nor 12345678901234567.5, nor 1e400, which is past its range.
    """
    digits = cell.lstrip("+-")
    if not _NUMBER.fullmatch(cell) or (digits[0].lower() not in "ni" and math.isinf(float(digits))):
        return False
    whole = digits.partition(".")[0]
    long = len(whole) > _SURE_DIGITS and whole.isdigit() and "e" not in digits.lower()
    return not (long and int(float(digits)) != int(whole))


class _Table:
    """Read one file.

    Args:
        path: The file.
        text: Its text, bytes that are no UTF-8 escaped.
    """

    def __init__(self, path: str, text: TextIO) -> None:
        self.path = shown(path)
        csv.field_size_limit(CELL_CHARS)
        first = text.readline()
        delimiter = _delimiter(path, first)
        self._reader = csv.reader(_chain(first, text), delimiter=delimiter, strict=True)
        self.header: list[str] = next(self._reader, [])
        if first and not self.header:
            raise SourceError(f"{self.path}:1: expected the header line, found an empty one: delete what is before it")
        twice = sorted({name for name in self.header if self.header.count(name) > 1 or not name})
        if twice:
            raise SourceError(f"{self.path}:1: the column name {twice[0]!r} must be filled and stand there once")
        odd = [name for name in self.header if _is_escaped(name)]
        if odd:
            name = odd[0][:40].encode("utf-8", "surrogateescape")
            raise SourceError(f"{self.path}:1: the column name {name!r} is not UTF-8: write the file as UTF-8")

    def rows(self, on_bad: OnBad) -> Iterator[Row]:
        """Yield (line, cells) of each good row; lines count from 1, a row's is its first."""
        while True:
            line = self._reader.line_num + 1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as exc:
                on_bad(BadItem(f"{self.path}:{line}", f"cannot be parsed: {exc}"))
                continue
            except PACKED_ERRORS as exc:
                on_bad(BadItem(f"{self.path}:{line}", f"the rest of it cannot be read: {exc}"))
                return
            if not cells:
                continue
            reason = self._fault(cells)
            if reason:
                on_bad(BadItem(f"{self.path}:{line}", reason, repr(cells).encode()))
            else:
                yield line, cells

    def _fault(self, cells: list[str]) -> str:
        if len(cells) != len(self.header):
            return f"expected {counted(len(self.header), 'cell')} as in the header, found {len(cells)}"
        for name, cell in zip(self.header, cells, strict=True):
            if _is_escaped(cell):
                return f"column {name!r} is not UTF-8: {cell[:40].encode('utf-8', 'surrogateescape')!r}"
        return ""


def _is_escaped(text: str) -> bool:
    """Whether some of a text's bytes were no UTF-8."""
    return not text.isascii() and any("\udc80" <= char <= "\udcff" for char in text)


@contextmanager
def _opened(files: Files, path: str) -> Iterator[_Table]:
    with ExitStack() as stack:
        try:
            data = stack.enter_context(unpacked(stack.enter_context(files.open(path))))
            text = stack.enter_context(io.TextIOWrapper(data, "utf-8-sig", errors="surrogateescape", newline=""))
            table = _Table(path, text)
        except (*PACKED_ERRORS, csv.Error) as exc:
            raise SourceError(f"{shown(path)}: cannot be read: {exc}") from exc
        yield table


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
    yield from rest


def _delimiter(path: str, header: str) -> str:
    if base_name(path).lower().removesuffix(".gz").removesuffix(".zst").endswith(".tsv"):
        return "\t"
    bare = re.sub(r'"[^"]*"', "", header)
    return max(",;|\t", key=bare.count)


def _unit(file: Stamp) -> Unit:
    return Unit(file.path, file.nbytes * (4 if base_name(file.path).lower().endswith((".gz", ".zst")) else 1), (file,))
