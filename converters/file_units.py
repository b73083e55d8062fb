"""Cut a long listing of files into units that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from datafeed.converters.packed import Packed, Rows
from datafeed.converters.source import Unit

UNIT_NBYTES = 8 * 10**6
ROW_NBYTES = 200  # about what a record holds beside its file


class Members(NamedTuple):
    """Tell of a unit's files what their paths do not; the `detail` of such a unit.

    Attributes:
        spans: int32 (files, 2) as bytes: where in each path the file's name in the dataset begins and ends.
        labels: int32 (files,) as bytes: the class of each; empty where there are no classes.
        more: Whatever else the source knows of them.
    """

    spans: bytes
    labels: bytes
    more: object = None


def members(unit: Unit) -> Members:
    """Return what a unit of `FileUnits` tells of its files."""
    assert isinstance(unit.detail, Members)
    return unit.detail


def names_of(unit: Unit) -> list[str]:
    """Return the names that a unit's files have in the dataset."""
    spans = np.frombuffer(members(unit).spans, np.int32).reshape(-1, 2).tolist()
    return [file.path[start:end] for file, (start, end) in zip(unit.files, spans, strict=True)]


def labels_of(unit: Unit) -> npt.NDArray[np.int64] | None:
    """Return the classes of a unit's files; None where there are none."""
    labels = members(unit).labels
    return np.frombuffer(labels, np.int32).astype(np.int64) if labels else None


class FileUnits(Sequence[Unit]):
    """Cut files into runs of `UNIT_NBYTES` or less, at least one file each.

    Args:
        what: What a person calls some of the files, as "images".
        files: The files.
        order: (n,), their rows in the order of the samples.
        more: Returns what else is known of the files of some rows; picklable.
    """

    def __init__(self, what: str, files: Packed, order: Rows, more: Callable[[Rows], object] | None = None) -> None:
        self._what = what
        self._files = files
        self._order = order
        self._more = more
        ends = np.cumsum(files.nbytes[order] + ROW_NBYTES)
        bounds = [0]
        while bounds[-1] < len(order):
            bounds.append(_end(ends, bounds[-1]))
        self._bounds = np.array(bounds)
        self._nbytes = np.diff(ends[self._bounds[1:] - 1], prepend=0)

    def __len__(self) -> int:
        return len(self._nbytes)

    @overload
    def __getitem__(self, place: int) -> Unit: ...

    @overload
    def __getitem__(self, place: slice) -> list[Unit]: ...

    def __getitem__(self, place: int | slice) -> Unit | list[Unit]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        number = range(len(self))[place]
        start, end = self._bounds[number : number + 2].tolist()
        rows = self._order[start:end]
        files = self._files
        labels = files.labels[rows]
        detail = Members(
            files.spans(rows).tobytes(),
            labels.tobytes() if labels[0] >= 0 else b"",
            None if self._more is None else self._more(rows),
        )
        name = f"{self._what} {start}-{end - 1}"
        return Unit(name, int(self._nbytes[number]), files.stamps(rows), detail)


def _end(ends: npt.NDArray[np.int64], start: int) -> int:
    """Return where the unit ends that begins at a place."""
    before = int(ends[start - 1]) if start else 0
    return max(int(np.searchsorted(ends, before + UNIT_NBYTES, side="right")), start + 1)
