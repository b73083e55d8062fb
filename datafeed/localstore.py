"""Keep named objects in a local directory."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from typing_extensions import Buffer

from datafeed.errors import OutputError, OutputFull, ShardMissing, TruncatedShard
from datafeed.sizes import counted, format_size

OPEN_FILES = 128  # over twice the default 48 lanes, an eighth of the usual limit of 1024 descriptors
_TMP = ".tmp"
_WRITE_BACK_NBYTES = 8 * 2**20
_COUNT = itertools.count()
_libc = ctypes.CDLL(None)
_SYNC_FILE_RANGE_WRITE = 2  # of linux/fs.h: begin, do not wait


class OpenFile:
    """Own a descriptor: closed when the last thread that reads from it lets go.

    Attributes:
        fd: For reads at positions: its own offset belongs to nobody.
    """

    __slots__ = ("fd",)

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class LocalStore:
    """Keep objects as files of a directory. Reads use positions, never a shared offset, so any thread or fork may read.

    Args:
        path: The directory; made at the first write.
    """

    def __init__(self, path: str) -> None:
        self.url = path.rstrip("/") or "/"
        self._files: dict[str, OpenFile] = {}

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (self.url,)

    def __repr__(self) -> str:
        return f"LocalStore({self.url!r})"

    def _path(self, name: str) -> str:
        return f"{self.url}/{name}"

    def open(self, name: str) -> OpenFile:
        """Return the open file of an object: the same to all who ask, while it is kept open.

        Raises:
            ShardMissing: There is none.
        """
        file = self._files.get(name)
        if file is None:
            try:
                file = self._files[name] = OpenFile(self._path(name))
            except FileNotFoundError as exc:
                raise ShardMissing(f"no file {self._path(name)!r}") from exc
            # One dict operation at a time is atomic: no lock that a fork could leave held.
            for old in list(self._files)[:-OPEN_FILES]:
                self._files.pop(old, None)
        return file

    def read(self, name: str) -> bytes:
        """Return a whole object (see `Store`)."""
        with open(self._path(name), "rb") as file:
            return file.read()

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return part of an object (see `Store`)."""
        file = self.open(name)
        data = os.pread(file.fd, end - start, start)
        if len(data) != end - start:
            buffer = bytearray(end - start)
            self.read_into(name, start, memoryview(buffer))
            return bytes(buffer)
        return data

    def read_into(self, name: str, start: int, into: memoryview) -> None:
        """Fill a view from an object (see `Store`)."""
        file = self.open(name)
        filled = os.preadv(file.fd, (into,), start)
        while filled < into.nbytes:
            more = os.preadv(file.fd, (into[filled:],), start + filled)
            if not more:
                nbytes = os.fstat(file.fd).st_size
                found = f"expected bytes {start} to {start + into.nbytes}, but the file ends at {nbytes}"
                raise TruncatedShard(found, shard=name, offset=start + filled)
            filled += more

    def size(self, name: str) -> int:
        """Return an object's size (see `Store`)."""
        return os.stat(self._path(name)).st_size

    def exists(self, name: str) -> bool:
        """Tell whether an object is there (see `Store`)."""
        return os.path.isfile(self._path(name))

    def names(self) -> list[str]:
        """List the plain names, without those of unfinished writes (see `Store`)."""
        try:
            with os.scandir(self.url) as entries:
                return sorted(entry.name for entry in entries if entry.is_file() and not _unfinished(entry.name))
        except FileNotFoundError:
            return []

    def folders(self) -> list[str]:
        """List the directories inside (see `Store`)."""
        try:
            with os.scandir(self.url) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def delete(self, name: str) -> None:
        """Delete an object (see `Store`), with the nested directory that it leaves empty."""
        self._files.pop(name, None)
        os.unlink(self._path(name))
        if "/" in name:
            with suppress(OSError):  # not empty: others stand beside it
                os.rmdir(self._path(name.rsplit("/", 1)[0]))

    def sweep(self) -> None:
        """Delete unfinished writes, nested ones too (see `Store`)."""
        for path in _unfinished_files(self.url):
            with suppress(FileNotFoundError):
                os.unlink(path)

    @contextmanager
    def writer(self, name: str) -> Iterator[_Writer]:
        """Write an object under a temporary name, then rename it (see `Store`)."""
        path = self._path(name)
        folder, base = path.rsplit("/", 1)
        temporary = f"{folder}/.{base}.{os.getpid()}-{next(_COUNT)}{_TMP}"
        with _mapped(path, 0, self.url):
            os.makedirs(folder or "/", exist_ok=True)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        existed = os.path.lexists(path)
        left = temporary  # what must not stay after an exception
        try:
            try:
                yield _Writer(fd, path, self.url)
                with _mapped(path, 0, self.url):
                    os.fsync(fd)
            finally:
                with _mapped(path, 0, self.url):
                    os.close(fd)
            with _mapped(path, 0, self.url):
                os.replace(temporary, path)
                left = (
                    "" if existed else path
                )  # where it replaced another, nothing would be worse than the whole new one
                _sync_folder(folder or "/")
                left = ""
            self._files.pop(name, None)
        finally:
            if left:
                with suppress(OSError):  # the error on its way says more than this one would
                    os.unlink(left)


