"""Reach the files of a raw data set, wherever they lie.

A path names local files; a URL names files of any file system that fsspec knows, a chained one such as
`zip://*.jpg::https://host/a.zip` among them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from datafeed.converters import listing, remote
from datafeed.converters.names import base_name, shown
from datafeed.converters.source import Stamp, Where, each
from datafeed.errors import EmptySource, SourceChanged, SourceError
from datafeed.storage import local_path

READ_AHEAD_NBYTES = 8 * 2**20  # of a remote file that is read from front to back


def no_file(where: Where, suffixes: Sequence[str]) -> EmptySource:
    """Return the error of a source without a file of its kind."""
    return EmptySource(f"{shown(where)}: no file ends in {', '.join(suffixes)}")


@dataclass(frozen=True, slots=True)
class Files:
    """Read files that paths and URLs name. It is picklable and opens nothing until asked.

    Args:
        storage_options: Passed to the fsspec file system of URLs.
    """

    storage_options: Mapping[str, object] = field(default_factory=dict, repr=False)  # it may hold a secret

    def listed(self, where: Where, suffixes: Sequence[str]) -> list[Stamp]:
        """List the files that paths and URLs name, sorted within each of them.

        Args:
            where: A file, a folder, whose files are taken at any depth, or a pattern with `*`, `?`, `[ab]`, `**` or
                braces (`{000..146}`, `{a,b}`); or several of these.
            suffixes: Which files of a folder count, by the end of their names in any case; a file named directly or by
                a pattern counts whatever its name.

        Returns:
            The files; none where a folder holds no such file. One that two of several name is listed once.

        Raises:
            SourceNotFound: Nothing is there.
            SourceError: A folder or file cannot be looked at.
        """
        found: dict[str, Stamp] = {}
        for path in each(where):
            for file in self._listed(path, suffixes):
                found.setdefault(file.path, file)
        return list(found.values())

    def some(self, where: Where, suffixes: Sequence[str]) -> list[Stamp]:
        """List files as `listed` does, at least one.

        Raises:
            EmptySource: A folder holds no such file.
            SourceError: As `listed` raises it.
        """
        found = self.listed(where, suffixes)
        if not found:
            raise no_file(where, suffixes)
        return found

    def _listed(self, path: str, suffixes: Sequence[str]) -> Iterator[Stamp]:
        name = local_path(path)
        if name is None:
            yield from remote.listed(path, suffixes, self.storage_options)
        else:
            yield from map(listing.stamp, listing.list_files(name, suffixes))

    def is_folder(self, path: str) -> bool:
        """Whether a path or URL names a folder."""
        name = local_path(path)
        return remote.is_folder(path, self.storage_options) if name is None else os.path.isdir(name)

    def stamp(self, path: str) -> Stamp:
        """Return a file's size and version.

        Raises:
            SourceError: It cannot be looked at.
        """
        name = local_path(path)
        return remote.stamp(path, self.storage_options) if name is None else listing.stamp(name)

    def head(self, path: str, nbytes: int) -> bytes:
        """Return the first bytes of a file, fewer where it is shorter.

        Raises:
            SourceError: It cannot be read.
        """
        name = local_path(path)
        return remote.head(path, nbytes, self.storage_options) if name is None else listing.read_head(name, nbytes)

    def open(self, path: str, *, read_ahead: int = READ_AHEAD_NBYTES) -> BinaryIO:
        """Open a file for reading at any position.

        Args:
            path: The file.
            read_ahead: Bytes that one request of a remote file asks for; small where few bytes are read here and there.

        Returns:
            The file; the caller closes it. What reading it raises is an OSError.

        Raises:
            OSError: It cannot be opened.
        """
        name = local_path(path)
        return remote.opened(path, read_ahead, self.storage_options) if name is None else open(name, "rb")

    def read(self, file: Stamp) -> bytes:
        """Return a whole file.

        Raises:
            SourceChanged: It has another size than it was listed with.
            OSError: It cannot be read.
        """
        found = self.read_all([file])[0]
        if isinstance(found, OSError):
            raise found
        return found

    def read_all(self, files: Sequence[Stamp]) -> list[bytes | OSError]:
        """Return several files, each whole; remote ones are fetched many at once.

        Returns:
            Each file's bytes, or why it cannot be read.

        Raises:
            SourceChanged: One has another size than it was listed with.
        """
        names = [local_path(file.path) for file in files]
        if None in names:
            found = remote.read_all([file.path for file in files], self.storage_options)
        else:
            found = [_try_read(cast("str", name), file.nbytes) for name, file in zip(names, files, strict=True)]
        for file, data in zip(files, found, strict=True):
            if isinstance(data, bytes) and len(data) != file.nbytes:
                raise _changed(file, f"{len(data)} bytes{' or more' if len(data) > file.nbytes else ''}")
        return found

    @contextmanager
    def local(self, file: Stamp) -> Iterator[str]:
        """Give a local path of a file, for libraries that open nothing else: its own, or that of a copy for a while.

        Raises:
            OSError: It cannot be read, or there is no room for the copy.
        """
        name = local_path(file.path)
        if name is not None:
            yield name
            return
        with tempfile.TemporaryDirectory(prefix="datafeed-") as folder:
            copy = os.path.join(folder, base_name(file.path) or "file")
            with self.open(file.path) as source, open(copy, "wb") as target:
                shutil.copyfileobj(source, target, READ_AHEAD_NBYTES)
            yield copy

    def check_unchanged(self, files: Sequence[Stamp]) -> None:
        """Compare files with how they were listed.

        A remote file that is read whole is judged by its size as it comes; asking for the version of each of many
        would double the requests, so that is done for a few only.

        Raises:
            SourceChanged: One has another size or version, or is gone.
        """
        for file in files if len(files) <= _ASKED_AGAIN else [file for file in files if local_path(file.path)]:
            try:
                found = remote.difference(file, self.storage_options) if _far(file) else listing.difference(file)
            except FileNotFoundError as exc:
                raise SourceChanged(f"{shown(file.path)} was listed, and is gone: {_NEXT}") from exc
            if found:
                raise _changed(file, found)


_ASKED_AGAIN = 4
_NEXT = "let nothing write to the source, then convert it anew to an empty destination"


def _far(file: Stamp) -> bool:
    return local_path(file.path) is None


def _changed(file: Stamp, found: str) -> SourceChanged:
    return SourceChanged(
        f"{shown(file.path)} changed while it was converted: listed with {file.nbytes} bytes and version "
        f"{file.version}, found {found}: {_NEXT}"
    )


def _try_read(path: str, nbytes: int) -> bytes | OSError:
    """Read a whole file; one byte more is asked for, so that growth is seen."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.read(handle, nbytes + 1)
            while len(data) < nbytes and (more := os.read(handle, nbytes + 1 - len(data))):
                data += more
        finally:
            os.close(handle)
    except OSError as exc:
        return exc
    return data


def open_failed(path: str, error: OSError) -> SourceError:
    """Return the error of a file that cannot be read at all."""
    return SourceError(f"{shown(path)} cannot be read: {error.strerror or error}; {listing.NEXT}")
