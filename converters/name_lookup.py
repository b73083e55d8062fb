"""Find files by names that another file gives them."""

from __future__ import annotations

import os
import posixpath
from array import array
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from datafeed.converters.packed import Packed

SEVERAL = -2


class NameLookup:
    """Find files of a listing by their names, also without a suffix.

    Args:
        files: The files.
        beside: The path or URL of the label file, to whose folder names may be relative, too.
    """

    def __init__(self, files: Packed, beside: str) -> None:
        self._folder = _full(beside).rpartition("/")[0]
        self._starts = [_full(root.start) for root in files.roots]
        self._indexes = (_Index(files, str), _Index(files, lambda name: os.path.splitext(name)[0]))

    def find(self, name: str) -> int:
        """Return the row of the file that a name means: below a folder that was listed, or relative to the label file.

        Returns:
            The row; -1 where there is none, `SEVERAL` where a name without a suffix means several.
        """
        for one in (posixpath.normpath(name), *self._relative(name)):
            for index in self._indexes:
                row = index.find(one)
                if row != -1:
                    return row
        return -1

    def _relative(self, name: str) -> list[str]:
        """Return the names below each root of the path that is relative to the label file."""
        path = _full(name if "://" in name else posixpath.join(self._folder, name))
        return [path[len(start) :].lstrip("/") for start in self._starts if path.startswith(start)]


def _full(path: str) -> str:
    """Return a path or URL without dots and double slashes, a local path from the root on."""
    protocol, slashes, rest = path.partition("://")
    if not slashes:
        return os.path.abspath(path)
    rest = rest.partition("::")[0].strip("/")
    return f"{protocol}://{posixpath.normpath(rest) if rest else ''}"


class _Index:
    """Find names by their hashes, which take less memory than a dict of names.

    Args:
        files: The files.
        key: What is compared, of a file's name.
    """

    def __init__(self, files: Packed, key: Callable[[str], str]) -> None:
        self._files, self._key = files, key
        rows = np.sort(files.order)
        hashes = np.fromiter((hash(key(files.name(row))) for row in rows.tolist()), np.int64, len(rows))
        order = np.argsort(hashes, kind="stable")
        self._rows = rows[order]
        self._hashes = array("q", hashes[order].tobytes())

    def find(self, name: str) -> int:
        """Return the row of a file; -1 where there is none, `SEVERAL` where there are several."""
        wanted = hash(name)
        found = -1
        place = bisect_left(self._hashes, wanted)
        while place < len(self._hashes) and self._hashes[place] == wanted:
            row = int(self._rows[place])
            if self._key(self._files.name(row)) == name:
                if found >= 0:
                    return SEVERAL
                found = row
            place += 1
        return found
