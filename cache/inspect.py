"""Look after cache directories from outside a run: what they hold, what is wrong with it, what may go."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from datafeed.cache.directory import Directory, DiskOptions
from datafeed.cache.entry import HEADER_NBYTES
from datafeed.cache.evict import Listed
from datafeed.cache.files import Files
from datafeed.cache.folder import NAME, Folder, open_folder
from datafeed.cache.sessions import Reader
from datafeed.errors import ConfigError, DatafeedError, OutputError, OutputLocked

_THREADS = 4  # checksums let go of the GIL; a disk gives little more to more of them
_AT_A_TIME = 256


@dataclass(frozen=True, slots=True)
class Held:
    """Say what a cache directory holds of one dataset.

    Args:
        dataset: Its id.
        url: Where it is; None where that was not noted.
        whole: The stored bytes of all of it; None where that was not noted.
        entries: How many extents are held.
        nbytes: What their files take.
        used_s: When it was opened, written to or read last, in seconds since 1970, as far as that is kept: to a day.
        readers: Who reads it now.
    """

    dataset: str
    url: str | None
    whole: int | None
    entries: int
    nbytes: int
    used_s: float
    readers: tuple[Reader, ...]

    @property
    def share(self) -> float | None:
        """Which share of the dataset is held, 0 to 1; None where its size was not noted."""
        if self.whole is None:
            return None
        return (self.nbytes - self.entries * HEADER_NBYTES) / self.whole if self.whole else 1.0


@dataclass(frozen=True, slots=True)
class Wrong:
    """Say what is wrong with an entry.

    Args:
        dataset: Its dataset's id.
        name: Its file's name.
        reason: What was found.
        deleted: Whether it is gone.
    """

    dataset: str
    name: str
    reason: str
    deleted: bool = False


@dataclass(slots=True)
class Checked:
    """Say what came of reading every entry."""

    entries: int = 0
    nbytes: int = 0
    wrong: list[Wrong] = field(default_factory=list)


@dataclass(slots=True)
class Cleared:
    """Say what was deleted, and what was not because somebody reads it."""

    entries: int = 0
    nbytes: int = 0
    kept: int = 0
    kept_nbytes: int = 0
    readers: list[Reader] = field(default_factory=list)


@contextmanager
def opened(path: str, budget: int = 0) -> Iterator[Directory]:
    """Open the cache in a directory, which must be there, and leave it at the end.

    Args:
        path: A tier's directory.
        budget: Its budget in bytes; 0 where nothing is to be admitted.

    Raises:
        ConfigError: There is no cache, or it is not this user's alone.
        OutputLocked: Another process holds its ledger.
        OutputError: Its volume fails.
    """
    with _told(path):
        directory = Directory(DiskOptions(base_of(path), budget), Files())
        try:
            yield directory
        finally:
            directory.close()


@contextmanager
def opened_folder(path: str) -> Iterator[Folder]:
    """Open the directories of a cache that must be there, and write nothing: its volume may be full.

    Raises:
        ConfigError: There is no cache, or it is not this user's alone.
        OutputError: Its volume fails.
    """
    with _told(path):
        yield open_folder(base_of(path), Files())


def base_of(path: str) -> str:
    """Return the directory of a tier that has a cache in it; the cache's own is one, too.

    Raises:
        ConfigError: There is no cache.
    """
    path = os.path.abspath(path)
    base = os.path.dirname(path) if os.path.basename(path) == NAME else path
    own = f"{base}/{NAME}"
    try:
        found = all(name in os.listdir(own) for name in ("entries", "sessions", "ledger"))
    except (FileNotFoundError, NotADirectoryError):
        found = False
    except OSError as exc:
        raise ConfigError(f"cannot look into {own!r}: {exc.strerror}") from exc
    if not found:
        raise ConfigError(f"no cache in {base!r}: expected {NAME} in it, which a run or `datafeed cache stage` makes")
    return base


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn what the system says of a volume into an error that names the cache."""
    try:
        yield
    except DatafeedError:
        raise
    except TimeoutError as exc:
        raise OutputLocked(f"the cache {path}: {exc}; try again, or end that process") from exc
    except OSError as exc:
        raise OutputError(f"the cache {path} cannot be used: {exc.strerror or exc}") from exc


