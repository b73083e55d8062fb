"""Bring images together with what a label file says of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO, overload

import numpy as np

from datafeed.converters.annotations import Annotations, Fault, RowsOf, fault_units
from datafeed.converters.class_listing import Listing
from datafeed.converters.coco import read_coco
from datafeed.converters.file_units import FileUnits
from datafeed.converters.files import open_failed
from datafeed.converters.label_table import read_table
from datafeed.converters.name_lookup import SEVERAL, NameLookup
from datafeed.converters.names import escape, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.packed import Rows
from datafeed.converters.source import Stamp, Unit
from datafeed.converters.unpack import PACKED_ERRORS, unpacked
from datafeed.errors import SourceError
from datafeed.schema import Feature
from datafeed.sizes import counted, some

_STEP_NBYTES = 2**20
_LINE_NBYTES = 2**20  # of a first line that is no COCO file


@dataclass(frozen=True, slots=True, eq=False)
class Annotated:
    """Hold which images of a listing a label file names, and what it says of each.

    Args:
        listing: The images.
        features: What is known of an image beside its file.
        known: Gives it.
        faults: What of the label file cannot be used.
        file: The label file.
        digest: The SHA-256 of its bytes.
        notes: What a person should know.
    """

    listing: Listing
    features: tuple[Feature, ...]
    known: RowsOf
    faults: tuple[Fault, ...]
    file: Stamp
    digest: str
    notes: tuple[str, ...]

    def units(self, what: str, asked: SourceOptions) -> Sequence[Unit]:
        """Return the units: first the one that reports faults, then those of the images that the file names."""
        order = self.listing.order(asked)
        files = FileUnits(what, self.listing.files, order[self.known.match[order] >= 0], self.known)
        return Behind(tuple(fault_units(self.file, self.faults)), files)

    def options(self, asked: SourceOptions) -> dict[str, object]:
        """Return what shapes the output."""
        return {**self.listing.options(asked), "labels": self.digest}


class Behind(Sequence[Unit]):
    """Join units.

    Args:
        first: Some units.
        rest: Those behind them, which may be made when they are asked for.
    """

    def __init__(self, first: Sequence[Unit], rest: Sequence[Unit]) -> None:
        self._first = first
        self._rest = rest

    def __len__(self) -> int:
        return len(self._first) + len(self._rest)

    @overload
    def __getitem__(self, place: int) -> Unit: ...

    @overload
    def __getitem__(self, place: slice) -> list[Unit]: ...

    def __getitem__(self, place: int | slice) -> Unit | list[Unit]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place] - len(self._first)
        return self._rest[number] if number >= 0 else self._first[number]


def annotate(listing: Listing, path: str, asked: SourceOptions) -> Annotated:
    """Read a label file, and find the images that it names.

    Args:
        listing: The images, without classes.
        path: The label file.
        asked: How it is read.

    Raises:
        SourceError: It cannot be read, or names none of the images.
    """
    file = asked.files.stamp(path)
    lookup = NameLookup(listing.files, path)
    try:
        with asked.files.open(path) as raw, unpacked(raw) as data:
            digest = _digest(data)
        with asked.files.open(path) as raw, unpacked(raw) as data:
            coco = _is_coco(path, data)
        if not coco:
            return _matched(listing, lookup, read_table(file, digest, asked, lookup))
        with asked.files.open(path) as raw, unpacked(raw) as data:
            return _matched(listing, lookup, read_coco(file, digest, data))
    except PACKED_ERRORS as exc:
        raise open_failed(path, OSError(str(exc))) from exc


def _digest(data: BinaryIO) -> str:
    digest = hashlib.sha256()
    while more := data.read(_STEP_NBYTES):
        digest.update(more)
    return digest.hexdigest()


def _is_coco(path: str, data: BinaryIO) -> bool:
    """Tell COCO's one object from lines of objects, by the end of the first line."""
    name = path.partition("::")[0].lower()
    if not name.endswith((".json", ".json.gz", ".json.zst")):
        return False
    first = data.readline(_LINE_NBYTES).strip()
    return not first.endswith(b"}") or b'"images"' in first


def _matched(listing: Listing, lookup: NameLookup, told: Annotations) -> Annotated:
    match = np.full(len(listing.files.offsets) - 1, -1, np.int64)
    faults = list(told.faults)
    for row, name in enumerate(told.names):
        found = lookup.find(name)
        if found >= 0 and match[found] < 0:
            match[found] = row
        else:
            faults.append((told.where(row), _reason(found, name, told, match)))
    rows = listing.files.order
    if (match[rows] < 0).all():
        raise SourceError(
            f"{shown(told.file.path)} names none of the images: expected names relative to their folder or to this file"
            f", such as {listing.files.name(int(rows[0]))!r}; found {some([repr(name) for name in told.names[:3]])}"
        )
    notes = (*listing.notes, *told.notes, *_missing_notes(listing, match, rows, told))
    return Annotated(listing, told.features, RowsOf(told.columns, match), tuple(faults), told.file, told.digest, notes)


def _reason(found: int, name: str, told: Annotations, match: Rows) -> str:
    if found == SEVERAL:
        return f"names several images: {name!r}, which lacks a suffix"
    if found >= 0:
        return f"names {name!r}, as {told.where(int(match[found]))} does: expected one row an image"
    return f"names no image: {name!r}"


def _missing_notes(listing: Listing, match: Rows, rows: Rows, told: Annotations) -> list[str]:
    notes = []
    left = rows[match[rows] < 0]
    if len(left):
        names = [shown(escape(listing.files.name(row))) for row in left[:5].tolist()]
        more = f" and {len(left) - 5:,} more" if len(left) > 5 else ""
        path = shown(told.file.path)
        notes.append(f"{counted(len(left), 'image')} left out that {path} does not name: {', '.join(names)}{more}")
    unfound = len(told.names) - int((match >= 0).sum())
    if unfound:
        notes.append(f"{counted(unfound, 'row')} of {shown(told.file.path)} left out, as bad items tell")
    return notes
