"""Hold what a label file says of images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from datafeed.columns import Column, take_rows
from datafeed.converters.packed import Rows
from datafeed.converters.source import OnBad, Stamp, Unit
from datafeed.errors import BadItem
from datafeed.schema import Feature

OWN = ("image", "path", "width", "height")
"""The features that an image has by itself."""

Fault = tuple[str, str]
"""Where something is that cannot be used, and why."""


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """Hold the rows of a label file, each of which names an image.

    Args:
        file: The label file.
        digest: The SHA-256 of its bytes.
        features: What it says of an image.
        columns: By row.
        names: The image that each row names, as it stands there.
        where: Where a row stands.
        faults: What of it cannot be used.
        notes: What a person should know.
    """

    file: Stamp
    digest: str
    features: tuple[Feature, ...]
    columns: dict[str, Column]
    names: Sequence[str]
    where: Callable[[int], str]
    faults: list[Fault] = field(default_factory=list)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """Hold what is known of a unit's images beside their files.

    Args:
        columns: By feature.
    """

    columns: dict[str, Column]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noted) and _plain(self) == _plain(other)

    __hash__ = None  # type: ignore[assignment]  # arrays have none

    def of(self, rows: Sequence[int]) -> dict[str, Column]:
        """Return the columns of some of the images."""
        chosen = np.array(rows, np.int64)
        return {name: take_rows(column, chosen) for name, column in self.columns.items()}


def _plain(noted: Noted) -> list[object]:
    return [
        (name, [None if part is None else part.tobytes() for part in column]) for name, column in noted.columns.items()
    ]


@dataclass(frozen=True, slots=True, eq=False)
class RowsOf:
    """Give what is known of files, by their rows in a listing.

    Args:
        columns: By row of the label file.
        match: (files,), that row by the file's; -1 where there is none.
    """

    columns: dict[str, Column]
    match: Rows

    def __call__(self, rows: Rows) -> Noted:
        """Return what is known of some files."""
        chosen = self.match[rows]
        return Noted({name: take_rows(column, chosen) for name, column in self.columns.items()})


@dataclass(frozen=True, slots=True)
class Faults:
    """Hold the faults of a label file: the `detail` of a unit of no image."""

    found: tuple[Fault, ...]

    def report(self, on_bad: OnBad) -> None:
        """Report each as a bad item."""
        for where, reason in self.found:
            on_bad(BadItem(where, reason))


def fault_units(file: Stamp, faults: Sequence[Fault]) -> Iterator[Unit]:
    """Yield the unit that reports what of a label file cannot be used; none where there is nothing."""
    if faults:
        yield Unit(f"faults of {file.path}", len(faults), (file,), Faults(tuple(faults)))