def held_by(directory: Directory) -> list[Held]:
    """Return what a directory holds of each dataset, and which others are read through it now."""
    found: dict[str, tuple[int, int, float]] = {}
    for entry in directory.entries():
        entries, nbytes, used_s = found.get(entry.dataset, (0, 0, 0.0))
        found[entry.dataset] = entries + 1, nbytes + entry.nbytes, max(used_s, entry.used_s)
    readers = directory.readers()
    for reader in readers:
        found.setdefault(reader.dataset, (0, 0, 0.0))
    return [_held(directory, dataset, *found[dataset], readers) for dataset in sorted(found)]


def _held(
    directory: Directory, dataset: str, entries: int, nbytes: int, used_s: float, readers: Collection[Reader]
) -> Held:
    about, opened_s = directory.about(dataset)
    own = tuple(reader for reader in readers if reader.dataset == dataset)
    url, whole = (None, None) if about is None else (about.url, about.nbytes)
    return Held(dataset, url, whole, entries, nbytes, max(used_s, opened_s), own)


def check(directory: Directory, on_progress: Callable[[int], None], *, delete: bool = False) -> Checked:
    """Read every entry, and compare its header and checksums.

    Args:
        directory: The cache.
        on_progress: Called with the bytes of each entry that was read.
        delete: Whether wrong ones that nobody reads now are deleted.

    Returns:
        What was found. Links, folders and the like in an entry's place are wrong, and never deleted.
    """
    done = Checked()
    entries = list(directory.entries())
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="datafeed-verify") as pool:
        for start in range(0, len(entries), _AT_A_TIME):
            part = entries[start : start + _AT_A_TIME]
            for entry, reason in zip(part, pool.map(directory.verify, part), strict=True):
                done.entries += 1
                done.nbytes += entry.nbytes
                on_progress(entry.nbytes)
                if reason:
                    done.wrong.append(Wrong(entry.dataset, entry.name, reason, delete and directory.delete(entry)))
    done.wrong.sort(key=lambda wrong: (wrong.dataset, wrong.name))
    done.wrong += [Wrong(dataset, name, "it is no file") for dataset, name in directory.odd()]
    if any(wrong.deleted for wrong in done.wrong):
        directory.recount()  # the books had the sizes that they should have had
    return done


def named(directory: Directory, dataset: str) -> list[str]:
    """Return the ids of the held datasets that a person names by their id, or by the URL that was noted."""
    return [held.dataset for held in held_by(directory) if dataset in (held.dataset, held.url)]


def clear(directory: Directory, datasets: Collection[str] | None, on_progress: Callable[[int], None]) -> Cleared:
    """Delete the entries of datasets that nobody reads now. Other files are left alone.

    Args:
        directory: The cache.
        datasets: Their ids; None for all.
        on_progress: Called with the bytes of each entry that was deleted.
    """
    done = Cleared()
    read: Mapping[str, Reader] = {reader.dataset: reader for reader in directory.readers()}
    for entry in list(directory.entries()):
        if datasets is not None and entry.dataset not in datasets:
            continue
        if entry.dataset not in read and directory.delete(entry):
            done.entries += 1
            done.nbytes += entry.nbytes
            on_progress(entry.nbytes)
        elif _is_there(directory, entry):
            done.kept += 1
            done.kept_nbytes += entry.nbytes
    done.readers = [reader for name, reader in read.items() if datasets is None or name in datasets]
    if done.entries:
        directory.recount()
    return done


def _is_there(directory: Directory, entry: Listed) -> bool:
    return os.path.lexists(f"{directory.folder.path}/entries/{entry.dataset}/{entry.name}")
