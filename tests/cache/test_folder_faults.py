"""Inject what others do to a cache directory; the numbers are those of the list of faults."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from cache_files import DATASET, FILE, entry_path, extent, failing, held, tier, warned

from datafeed.cache.folder import NAME
from datafeed.errors import ConfigError


@pytest.mark.parametrize("mode", [0o777, 0o750, 0o704])
def test_f27_a_directory_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    """Somebody else could put entries there; the message says what to do."""
    tier(tmp_path).close()
    (tmp_path / NAME).chmod(mode)
    with pytest.raises(ConfigError, match=f"mode {mode:o}.: chmod 700 it"):
        tier(tmp_path)


@pytest.mark.parametrize("part", ["", "entries", "tmp", "sessions", f"entries/{DATASET}"])
def test_f28_a_linked_directory_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture, part: str) -> None:
    """Nothing behind the link is read, written or deleted."""
    tier(tmp_path).close()
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    (target / "0000000000").write_bytes(b"mine")
    place = tmp_path / NAME / part
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(target)
    if part.startswith("entries/"):
        disk = tier(tmp_path)
        assert not disk.admit(*extent(0))
        assert "is a link or a file" in warned(caplog)[0]
    else:
        with pytest.raises(ConfigError, match="is a link or a file"):
            tier(tmp_path)
    assert [path.name for path in target.iterdir()] == ["0000000000"]
    assert (target / "0000000000").read_bytes() == b"mine"


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_f28_a_planted_link_goes_and_its_target_stays(tmp_path: Path, kind: str) -> None:
    """Even one that leads to a right entry."""
    key, data = extent(0)
    disk = tier(tmp_path)
    disk.admit(key, data)
    path, target = entry_path(tmp_path, key), tmp_path / "target"
    path.rename(target)
    path.symlink_to(target) if kind == "symbolic" else path.hardlink_to(target)
    assert held(disk, key) is None
    assert not path.is_symlink()
    assert not path.exists()
    assert len(target.read_bytes()) == FILE
    assert disk.counters.damaged == 0


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_f29_what_is_no_file_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    """It is no hang and no error, only a warning."""
    key, data = extent(0)
    disk = tier(tmp_path)
    disk.admit(*extent(1))
    path = entry_path(tmp_path, key)
    os.mkfifo(path) if kind == "fifo" else path.mkdir()
    assert held(disk, key) is None
    assert not disk.admit(key, data)
    assert held(disk, key) is None
    assert len(warned(caplog)) == 1
    assert "is no file: it is left alone" in warned(caplog)[0]
    assert len(disk.entries()) == 1


def test_f30_a_cache_in_memory_is_said_to_be_so(caplog: pytest.LogCaptureFixture) -> None:
    """What it holds takes memory, which people should know."""
    shared = Path("/dev/shm") / f"datafeed-test-{os.getpid()}"  # noqa: S108  (the volume is the point)
    shared.mkdir()
    try:
        tier(shared).close()
        assert "is on tmpfs: what it holds is memory" in warned(caplog)[0]
    finally:
        shutil.rmtree(shared)


def test_f30_locks_that_do_not_work_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At the start; the run goes on without that tier."""
    disk = tier(tmp_path, files=failing(1, errno.ENOLCK, times=100, only="lock"))
    assert "locks do not work there" in warned(caplog)[0]
    assert not disk.admit(*extent(0))
    assert held(disk, extent(0)[0]) is None
