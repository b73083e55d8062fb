"""Cut files of items into units, and look at their first items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from datafeed.converters.item_fields import Faults, Values
from datafeed.converters.item_table import PIECE_NBYTES, Piece, Readable, TableError
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import OnBad, Stamp, Unit
from datafeed.converters.unpack import PACKED_ERRORS
from datafeed.converters.whole_file import Facts, beginning
from datafeed.errors import BadItem

UNIT_NBYTES = 16 * 10**6
_READ_NBYTES = 2**18  # of a remote file's first items
_SNIFFED_ROWS = 1000
_SNIFFED_FILES = 16  # raw ones, whose first items are read alone


@dataclass(frozen=True, slots=True)
class ItemFile:
    """Hold what an index says of a file of items.

    Args:
        where: What a person calls it.
        file: The file to read; the index where there is none.
        items: How many items it holds.
        facts: What the file is.
        fault: Why it cannot be read; empty where nothing speaks against it.
    """

    where: str
    file: Stamp
    items: int
    facts: Facts
    fault: str


class Part(NamedTuple):
    """Name consecutive items of a file: the detail of a unit.

    Attributes:
        start: The first of them.
        end: The one behind the last.
        items: How many the file has.
        facts: What the file is.
    """

    start: int
    end: int
    items: int
    facts: Facts


Pieces = Callable[[Readable, Part, Callable[[int, str], None]], Iterator[Piece]]
"""Reads a part of an open file; tells the items whose place is wrong."""

Split = Callable[[Piece], tuple[list[Values], Faults]]
"""Splits items into fields; tells those that cannot be."""


def units_of(found: ItemFile, *, whole: bool = False) -> Iterator[Unit]:
    """Yield the units of a file, whose detail is a `Part`, or why it cannot be read: parts of about `UNIT_NBYTES`.

    Args:
        found: The file.
        whole: Whether it is one unit, however large, as one that is packed or has digests is.
    """
    path, facts = found.file.path, found.facts
    if found.fault:
        yield Unit(found.where, facts.nbytes, (found.file,), found.fault)
        return
    parts = 1 if whole or facts.whole else max(facts.nbytes // UNIT_NBYTES, 1)
    rows = max(-(-found.items // parts), 1)
    for start in range(0, found.items, rows):
        end = min(start + rows, found.items)
        nbytes = facts.nbytes * (end - start) // found.items
        yield Unit(f"{path}#{start}", nbytes, (found.file,), Part(start, end, found.items, facts))


def part_of(unit: Unit) -> Part:
    """Return the part that a unit names.

    Raises:
        BadItem: Its file cannot be read.
    """
    if isinstance(unit.detail, str):
        raise BadItem(unit.name, unit.detail)
    assert isinstance(unit.detail, tuple)
    return Part(*unit.detail)


def first_rows(
    asked: SourceOptions, units: Sequence[Unit], pieces: Pieces, split: Split, on_bad: OnBad
) -> list[tuple[bytes, ...]]:
    """Return the fields of the first items, of several files, or of one where they must be unpacked.

    Digests are not compared, and no more is unpacked than is looked at.
    """
    begins: list[tuple[str, Part]] = []
    for unit in units:
        try:
            part = part_of(unit)
        except BadItem as exc:
            on_bad(exc)
        else:
            begins += [(unit.files[0].path, part)] if part.start == 0 else []
    begins = begins[:_SNIFFED_FILES]
    rows: list[tuple[bytes, ...]] = []
    for path, part in begins:
        wanted = part._replace(end=min(part.end, -(-_SNIFFED_ROWS // len(begins))))
        try:
            rows += _rows(asked, path, wanted, pieces, split)
        except (TableError, *PACKED_ERRORS) as exc:
            on_bad(BadItem(shown(path), str(exc)))
        if rows and part.facts.packed:
            break
    return rows


def _rows(asked: SourceOptions, path: str, part: Part, pieces: Pieces, split: Split) -> Iterator[tuple[bytes, ...]]:
    with asked.files.open(path, read_ahead=_READ_NBYTES) as raw, beginning(raw, part.facts.packed) as file:
        nbytes = 0
        for piece in pieces(file, part, lambda _item, _reason: None):
            fields, broken = split(piece)
            found = zip(*(field.each() for field in fields), strict=True)
            yield from (row for number, row in enumerate(found) if number not in broken)
            nbytes += len(piece.data)
            if nbytes >= PIECE_NBYTES:
                return
