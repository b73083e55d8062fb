"""List the files of a raw data set."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from datafeed.converters.source import Stamp
from datafeed.errors import SourceNotFound


def stamp(path: str) -> Stamp:
    """Return a file's size and time of change.

    Raises:
        OSError: It cannot be looked at.
    """
    found = os.stat(path)
    return Stamp(path, found.st_size, found.st_mtime_ns)


def list_files(path: str, suffixes: Sequence[str]) -> list[str]:
    """List the files that a path names, sorted.

    Args:
        path: A file, a glob pattern, or a folder, whose files are taken at any depth. Hidden files and folders are
            passed over, and a folder that a link leads back to is entered once.
        suffixes: Which files of a folder count, by the end of their names in any case; a file named directly or by a
            pattern counts whatever its name.

    Returns:
        The paths; none where a folder holds no such file.

    Raises:
        SourceNotFound: Nothing is there; the message names the nearest folder that exists.
    """
    if os.path.isdir(path):
        return sorted(_walk(path, tuple(suffix.lower() for suffix in suffixes)))
    if os.path.exists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise SourceNotFound(f"no file or folder {path!r}; the nearest folder that exists is {_nearest(path)!r}")
    return [name for name in found if not os.path.isdir(name)]


def _walk(folder: str, suffixes: tuple[str, ...]) -> list[str]:
    found, seen = [], set()
    for here, folders, files in os.walk(folder, followlinks=True):
        status = os.stat(here)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [os.path.join(here, name) for name in files if name[0] != "." and name.lower().endswith(suffixes)]
    return found


def _nearest(path: str) -> str:
    return next((str(parent) for parent in Path(path).absolute().parents if parent.is_dir()), "/")
