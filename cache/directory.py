"""Keep extents as files of a directory that processes share; what its volume does wrong is raised."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Literal

from datafeed.cache.about import About, read_about, write_about
from datafeed.cache.breaker import RETRY_S
from datafeed.cache.entry import HEADER_NBYTES, ExtentKey, encode_header, find_fault
from datafeed.cache.evict import Listed, Victims, list_entries, list_odd
from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import Folder, open_folder, open_private
from datafeed.cache.ledger import Ledger, Usage
from datafeed.cache.policy import Policy
from datafeed.cache.sessions import Needed, Reader, Sessions

Admission = Literal["written", "there", "no room"]
SLOW_S = 5.0
_LOCK_S = 10.0  # for the ledger, whose holders do a scan at the most
_POLL_S = 0.005
_YOUNG = 8  # a hit renews an entry's stamp once an eighth of the entries came after it: hardly any hit writes
_LEAST_YOUNG = 64
_FLOOR_SHARE = 20  # a twentieth of the volume stays free for others,
_FLOOR_NBYTES = 10**10  # but no more than this


@dataclass(frozen=True, slots=True)
class DiskOptions:
    """Say what a disk tier may use.

    Args:
        path: A directory that exists.
        budget: Bytes that all datasets and processes share there.
        policy: What is kept.
        keep_free: Bytes of the volume that are left to others; None for a twentieth of it, at most 10 GB.
        retry_s: Seconds after which what failed is tried again.
        slow_s: Seconds that a look-up may take before the tier counts as hung.
    """

    path: str
    budget: int
    policy: Policy = "epoch"
    keep_free: int | None = None
    retry_s: float = RETRY_S
    slow_s: float = SLOW_S


class EntryFault(Exception):
    """Report a file that is not the entry whose name it has.

    Args:
        reason: What was found.
        kind: Whether the disk damaged it, somebody put it there, or it is no file at all.
    """

    def __init__(self, reason: str, kind: str = "damaged") -> None:
        super().__init__(reason)
        self.kind = kind


class Directory:
    """Take part in a cache directory. Safe to share between threads; a forked child opens its own.

    Args:
        options: What may be used.
        files: What does the file operations.

    Attributes:
        pid: The process that opened it.
        evicted: Entries that this process evicted.

    Raises:
        ConfigError: The directory is not there, or not this user's alone.
        OSError: The volume fails.
        TimeoutError: Another process holds the ledger.
    """

    def __init__(self, options: DiskOptions, files: Files) -> None:
        self.pid = os.getpid()
        self._options = options
        self._files = files
        self._numbers = itertools.count()
        self._folders: dict[str, Descriptor] = {}
        self._locks: dict[str, Descriptor] = {}
        self._renew_after = 0
        self.folder: Folder = open_folder(options.path, files)
        self._ledger = Ledger(self.folder, files, partial(_count, self.folder, files))  # not a method: no cycle
        with self._ledger.locked(_LOCK_S) as usage:
            self._sessions = Sessions(self.folder, files)
            unclean = self._sessions.sweep()
            self._turn = usage.turn
        self._victims = Victims(self.folder, self._sessions, files, options.policy)
        self._leave = weakref.finalize(self, _leave, self.pid, self._sessions, self._ledger)
        if unclean:  # on a thread: a large cache takes seconds, and the first batch must not wait
            threading.Thread(target=_recount, args=(self._ledger,), name="datafeed-recount", daemon=True).start()

    @property
    def evicted(self) -> int:
        """How many entries this process evicted."""
        return self._victims.evicted

    def check(self) -> None:
        """Raise FileNotFoundError where the directory was deleted."""
        if not os.fstat(self.folder.root.fd).st_nlink:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.folder.path)

    def publish(self, dataset: str, needed: Needed | None) -> None:
        """Say what this process reads (see `Sessions.publish`)."""
        self._sessions.publish(dataset, needed)

    def readers(self) -> list[Reader]:
        """Return who reads what now."""
        with self._ledger.locked(_LOCK_S):
            return self._sessions.readers()

    def describe(self, dataset: str, about: About) -> None:
        """Note what a dataset is."""
        name = f"{self._sessions.name}-{next(self._numbers)}"
        write_about(about, self._files, self._dataset(dataset), self.folder.tmp, name)

    def about(self, dataset: str) -> tuple[About | None, float]:
        """Return what is noted of a dataset, and when it was opened last, in seconds since 1970."""
        return read_about(self._files, self._dataset(dataset))

    def find(self, key: ExtentKey) -> Descriptor | None:
        """Open an entry; None where there is none. While the descriptor is open nobody evicts it.

        Raises:
            EntryFault: Something else has its name.
        """
        try:
            file = self._files.open(key.name, os.O_RDONLY, self._dataset(key.dataset))
        except FileNotFoundError:
            return None
        except OSError as exc:
            if exc.errno != errno.ELOOP:
                raise
            raise EntryFault("a symbolic link stood there", "planted") from exc
        status = os.fstat(file.fd)
        self._check(key, file, status)
        self._files.try_lock(file, fcntl.LOCK_SH)
        if self._turn - status.st_mtime_ns > self._renew_after > 0:
            os.utime(file.fd, ns=(self._turn, self._turn))
        return file

    def _check(self, key: ExtentKey, file: Descriptor, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise EntryFault("it is no file", "odd")
        if status.st_nlink > 1:
            raise EntryFault("it has another name elsewhere", "planted")
        if status.st_size != key.file_nbytes:
            raise EntryFault(f"expected {key.file_nbytes:,} bytes, found {status.st_size:,}")
        fault = find_fault(self._files.read(file, HEADER_NBYTES, 0), key)
        if fault:
            raise EntryFault(fault)

    def admit(self, key: ExtentKey, data: memoryview, limit: int) -> Admission:
        """Keep an extent, if there is room within a limit; one that is there, unread, is not written again."""
        with self._ledger.locked(_LOCK_S) as usage:
            there = self._nbytes(key)
            if there == key.file_nbytes:
                return "there"
            if not self._victims.make_room(usage, key, limit, self.floor()):
                return "no room"
            usage.add(key.dataset, key.file_nbytes - there)
            usage.turn += 1
            turn = usage.turn
            self._renew_after = max(_LEAST_YOUNG, usage.nbytes // key.file_nbytes // _YOUNG)
        self._turn = turn
        try:
            self._write(key, data, turn)
        except BaseException:
            with self._ledger.locked(_LOCK_S) as usage:
                usage.add(key.dataset, -key.file_nbytes)
            raise
        return "written"

    def drop(self, key: ExtentKey, file: Descriptor | None = None) -> bool:
        """Delete an entry, or what has its name, whoever reads it.

        Args:
            key: The entry.
            file: What was found open; where that is gone already, what has its name now is another's and stays.

        Returns:
            Whether it was there.
        """
        with self._ledger.locked(_LOCK_S) as usage, suppress(FileNotFoundError):
            if file is None or os.fstat(file.fd).st_nlink:
                self._files.unlink(key.name, self._dataset(key.dataset))
                usage.add(key.dataset, -key.file_nbytes)
                return True
        return False

    @contextmanager
    def alone(self, key: ExtentKey, timeout_s: float) -> Iterator[None]:
        """Hold an extent's lock among processes.

        Args:
            key: The extent.
            timeout_s: How long to wait for it.

        Raises:
            TimeoutError: Another process held it for so long.
        """
        locks = self._locks.get(key.dataset)
        if locks is None:
            folder = self._dataset(key.dataset)
            locks = self._locks[key.dataset] = self._files.open(".locks", os.O_RDWR | os.O_CREAT, folder)
        end = time.monotonic() + timeout_s
        while not self._files.try_range(locks, key.number):
            if time.monotonic() > end:
                raise TimeoutError(f"another process fetched extent {key.number} for {timeout_s:.0f} s")
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self._files.free_range(locks, key.number)

    def entries(self) -> Iterator[Listed]:
        """List the entries of all datasets."""
        yield from list_entries(self.folder, self._files)

    def odd(self) -> Iterator[tuple[str, str]]:
        """List what has an entry's name and is no file, by dataset and name."""
        yield from list_odd(self.folder, self._files)

    def delete(self, entry: Listed) -> bool:
        """Delete an entry that nobody reads now; return whether it is gone."""
        with self._ledger.locked(_LOCK_S) as usage:
            return self._victims.evict(usage, entry)

    def verify(self, entry: Listed) -> str:
        """Read an entry; return what is wrong with it, empty where nothing is."""
        return self._victims.verify(entry)

    def usage(self) -> Usage:
        """Return what the directory holds, as all processes count it."""
        with self._ledger.locked(_LOCK_S) as usage:
            return Usage(dict(usage.used), usage.turn)

    def room(self, dataset: str) -> int:
        """Return how many bytes more a dataset that is read can hold, once all that gives way to it is gone."""
        with self._ledger.locked(_LOCK_S):
            return self._victims.room(dataset, self._options.budget, self.floor())

    def floor(self) -> int:
        """Return how many bytes of the volume are left to others."""
        if self._options.keep_free is not None:
            return self._options.keep_free
        volume = self._files.free(self.folder.root)
        return min(volume.f_blocks * volume.f_frsize // _FLOOR_SHARE, _FLOOR_NBYTES)

    def free(self) -> int:
        """Return how many bytes of the volume are free."""
        volume = self._files.free(self.folder.root)
        return volume.f_bavail * volume.f_frsize

    def recount(self) -> None:
        """Count anew what the directory holds."""
        self._ledger.recount(_LOCK_S)

    def close(self) -> None:
        """Leave; what was locked or unfinished is gone."""
        self._leave()

    def _nbytes(self, key: ExtentKey) -> int:
        """Return what stands in an entry's place takes; 0 where nothing does, or no file."""
        try:
            status = os.stat(key.name, dir_fd=self._dataset(key.dataset).fd, follow_symlinks=False)
        except FileNotFoundError:
            return 0
        return status.st_size if stat.S_ISREG(status.st_mode) else 0

    def _dataset(self, dataset: str) -> Descriptor:
        folder = self._folders.get(dataset)
        if folder is None:
            folder = self._folders[dataset] = open_private(dataset, self.folder.entries, self._files)
        return folder

    def _write(self, key: ExtentKey, data: memoryview, turn: int) -> None:
        """Write under a temporary name, then rename; not synced: what a power cut leaves half is found on reading."""
        name = f"{self._sessions.name}-{next(self._numbers)}"
        try:
            file = self._files.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, self.folder.tmp)
            self._files.write(file, (encode_header(key, data), data))
            os.utime(file.fd, ns=(turn, turn))
            self._files.rename(name, self.folder.tmp, key.name, self._dataset(key.dataset))
        except BaseException:
            with suppress(OSError):  # the error on its way says more than this one would
                self._files.unlink(name, self.folder.tmp)
            raise


def _count(folder: Folder, files: Files) -> dict[str, int]:
    used: dict[str, int] = {}
    for entry in list_entries(folder, files):
        used[entry.dataset] = used.get(entry.dataset, 0) + entry.nbytes
    return used


def _recount(ledger: Ledger) -> None:
    with suppress(OSError, ValueError):  # whoever meets the fault next says so
        ledger.recount(_LOCK_S)


def _leave(pid: int, sessions: Sessions, ledger: Ledger) -> None:
    """Leave in the process that came; a forked child has nothing to leave."""
    if pid == os.getpid():
        with suppress(OSError):
            sessions.close()
        ledger.close()
