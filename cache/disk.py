"""Keep extents on a disk that may fail: what it does wrong is a miss, and it is left alone for a while."""

from __future__ import annotations

import errno
import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from datafeed.cache.about import About
from datafeed.cache.breaker import Breaker
from datafeed.cache.directory import Directory, DiskOptions, EntryFault
from datafeed.cache.entry import HEADER_NBYTES, ExtentKey, is_whole
from datafeed.cache.evict import Listed
from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import warn_of_volume
from datafeed.cache.ledger import Usage
from datafeed.cache.sessions import Needed
from datafeed.cache.slow import files_at
from datafeed.errors import ConfigError
from datafeed.sizes import format_size

_MOST_DAMAGED = 3
_DAMAGE_S = 3600.0
_GONE = {errno.ENOENT, errno.ESTALE, errno.ENOTDIR}
_LOWERED = 10  # retries; a volume that others fill empties again
_FULL = {errno.ENOSPC, errno.EDQUOT}
_log = logging.getLogger("datafeed.cache")
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class DiskCounters:
    """Count what this process did with a disk tier."""

    hits: int = 0
    admitted: int = 0
    admitted_nbytes: int = 0
    damaged: int = 0


class DiskTier:
    """Keep the stored bytes of extents. Safe to share between threads and, by its directory, between processes.

    What the disk does wrong is no error: what cannot be read is a miss, and what cannot be written is not kept.

    Args:
        name: What people call it: "nvme".
        options: What it may use.
        files: What does the file operations.

    Raises:
        ConfigError: Its directory is not there, or not this user's alone.
    """

    def __init__(self, name: str, options: DiskOptions, files: Files | None = None) -> None:
        self.name = name
        self.options = options
        self.counters = DiskCounters()
        self._files = files or files_at(options.path)
        self._reads = Breaker(f"reading from the {name} cache {options.path}", options.retry_s)
        self._writes = Breaker(f"writing to the {name} cache {options.path}", options.retry_s)
        self._damaged = Breaker(f"the {name} cache {options.path}")
        self._lowered = (0, -math.inf)
        self._damage: deque[float] = deque(maxlen=_MOST_DAMAGED)
        self._odd: set[ExtentKey] = set()
        self._wanted: tuple[str, Needed | None] | None = None
        self._opening = threading.Lock()
        self._directory: Directory | None = None
        try:
            self._open()
            warn_of_volume(options.path)
        except OSError as exc:  # a TimeoutError is one
            self._failed(self._writes, exc)

    def read_by(self, dataset: str, needed: Needed | None) -> None:
        """Say which dataset this process reads, so that others leave its entries alone.

        Args:
            dataset: Its id.
            needed: By extent, whether this process will read it again; None for all.
        """
        self._wanted = (dataset, needed)
        self._tried(self._writes, lambda: self._open().publish(dataset, needed))

    def describe(self, dataset: str, about: About) -> None:
        """Note what a dataset is, for people; what hinders it, others meet."""
        with suppress(OSError, ConfigError):
            self._open().describe(dataset, about)

    @property
    def fault(self) -> str:
        """Why nothing is written now; empty where something may be."""
        return self._writes.reason

    def find(self, key: ExtentKey) -> Descriptor | None:
        """Open an extent's file, if it is kept: its stored bytes begin at `HEADER_NBYTES`.

        While the descriptor is open nobody evicts it.
        """
        if self._reads.is_off:
            return None
        started = time.monotonic()
        found = self._tried(self._reads, self._find, key)
        took_s = time.monotonic() - started
        if took_s > self.options.slow_s:
            self._reads.trip(f"a look-up took {took_s:.0f} s", self.options.retry_s)
        elif found is not None:
            self.counters.hits += 1
            self._reads.works()
        return found

    def admit(self, key: ExtentKey, data: memoryview) -> bool:
        """Keep an extent, if there is room for it.

        Args:
            key: The extent.
            data: Its stored bytes.

        Returns:
            Whether it is kept.
        """
        if self._writes.is_off or key in self._odd:
            return False
        became = self._tried(self._writes, lambda: self._open().admit(key, data, self._limit))
        if became == "written":
            self.counters.admitted += 1
            self.counters.admitted_nbytes += key.nbytes
            self._writes.works()
        return became in {"written", "there"}

    def read_wrong(self, key: ExtentKey, file: Descriptor, reason: str) -> None:
        """Delete an entry whose frames are not the right ones; it counts against the disk if the disk changed it.

        Where several find that out, the first one does: what stands there since then is right.

        Args:
            key: The extent.
            file: Its open file.
            reason: What was found.
        """
        self._tried(self._reads, self._read_wrong, key, file, reason)

    def read_into(self, file: Descriptor, into: memoryview, offset: int) -> int:
        """Read from an open entry; return how many bytes there were.

        Raises:
            OSError: The volume fails.
        """
        return self._files.read_into(file, into, offset)

    def discard(self, key: ExtentKey) -> None:
        """Delete an extent, if it is kept."""
        self._tried(self._writes, lambda: self._open().drop(key))

    @contextmanager
    def alone(self, key: ExtentKey, timeout_s: float) -> Iterator[None]:
        """Hold an extent's lock among processes, so that one of them fetches it; without it, where that fails.

        Args:
            key: The extent.
            timeout_s: How long to wait for it.
        """
        with ExitStack() as stack:
            if not self._writes.is_off:
                self._tried(self._writes, lambda: stack.enter_context(self._open().alone(key, timeout_s)))
            yield

    def entries(self) -> list[Listed]:
        """List what is kept, of all datasets.

        Raises:
            OSError: The volume fails; the functions below raise it, too.
        """
        return list(self._open().entries())

    def delete(self, entry: Listed) -> bool:
        """Delete an entry that nobody reads now; return whether it is gone."""
        return self._open().delete(entry)

    def verify(self, entry: Listed) -> str:
        """Read an entry; return what is wrong with it, empty where nothing is."""
        return self._open().verify(entry)

    def usage(self) -> Usage:
        """Return what the directory holds, as all processes count it."""
        return self._open().usage()

    def room(self, dataset: str) -> int:
        """Return how many bytes more a dataset that is read can hold, once all that gives way to it is gone."""
        return self._open().room(dataset)

    def free(self) -> tuple[int, int]:
        """Return how many bytes of the volume are free, and how many of it are left to others."""
        directory = self._open()
        return directory.free(), directory.floor()

    def recount(self) -> None:
        """Count anew what the directory holds."""
        self._open().recount()

    def close(self) -> None:
        """Leave the directory; what is used later opens it again."""
        with self._opening:
            directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()

    @property
    def evicted(self) -> int:
        """How many entries this process evicted."""
        return 0 if self._directory is None else self._directory.evicted

    @property
    def _limit(self) -> int:
        limit, until = self._lowered
        return limit if time.monotonic() < until else self.options.budget

    def _open(self) -> Directory:
        directory = self._directory
        if directory is None or directory.pid != os.getpid():
            with self._opening:
                directory = self._directory
                if directory is None or directory.pid != os.getpid():
                    directory = self._directory = Directory(self.options, self._files)
                    if self._wanted:
                        directory.publish(*self._wanted)
        directory.check()
        return directory

    def _find(self, key: ExtentKey) -> Descriptor | None:
        directory = self._open()
        try:
            return directory.find(key)
        except EntryFault as exc:
            if exc.kind != "odd":
                self._drop(key, str(exc), damaged=exc.kind == "damaged")
            elif key not in self._odd:
                self._odd.add(key)
                where = f"{directory.folder.path}/entries/{key.dataset}/{key.name}"
                _log.warning("%s is no file: it is left alone, and that extent is not kept", where)
        return None

    def _read_wrong(self, key: ExtentKey, file: Descriptor, reason: str) -> None:
        data = memoryview(bytearray(key.nbytes))
        header = self._files.read(file, HEADER_NBYTES, 0)
        whole = self._files.read_into(file, data, HEADER_NBYTES) == key.nbytes and is_whole(header, data)
        self._drop(key, "it was stored so" if whole else reason, file, damaged=not whole)

    def _drop(self, key: ExtentKey, reason: str, file: Descriptor | None = None, *, damaged: bool) -> None:
        if not self._open().drop(key, file):
            return
        _log.info("dropped extent %s of dataset %s from %s: %s", key.name, key.dataset, self.options.path, reason)
        if not damaged:
            return
        self.counters.damaged += 1
        self._damage.append(time.monotonic())
        if len(self._damage) == _MOST_DAMAGED and self._damage[-1] - self._damage[0] < _DAMAGE_S:
            what = f"{_MOST_DAMAGED} entries were damaged within an hour: the disk may be failing, and `datafeed cache"
            self._damaged.trip(f"{what} verify --delete` removes what else is wrong; the latest, {reason}", math.inf)
            for breaker in (self._reads, self._writes):
                breaker.trip(self._damaged.reason, math.inf, aloud=False)

    def _tried(self, breaker: Breaker, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Do something with the disk; None where that fails, which is then left alone for a while."""
        try:
            return work(*args, **kwargs)
        except ConfigError as exc:  # the directory was changed since the start
            breaker.trip(str(exc), self.options.retry_s)
        except OSError as exc:
            self._failed(breaker, exc)
        return None

    def _failed(self, breaker: Breaker, exc: OSError) -> None:
        if isinstance(exc, TimeoutError):
            breaker.trip(f"a lock was not to be had: {exc}", self.options.retry_s)
            return
        breaker.fail(exc, self._lower() if exc.errno in _FULL else "")
        if exc.errno in _GONE:
            self.close()

    def _lower(self) -> str:
        """Take what is used now for the limit, for a while: the volume does not hold more now. Say what is left."""
        with suppress(OSError, ConfigError):
            self._lowered = (min(self._limit, self.usage().nbytes), time.monotonic() + _LOWERED * self.options.retry_s)
        try:
            volume = self._files.free(self._open().folder.root)
        except (OSError, ConfigError) as exc:
            return f"({exc})"
        free = format_size(volume.f_bavail * volume.f_frsize)
        inodes = "no inodes" if volume.f_files and not volume.f_favail else f"{volume.f_favail:,} inodes"
        return f"({free} and {inodes} free; the limit is now {format_size(self._limit)})"
