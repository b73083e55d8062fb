"""Note beside a dataset's entries what it is, for people who look at a cache.

The file `.about` in the dataset's folder is JSON: the dataset's URL without secrets, its stored bytes, its extents. Its
modification time is when the dataset was last opened through the cache. Nothing depends on it.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass

from datafeed.cache.files import Descriptor, Files

_NAME = ".about"
_LARGEST = 2**16


@dataclass(frozen=True, slots=True)
class About:
    """Say what a dataset is.

    Args:
        url: Where it is, without secrets.
        nbytes: The stored bytes of its extents.
        extents: How many it has.
    """

    url: str
    nbytes: int
    extents: int


def write_about(about: About, files: Files, folder: Descriptor, tmp: Descriptor, name: str) -> None:
    """Write the note, or renew its time where it is there.

    Args:
        about: What it says.
        files: What does the file operations.
        folder: The dataset's.
        tmp: Where unfinished files are.
        name: What it is called there.

    Raises:
        OSError: The volume fails.
    """
    if read_about(files, folder)[0] == about:
        os.utime(_NAME, dir_fd=folder.fd, follow_symlinks=False)
        return
    file = files.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, tmp)
    files.write(file, [json.dumps(asdict(about)).encode()])
    files.rename(name, tmp, _NAME, folder)


def read_about(files: Files, folder: Descriptor) -> tuple[About | None, float]:
    """Return what the note says, None where there is none that can be read; and its time, in seconds since 1970."""
    try:
        file = files.open(_NAME, os.O_RDONLY, folder)
    except OSError:
        return None, 0.0
    status = os.fstat(file.fd)
    if not stat.S_ISREG(status.st_mode):
        return None, 0.0
    try:
        said = json.loads(files.read(file, _LARGEST, 0))
        return About(str(said["url"]), int(said["nbytes"]), int(said["extents"])), status.st_mtime
    except (OSError, ValueError, KeyError, TypeError):
        return None, status.st_mtime
