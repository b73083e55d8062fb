"""Check what a cache directory tells to those who look at it from outside a run."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from cache_files import DATASET, FILE, OTHER, entry_path, extent, held, tier
from counted_store import CountedStore
from processes import wait_until
from tiny import write_dataset

from datafeed.blockindex import read_index
from datafeed.cache.about import About
from datafeed.cache.directory import Directory, DiskOptions
from datafeed.cache.files import Files
from datafeed.cache.folder import NAME
from datafeed.cache.stage import stage
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.storage import open_store


@pytest.fixture
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 12 extents."""
    folder = tmp_path_factory.mktemp("data")
    write_dataset(str(folder), shards=3, blocks=8, extent_size=200)
    return folder


def looking(path: Path) -> Directory:
    """Open a directory as a command does, which reads no dataset."""
    return Directory(DiskOptions(str(path), 0), Files())


def test_readers_are_told_by_process_and_dataset(tmp_path: Path) -> None:
    """Those that live; who only looks is none of them."""
    disk = tier(tmp_path)
    disk.read_by(DATASET, None)
    watcher = looking(tmp_path)
    assert [(reader.dataset, reader.pid) for reader in watcher.readers()] == [(DATASET, os.getpid())]
    disk.close()
    assert watcher.readers() == []


def test_who_only_looks_takes_no_share_from_readers(tmp_path: Path) -> None:
    """Two datasets that are read have half each, whoever else has the directory open."""
    one, two = tier(tmp_path, budget=4 * FILE), tier(tmp_path, budget=4 * FILE)
    one.read_by(DATASET, None)
    for number in range(4):
        assert one.admit(*extent(number))
    two.read_by(OTHER, None)
    watcher = looking(tmp_path)
    assert [two.admit(*extent(number, OTHER)) for number in range(2)] == [True, True]
    assert len(watcher.readers()) == 2


def test_room_is_what_can_be_admitted(tmp_path: Path) -> None:
    """With nobody else, beside an idle dataset, and beside one that is read."""
    writer = tier(tmp_path, budget=6 * FILE)
    writer.read_by(OTHER, None)
    for number in range(4):
        writer.admit(*extent(number, OTHER))
    disk = tier(tmp_path, budget=6 * FILE)
    disk.read_by(DATASET, None)
    assert disk.room(DATASET) == 3 * FILE  # an equal share of what two datasets have
    writer.close()
    assert disk.room(DATASET) == 6 * FILE
    admitted = [disk.admit(*extent(number)) for number in range(8)]
    assert admitted == [True] * 6 + [False] * 2
    assert disk.room(DATASET) == 0


def test_room_leaves_others_their_part_of_the_volume(tmp_path: Path) -> None:
    """A budget above what the volume has free is no room."""
    volume = os.statvfs(tmp_path)
    free = volume.f_bavail * volume.f_frsize
    disk = tier(tmp_path, budget=2 * free, keep_free=free // 2)
    disk.read_by(DATASET, None)
    assert free * 0.4 < disk.room(DATASET) < free * 0.6
    disk = tier(tmp_path, budget=2 * free, keep_free=2 * free)
    assert disk.room(DATASET) == 0


def test_a_note_says_what_a_dataset_is_and_when_it_was_opened(tmp_path: Path) -> None:
    """Written once, renewed by each run; a damaged one is written anew."""
    about = About("s3://bucket/data", 123, 4)
    disk = tier(tmp_path)
    assert looking(tmp_path).about(DATASET) == (None, 0.0)
    disk.describe(DATASET, about)
    path = tmp_path / NAME / "entries" / DATASET / ".about"
    os.utime(path, (1, 1))
    assert looking(tmp_path).about(DATASET) == (about, 1.0)
    disk.describe(DATASET, about)
    assert time.time() - looking(tmp_path).about(DATASET)[1] < 60
    path.write_bytes(b"[]")
    assert looking(tmp_path).about(DATASET)[0] is None
    disk.describe(DATASET, about)
    assert looking(tmp_path).about(DATASET)[0] == about
    assert list((tmp_path / NAME / "tmp").iterdir()) == []
    path.unlink()
    os.mkfifo(path)
    assert looking(tmp_path).about(DATASET)[0] is None


def test_verify_tells_a_second_name_and_reads_no_more_than_the_file_has(tmp_path: Path) -> None:
    """What stands elsewhere too is not ours alone; a length is compared before memory is taken for it."""
    disk = tier(tmp_path)
    disk.admit(*extent(0))
    disk.admit(*extent(1))
    os.link(entry_path(tmp_path, extent(0)[0]), tmp_path / "elsewhere")
    os.truncate(entry_path(tmp_path, extent(1)[0]), FILE - 1)
    first, second = sorted(disk.entries(), key=lambda entry: entry.name)
    assert disk.verify(first) == "it has another name elsewhere"
    assert disk.verify(second) == f"expected {FILE:,} bytes, found {FILE - 1:,}"


def test_an_entry_says_when_it_was_used(tmp_path: Path) -> None:
    """By the volume's own times, which a counter of admissions does not touch."""
    disk = tier(tmp_path)
    disk.admit(*extent(0))
    assert held(disk, extent(0)[0])
    (entry,) = disk.entries()
    assert time.time() - entry.used_s < 60


class _CtrlC(CountedStore):
    """Interrupt the main thread within a read, which goes on for a while."""

    finished = 0

    def read_into(self, name: str, start: int, into: memoryview) -> None:
        """Fill a view, maybe after a signal."""
        if len(self.reads) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
        super().read_into(name, start, into)
        self.finished += 1


def test_ctrl_c_waits_for_what_is_being_fetched(tmp_path: Path, shards: Path) -> None:
    """No thread goes on behind the back of whoever closes the tier then."""
    store = _CtrlC(open_store(str(shards)))
    manifest = read_manifest(store)
    disk = tier(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        stage(BlockReader(store, manifest, read_index(store, manifest)), disk, range(12), lambda *_: None, threads=1)
    assert store.finished == len(store.reads) == 4
    assert len(disk.entries()) == 4
    disk.close()
    assert list((tmp_path / NAME / "sessions").iterdir()) == []


class _Interrupting(CountedStore):
    """Interrupt after some reads, as Ctrl-C does."""

    def read_into(self, name: str, start: int, into: memoryview) -> None:
        """Fill a view, then maybe raise."""
        super().read_into(name, start, into)
        if len(self.reads) >= 5:  # two threads may both have come meanwhile
            raise KeyboardInterrupt


def test_staging_takes_numbers_as_it_goes_and_ends_with_whole_entries(tmp_path: Path, shards: Path) -> None:
    """A dataset of millions of extents is not queued at once, and what an interrupt leaves is whole."""
    store = _Interrupting(open_store(str(shards)))
    manifest = read_manifest(store)
    blocks = BlockReader(store, manifest, read_index(store, manifest))
    disk = tier(tmp_path)
    taken: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        stage(blocks, disk, (taken.append(number) or number for number in range(12)), lambda *_: None, threads=2)
    assert len(taken) <= 7
    wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name == "datafeed-stage"])
    assert 3 <= len(disk.entries()) < 12
    assert [disk.verify(entry) for entry in disk.entries()] == [""] * len(disk.entries())
