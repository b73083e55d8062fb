"""Find room in a cache directory: choose entries that may go, and delete them."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from datafeed.cache.entry import HEADER_NBYTES, ExtentKey, find_fault, is_whole, read_key
from datafeed.cache.files import Files
from datafeed.cache.folder import Folder
from datafeed.cache.ledger import Usage
from datafeed.cache.policy import Policy, giving_way
from datafeed.cache.sessions import Needed, Sessions

_DRY_S = 5.0  # after a search in vain; a full cache is asked for room with every extent that is fetched
_LEAST_LISTED = 16
_LISTED_SHARE = 8  # an eighth of the entries are listed at a time, since hits make others of them young meanwhile
_DATASET = re.compile("[0-9a-f]{32}")
_NAME = re.compile("[0-9]{10,19}")


@dataclass(frozen=True, slots=True)
class Listed:
    """Hold an entry as it was listed.

    Args:
        dataset: Its dataset's id.
        name: Its file's name, the extent's number.
        nbytes: What its file takes.
        turn: When it was admitted or last used, in admissions.
        used_s: When it was admitted or last read, in seconds since 1970, as far as its volume keeps that: to a day.
    """

    dataset: str
    name: str
    nbytes: int
    turn: int
    used_s: float = field(default=0.0, compare=False)


def list_entries(folder: Folder, files: Files) -> Iterator[Listed]:
    """List the entries of all datasets; what is no entry is passed over."""
    for dataset, found in _named(folder, files):
        with suppress(FileNotFoundError):
            status = found.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                used_s = max(status.st_ctime, status.st_atime)
                yield Listed(dataset, found.name, status.st_size, status.st_mtime_ns, used_s)


def list_odd(folder: Folder, files: Files) -> Iterator[tuple[str, str]]:
    """List what has an entry's name and is no file, by dataset and name."""
    for dataset, found in _named(folder, files):
        if not found.is_file(follow_symlinks=False):
            yield dataset, found.name


def _named(folder: Folder, files: Files) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Give what has an entry's name, with its dataset."""
    for dataset in files.entries(folder.entries):
        if _DATASET.fullmatch(dataset.name) and dataset.is_dir(follow_symlinks=False):
            with suppress(FileNotFoundError):
                opened = files.open(dataset.name, os.O_RDONLY | os.O_DIRECTORY, folder.entries)
                for found in files.entries(opened):
                    if _NAME.fullmatch(found.name):
                        yield dataset.name, found