class _Writer:
    __slots__ = ("_fd", "_on_the_way", "_path", "_root", "nbytes")

    def __init__(self, fd: int, path: str, root: str) -> None:
        self._fd = fd
        self._path = path
        self._root = root
        self._on_the_way = 0
        self.nbytes = 0

    def write(self, data: Buffer) -> None:
        view = memoryview(data).cast("B")
        with _mapped(self._path, self.nbytes + view.nbytes, self._root):
            while view.nbytes:
                written = os.write(self._fd, view)
                self.nbytes += written
                view = view[written:]
        if self.nbytes - self._on_the_way >= _WRITE_BACK_NBYTES:
            _start_write_back(self._fd, self._on_the_way, self.nbytes - self._on_the_way)
            self._on_the_way = self.nbytes


def _start_write_back(fd: int, start: int, nbytes: int) -> None:
    """Have the kernel send what was written to the disk while more is made, so that fsync waits for the rest alone.

    A failure is told by fsync.
    """
    _libc.sync_file_range(fd, ctypes.c_int64(start), ctypes.c_int64(nbytes), _SYNC_FILE_RANGE_WRITE)


def file_in_the_way(path: str) -> str:
    """Return the part of a directory's path that is no directory; empty where there is none."""
    while path and not os.path.lexists(path):
        path = os.path.dirname(path)
    return path if path and not os.path.isdir(path) else ""


@contextmanager
def _mapped(path: str, nbytes: int, root: str) -> Iterator[None]:
    """Turn an OSError of a write into ours, with the numbers."""
    try:
        yield
    except OSError as exc:
        folder = path.rsplit("/", 1)[0]
        if exc.errno not in {errno.ENOSPC, errno.EDQUOT}:
            other = file_in_the_way(folder)
            reason = f"{other!r} is no directory" if other else exc.strerror
            raise OutputError(exc.errno, f"cannot write: {reason}", path) from exc
        text = f"no room ({exc.strerror}): {path} needs {format_size(nbytes)} at least, {_free(folder, root)}"
        raise OutputFull(exc.errno, f"{text}; free some or choose another place, then run the same command") from exc


def _free(folder: str, root: str) -> str:
    """Say what is free once what writes of this store have left unfinished is removed, which it then is."""
    try:
        status = os.statvfs(folder)
        unfinished = sum(os.stat(path).st_blocks for path in _unfinished_files(root)) * 512
    except OSError as exc:
        return f"free space of {folder} unknown: {exc.strerror}"
    free = format_size(status.f_bavail * status.f_frsize + unfinished)
    return f"{free} and {counted(status.f_favail, 'inode')} are free at {folder}"


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _unfinished_files(root: str) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        yield from (f"{folder}/{name}" for name in names if _unfinished(name))


def _unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(_TMP)
