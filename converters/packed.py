"""Hold a long list of files in a few bytes each.

A file's name lies among the others, end to end; its size, version, class and root are numbers in arrays. Paths and
stamps are made when they are asked for.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from datafeed.converters.name_order import PAD, name_order
from datafeed.converters.source import Stamp

Rows = npt.NDArray[np.integer]
_ENCODING = ("utf-8", "surrogatepass")  # keeps the order of names that are no UTF-8, as Python holds them
_STEP = 2**16


class Root(NamedTuple):
    """Say what stands around the names of a root's files in their paths or URLs.

    Attributes:
        start: What every path begins with, as "data/" or "s3://bucket/data/".
        end: What it ends with, as "::/x.zip" in a chained URL.
    """

    start: str
    end: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Hold files, in order.

    Args:
        roots: Where they lie.
        names: Their names below their roots, end to end in the order in which they came.
        offsets: int64 (n + 1,), where each name begins, and the last one ends.
        nbytes: int64 (n,), their sizes.
        versions: int64 (n,).
        labels: int32 (n,), the class of each; -1 for none.
        which: int32 (n,), the root of each.
        order: (n,), the row of the file at each place: what is above is by row.
        ascii: Whether all names are ASCII.
    """

    roots: tuple[Root, ...]
    names: bytearray
    offsets: npt.NDArray[np.int64]
    nbytes: npt.NDArray[np.int64]
    versions: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int32]
    which: npt.NDArray[np.int32]
    order: Rows
    ascii: bool

    def __len__(self) -> int:
        return len(self.order)

    def name(self, row: int) -> str:
        """Return a file's name below its root."""
        return self.names[self.offsets[row] : self.offsets[row + 1]].decode(*_ENCODING)

    def path(self, row: int) -> str:
        """Return a file's path or URL."""
        root = self.roots[self.which[row]]
        return f"{root.start}{self.name(row)}{root.end}"

    def stamps(self, rows: Rows) -> tuple[Stamp, ...]:
        """Return the stamps of some files."""
        facts = (self.which[rows], self.offsets[rows], self.offsets[rows + 1], self.nbytes[rows], self.versions[rows])
        roots, names = self.roots, self.names
        return tuple(
            Stamp(f"{roots[root].start}{names[start:end].decode(*_ENCODING)}{roots[root].end}", nbytes, version)
            for root, start, end, nbytes, version in zip(*(fact.tolist() for fact in facts), strict=True)
        )

    def spans(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Return int32 (n, 2): where, in the path of each of some files, its name begins and ends."""
        starts = np.array([len(root.start) for root in self.roots], np.int32)[self.which[rows]]
        return np.stack([starts, starts + self._lengths(rows)], 1)

    def _lengths(self, rows: Rows) -> npt.NDArray[np.int32]:
        """Return how many characters each name has."""
        if self.ascii:
            return (self.offsets[rows + 1] - self.offsets[rows]).astype(np.int32)
        return np.array([len(self.name(row)) for row in rows.tolist()], np.int32)

    def digest(self) -> str:
        """Return the SHA-256 of the names in order, each with a NUL behind it."""
        digest = hashlib.sha256()
        for start in range(0, len(self), _STEP):
            names = [os.fsencode(self.name(row)) for row in self.order[start : start + _STEP].tolist()]
            digest.update(b"\0".join([*names, b""]))
        return digest.hexdigest()

    def counts(self, classes: int) -> npt.NDArray[np.int64]:
        """Return how many files have no class, then how many each class has."""
        return np.bincount(self.labels[self.order] + 1, minlength=classes + 1)

    def collision(self) -> tuple[str, str] | None:
        """Return two files of different roots that have the same name; None where there are none."""
        for start in range(1, len(self), _STEP):
            behind = self.order[start : start + _STEP]
            before = self.order[start - 1 : start - 1 + len(behind)]
            sizes = self.offsets[behind + 1] - self.offsets[behind]
            like = (self.which[before] != self.which[behind]) & (
                sizes == self.offsets[before + 1] - self.offsets[before]
            )
            for place in np.flatnonzero(like).tolist():
                if self.name(before[place]) == self.name(behind[place]):
                    return self.path(before[place]), self.path(behind[place])
        return None


class Packer:
    """Take in files one by one.

    Args:
        overlap: Whether a file may be added again, as one of another root, which then counts once.
    """

    def __init__(self, *, overlap: bool = False) -> None:
        self._roots: list[Root] = []
        self._names = bytearray()
        self._offsets = array("q", [0])
        self._nbytes = array("q")
        self._versions = array("q")
        self._labels = array("i")
        self._which = array("i")
        self._hashes = array("q") if overlap else None

    def begin(self, root: Root) -> None:
        """Begin a root, to which what is added next belongs."""
        self._roots.append(root)

    def add(self, name: str, nbytes: int, version: int, label: int) -> None:
        """Add a file.

        Args:
            name: Its name below its root.
            nbytes: Its size.
            version: Its version.
            label: A number of its class; -1 for none.
        """
        self._names += name.encode(*_ENCODING)
        self._offsets.append(len(self._names))
        self._nbytes.append(nbytes)
        self._versions.append(version)
        self._labels.append(label)
        self._which.append(len(self._roots) - 1)
        if self._hashes is not None:
            root = self._roots[-1]
            self._hashes.append(hash(f"{root.start}{name}{root.end}"))

    def packed(self, numbers: npt.NDArray[np.int32]) -> Packed:
        """Return the files by class, then by name; no more can be added.

        Args:
            numbers: int32, by the numbers of classes that `add` was told, those that they shall have; then -1.
        """
        is_ascii = self._names.isascii()
        self._names += PAD
        offsets, nbytes, versions = (
            np.frombuffer(values, np.int64) for values in (self._offsets, self._nbytes, self._versions)
        )
        labels, which = numbers[np.frombuffer(self._labels, np.int32)], np.frombuffer(self._which, np.int32)
        order = name_order(self._names, offsets, labels)
        roots = tuple(self._roots)
        packed = Packed(roots, self._names, offsets, nbytes, versions, labels, which, order, is_ascii)
        if self._hashes is None:
            return packed
        again = _again(packed, np.frombuffer(self._hashes, np.int64))
        return replace(packed, order=order[~again[order]])


def _again(packed: Packed, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Tell, by row, which paths stand in a row before."""
    again = np.zeros(len(hashes), np.bool_)
    order = np.argsort(hashes, kind="stable")
    for place in np.flatnonzero(hashes[order[1:]] == hashes[order[:-1]]).tolist():
        before, behind = order[place], order[place + 1]
        again[behind] = packed.path(before) == packed.path(behind)
    return again
