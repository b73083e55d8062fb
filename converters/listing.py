"""List the files of a raw data set."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from datafeed.converters.braces import expand
from datafeed.converters.names import shown
from datafeed.converters.source import Stamp
from datafeed.errors import SourceError, SourceNotFound
from datafeed.packing import packing

_SHARD = re.compile(r"shard-\d{6,}\.tfrecord\.zst")
NEXT = "make it readable, or take it out"


def stamp(path: str) -> Stamp:
    """Return a file's size and time of change.

    Raises:
        SourceError: It cannot be looked at.
    """
    try:
        return _looked_at(path)
    except OSError as exc:
        raise SourceError(f"cannot look at {shown(path)}: {exc.strerror}; {NEXT}") from exc


def _looked_at(path: str) -> Stamp:
    found = os.stat(path)
    return Stamp(path, found.st_size, found.st_mtime_ns)


def difference(file: Stamp) -> str:
    """Return how a file differs from its stamp; nothing where it does not.

    Raises:
        FileNotFoundError: It is gone.
    """
    found = _looked_at(file.path)
    return "" if found == file else f"{found.nbytes} and {found.version}"


def read_head(path: str, nbytes: int) -> bytes:
    """Return the first bytes of a file, fewer where it is shorter.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(nbytes)
    except OSError as exc:
        raise SourceError(f"cannot read {shown(path)}: {exc.strerror}; {NEXT}") from exc


def refuse_zstd(path: str, head: bytes) -> None:
    """Refuse a file that is packed with zstd, which no source reads.

    Args:
        path: The file.
        head: Its first bytes, four or more.

    Raises:
        SourceError: It is; the message says how to unpack it, or what makes another dataset of a shard.
    """
    if packing(head) == "zstd":
        folder, _, name = path.rpartition("/")
        if _SHARD.fullmatch(name):
            command = f"datafeed map {shlex.quote(shown(folder or '.'))}"
            raise SourceError(f"{shown(path)} is a shard of a converted dataset: make another of it with `{command}`")
        command = f"zstd -d {shlex.quote(shown(path))}"
        raise SourceError(f"{shown(path)} is packed with zstd, which no source reads: unpack it with `{command}` first")


def list_files(path: str, suffixes: Sequence[str]) -> list[str]:
    """List the files that a path names, sorted.

    Args:
        path: A file, a pattern with wildcards or braces, or a folder, whose files are taken at any depth, as `Walk`
            finds them.
        suffixes: Which files of a folder count, by the end of their names in any case; a file named directly or by a
            pattern counts whatever its name.

    Returns:
        The paths; none where a folder holds no such file.

    Raises:
        SourceNotFound: Nothing is there; the message names the nearest folder that exists.
        SourceError: A folder cannot be read.
    """
    if os.path.isdir(path):
        ends = tuple(suffix.lower() for suffix in suffixes)
        return sorted(entry.path for entry in Walk().files(path) if entry.name.lower().endswith(ends))
    if os.path.exists(path):
        return [path]
    return [name for one in expand(path) for name in _matching(one)]


def _matching(pattern: str) -> list[str]:
    if os.path.exists(pattern):
        return [pattern]
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise SourceNotFound(f"no file or folder {pattern!r}; the nearest folder that exists is {_nearest(pattern)!r}")
    return [name for name in found if not os.path.isdir(name)]


def _nearest(path: str) -> str:
    return next((str(parent) for parent in Path(path).absolute().parents if parent.is_dir()), "/")


class Walk:
    """Walk folders. Hidden files and folders are passed over; a folder that a link leads back to is entered once.

    Attributes:
        again: The folders that were not entered a second time.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[int, int]] = set()
        self.again: list[str] = []

    def entries(self, path: str) -> Iterator[os.DirEntry[str]]:
        """Yield what lies in one folder, in no order.

        Raises:
            SourceError: It cannot be read.
        """
        try:
            status = os.stat(path)
            if (status.st_dev, status.st_ino) in self._seen:
                self.again.append(path)
                return
            self._seen.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                yield from (entry for entry in entries if entry.name[0] != ".")
        except OSError as exc:
            raise SourceError(f"cannot list {shown(path)}: {exc.strerror}; {NEXT}") from exc

    def folder(self, path: str) -> tuple[list[os.DirEntry[str]], list[str]]:
        """List one folder: what is no folder, and the paths of the folders in it, each sorted by name.

        Raises:
            SourceError: It cannot be read.
        """
        files: list[os.DirEntry[str]] = []
        folders: list[str] = []
        for entry in sorted(self.entries(path), key=lambda entry: entry.name):
            if is_folder(entry):
                folders.append(entry.path)
            else:
                files.append(entry)
        return files, folders

    def files(self, path: str) -> Iterator[os.DirEntry[str]]:
        """Yield what is no folder at any depth, a folder's own before those further down.

        Raises:
            SourceError: A folder cannot be read.
        """
        waiting = [path]
        while waiting:
            entries, folders = self.folder(waiting.pop())
            yield from entries
            waiting += reversed(folders)


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