class Victims:
    """Choose and delete entries. Everything happens under the ledger's lock.

    Args:
        folder: The cache directory.
        sessions: Who reads what.
        files: What does the file operations.
        policy: What may go.
    """

    def __init__(self, folder: Folder, sessions: Sessions, files: Files, policy: Policy) -> None:
        self._folder = folder
        self._sessions = sessions
        self._files = files
        self._policy = policy
        self._queue: deque[Listed] = deque()
        self._dry_until = 0.0
        self.evicted = 0

    @property
    def is_dry(self) -> bool:
        """Whether a search was in vain just now."""
        return time.monotonic() < self._dry_until

    def make_room(self, usage: Usage, key: ExtentKey, limit: int, floor: int) -> bool:
        """Evict until an entry fits.

        Args:
            usage: What is held; changed.
            key: Whose entry is to fit.
            limit: Bytes that may be held.
            floor: Bytes of the volume that must stay free.

        Returns:
            Whether it fits.
        """
        if self._fits(usage, key, limit, floor):
            return True
        if key.file_nbytes > limit or (self._policy == "epoch" and self.is_dry):
            return False
        for victim in self._victims(usage, key, limit):
            if self.evict(usage, victim):
                self.evicted += 1
                if self._fits(usage, key, limit, floor):
                    return True
        self._dry_until = time.monotonic() + _DRY_S
        return False

    def evict(self, usage: Usage, entry: Listed) -> bool:
        """Delete an entry, unless somebody reads it; return whether it is gone."""
        with suppress(FileNotFoundError):
            folder = self._files.open(entry.dataset, os.O_RDONLY | os.O_DIRECTORY, self._folder.entries)
            file = self._files.open(entry.name, os.O_RDONLY, folder)
            used_since = self._policy == "lru" and os.fstat(file.fd).st_mtime_ns != entry.turn
            if used_since or not self._files.try_lock(file, fcntl.LOCK_EX):
                return False
            self._files.unlink(entry.name, folder)
            usage.add(entry.dataset, -entry.nbytes)
            return True
        return False

    def verify(self, entry: Listed) -> str:
        """Read an entry; return what is wrong with it, empty where nothing is."""
        try:
            folder = self._files.open(entry.dataset, os.O_RDONLY | os.O_DIRECTORY, self._folder.entries)
            file = self._files.open(entry.name, os.O_RDONLY, folder)
        except FileNotFoundError:
            return ""
        if os.fstat(file.fd).st_nlink > 1:
            return "it has another name elsewhere"
        header = self._files.read(file, HEADER_NBYTES, 0)
        key = read_key(header)
        if key is None or key.dataset != entry.dataset or key.name != entry.name:
            return "its header is damaged" if key is None else find_fault(header, _renamed(key, entry))
        if entry.nbytes != key.file_nbytes:
            return f"expected {key.file_nbytes:,} bytes, found {entry.nbytes:,}"
        data = memoryview(bytearray(key.nbytes))
        if self._files.read_into(file, data, HEADER_NBYTES) != key.nbytes:
            return "it ended early"
        return "" if is_whole(header, data) else "the CRC32C of its stored bytes does not match"

    def room(self, dataset: str, limit: int, floor: int) -> int:
        """Return how many bytes more a dataset can hold, once all that gives way to it is gone.

        Args:
            dataset: Its id; somebody reads it.
            limit: Bytes that may be held.
            floor: Bytes of the volume that must stay free.
        """
        live = {dataset: None, **self._sessions.live()}
        own, others, spare = 0, 0, 0
        for entry in list_entries(self._folder, self._files):
            if self._policy == "lru" or not _is_needed(entry, live):
                spare += entry.nbytes
            elif entry.dataset == dataset:
                own += entry.nbytes
            else:
                others += entry.nbytes
        left = limit - own - others
        taken = max(0, min(others, limit // len(live) - own - left))  # of what others hold beyond an equal share
        volume = self._files.free(self._folder.root)
        return max(0, min(left + taken, volume.f_bavail * volume.f_frsize - floor + spare + taken))

    def _fits(self, usage: Usage, key: ExtentKey, limit: int, floor: int) -> bool:
        if usage.nbytes + key.file_nbytes > limit:
            return False
        volume = self._files.free(self._folder.root)
        return volume.f_bavail * volume.f_frsize >= floor + key.file_nbytes

    def _victims(self, usage: Usage, key: ExtentKey, limit: int) -> Iterator[Listed]:
        """Give entries that may go, in turn; the directory is listed once at the most."""
        live = {} if self._policy == "lru" else {key.dataset: None, **self._sessions.live()}
        giving = giving_way(key.dataset, key.file_nbytes, usage.used, live, limit)
        filled = False
        while self._queue or not filled:
            if not self._queue:
                self._fill(live, giving)
                filled = True
                continue
            entry = self._queue.popleft()
            if self._policy == "lru" or entry.dataset in giving or not _is_needed(entry, live):
                yield entry

    def _fill(self, live: Mapping[str, Needed | None], giving: tuple[str, ...]) -> None:
        listed = sorted(list_entries(self._folder, self._files), key=lambda entry: entry.turn)
        if self._policy == "lru":
            self._queue.extend(listed[: max(_LEAST_LISTED, len(listed) // _LISTED_SHARE)])
            return
        rank = {dataset: number for number, dataset in enumerate(giving, 1)}
        going = [(rank.get(e.dataset, 0) if _is_needed(e, live) else 0, e) for e in listed]
        may_go = [(number, e) for number, e in going if e.dataset in rank or not _is_needed(e, live)]
        self._queue.extend(e for _, e in sorted(may_go, key=lambda pair: pair[0]))


def _is_needed(entry: Listed, live: Mapping[str, Needed | None]) -> bool:
    """Tell whether somebody will read an entry again."""
    if entry.dataset not in live:
        return False
    needed = live[entry.dataset]
    number = int(entry.name)
    return needed is None or (number < len(needed) and bool(needed[number]))


def _renamed(key: ExtentKey, entry: Listed) -> ExtentKey:
    return ExtentKey(entry.dataset, key.shard, int(entry.name), key.offset, key.nbytes)
