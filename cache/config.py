"""Say which tiers a cache has, how much each may hold, and what it keeps."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_args

from datafeed.cache.directory import DiskOptions
from datafeed.cache.policy import Policy
from datafeed.errors import ConfigError
from datafeed.sizes import format_size, parse_size, some

ENVIRONMENT = "DATAFEED_CACHE"
_DISKS = ("nvme", "ebs")  # the fastest first
_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

Disk = tuple[str | os.PathLike[str], str | int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Name the tiers between a dataset's store and the loader, any subset of them.

    A size is bytes, or text as in "200GB", or a share as in "80%": of the volume for a disk, of the memory that this
    process may use for `host`, of the device's for `vram`.

    Args:
        ebs: A directory on a slower disk, and its budget; all processes that name it share both.
        nvme: The same on a faster disk.
        host: How much decoded data this process keeps in memory, with what is in flight from the store.
        policy: "epoch" keeps what the next epoch needs, whatever comes; "lru" what was used last.
        vram: How many bytes of samples a Loader keeps on its device, as the tensors that its batches are made of. It
            needs `device=`, and features of a fixed shape (numbers, decoded images) that no draw changes.

    Raises:
        ConfigError: A value is not what it should be; it is named.
    """

    ebs: Disk | None = None
    nvme: Disk | None = None
    host: str | int | None = None
    vram: str | int | None = None
    policy: Policy = "epoch"

    def __post_init__(self) -> None:
        if self.policy not in get_args(Policy):
            raise ConfigError(f"policy must be 'epoch' or 'lru', found {self.policy!r}")
        for name in _DISKS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checked_disk(name, getattr(self, name)))
        for name in ("host", "vram"):
            if getattr(self, name) is not None:
                _check_size(name, getattr(self, name))
        if self.ebs is not None and self.nvme is not None and self.ebs[0] == self.nvme[0]:
            raise ConfigError(f"ebs and nvme are both {os.fspath(self.ebs[0])!r}: name two directories, or one tier")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Cache:
        """Read a TOML file whose keys are the arguments: `nvme = ["/mnt/nvme", "200GB"]`.

        Raises:
            ConfigError: It is not there, is no TOML, or holds something else.
        """
        try:
            found = tomllib.loads(Path(path).read_text("utf-8"))
        except OSError as exc:
            raise ConfigError(f"cannot read the cache's settings {os.fspath(path)!r}: {exc.strerror}") from exc
        except ValueError as exc:
            raise ConfigError(f"the cache's settings {os.fspath(path)!r} are no TOML: {exc}") from exc
        known = [field.name for field in fields(Cache)]
        unknown = sorted(set(found) - set(known))
        if unknown:
            raise ConfigError(f"{os.fspath(path)!r}: unknown {some([repr(key) for key in unknown])}; known: {known}")
        try:
            return Cache(**found)
        except ConfigError as exc:
            raise ConfigError(f"{os.fspath(path)!r}: {exc}") from exc

    @staticmethod
    def from_environment(environ: Mapping[str, str]) -> Cache | None:
        """Load the file that `DATAFEED_CACHE` names; None where it is unset or empty.

        Args:
            environ: `os.environ`; the library itself reads no environment.
        """
        path = environ.get(ENVIRONMENT)
        return Cache.load(path) if path else None

    def disks(self) -> dict[str, DiskOptions]:
        """Return the disk tiers by name, the fastest first.

        Raises:
            ConfigError: A directory is not there.
        """
        found = {}
        for name in _DISKS:
            disk: Disk | None = getattr(self, name)
            if disk is not None:
                path = os.fspath(disk[0])
                found[name] = DiskOptions(path, _disk_nbytes(name, path, disk[1]), self.policy)
        return found

    def host_nbytes(self) -> int:
        """Return the budget of the host tier in bytes, 0 without one.

        Raises:
            ConfigError: It is more memory than this process may use.
        """
        if self.host is None:
            return 0
        memory = memory_nbytes()
        nbytes = _nbytes("host", self.host, memory)
        if nbytes > memory:
            raise ConfigError(f"host={self.host!r} is more than the {format_size(memory)} that this process may use")
        return nbytes

    def budgets(self) -> dict[str, int]:
        """Return the budgets of disks and memory that are given as bytes, by name; of shares, each machine knows."""
        sizes = {name: getattr(self, name)[1] for name in _DISKS if getattr(self, name) is not None}
        if self.host is not None:
            sizes["host"] = self.host
        return {name: _nbytes(name, size, 0) for name, size in sizes.items() if not _SHARE.fullmatch(str(size))}

    def vram_nbytes(self, whole: int, device: str) -> int:
        """Return the budget of the device tier in bytes, 0 without one.

        Args:
            whole: The bytes of memory that the device has.
            device: What it is called.

        Raises:
            ConfigError: It is more.
        """
        if self.vram is None:
            return 0
        nbytes = _nbytes("vram", self.vram, whole)
        if nbytes > whole:
            raise ConfigError(f"vram={self.vram!r} is more than the {format_size(whole)} that {device} has")
        return nbytes


def memory_nbytes() -> int:
    """Return the memory that this process may use: the machine's, or its control group's limit where that is less."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found = min(found, int(text))
    return found


def _checked_disk(name: str, disk: object) -> tuple[str, str | int]:
    expected = f"{name} must be (directory, size), as in ('/mnt/{name}', '200GB'), found {disk!r}"
    if not isinstance(disk, (tuple, list)) or len(disk) != 2 or not isinstance(disk[0], (str, os.PathLike)):
        raise ConfigError(expected)
    path = os.fspath(disk[0])
    if not isinstance(path, str) or not path:
        raise ConfigError(expected)
    if "://" in path:
        raise ConfigError(f"{name}={path!r} is a URL: a tier is a directory of this machine")
    _check_size(name, disk[1])
    return os.path.abspath(path), disk[1]


def _check_size(name: str, size: object) -> None:
    if isinstance(size, bool) or not isinstance(size, (str, int)):
        raise ConfigError(f"{name} {size!r} is no size: write it as '200GB', '80%' or a number of bytes")
    _nbytes(name, size, 2**63)


def _nbytes(name: str, size: str | int, whole: int) -> int:
    share = _SHARE.fullmatch(str(size))
    if share is None:
        return parse_size(size, name=name)
    percent = float(share[1])
    if not 0 < percent <= 100:
        raise ConfigError(f"{name} must be above 0 % and at most 100 %, found {size!r}")
    return int(whole * percent / 100)


def _disk_nbytes(name: str, path: str, size: str | int) -> int:
    try:
        volume = os.statvfs(path)
    except OSError as exc:
        raise ConfigError(f"{name}: the directory {path!r} is not there: make it, or mount its volume, first") from exc
    return _nbytes(name, size, volume.f_blocks * volume.f_frsize)
