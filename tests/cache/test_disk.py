"""Check what a disk tier keeps, and how processes share it."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cache_files import DATASET, FILE, OTHER, entry_path, extent, held, on_disk, tier

from datafeed.cache.evict import Listed
from datafeed.errors import ConfigError


def test_an_extent_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    """Also to another tier over the same directory, later, with its rights and with nothing beside it."""
    key, data = extent(7)
    disk = tier(tmp_path)
    assert held(disk, key) is None
    assert disk.admit(key, data)
    disk.close()
    again = tier(tmp_path)
    assert held(again, key) == data
    modes = [stat.S_IMODE(path.lstat().st_mode) for path in tmp_path.rglob("*")]
    assert all(mode & 0o077 == 0 for mode in modes)
    assert on_disk(tmp_path) == again.usage().nbytes == FILE


def test_f25_another_extent_is_not_taken_for_it(tmp_path: Path) -> None:
    """An entry of another shard, offset or dataset under the same name is a miss and goes."""
    key, data = extent(1)
    disk = tier(tmp_path)
    disk.admit(key, data)
    other = type(key)(key.dataset, "00" * 32, key.number, key.offset, key.nbytes)
    assert held(disk, other) is None
    assert held(disk, key) is None
    assert disk.usage().nbytes == 0


def test_lru_keeps_what_was_used_last(tmp_path: Path) -> None:
    """Entries go in the order of their last use, as all processes see it, once stamps are renewed at each hit."""
    disk = tier(tmp_path, budget=3 * FILE, policy="lru")
    for number in range(3):
        assert disk.admit(*extent(number))
    disk._open()._renew_after = 1  # as in a directory of few entries
    assert held(disk, extent(0)[0])
    for number in (3, 4):
        assert disk.admit(*extent(number))
    assert [number for number in range(5) if held(disk, extent(number)[0])] == [0, 3, 4]
    assert disk.evicted == 2


def test_epoch_fills_and_then_leaves_all_as_it_is(tmp_path: Path) -> None:
    """What the next epoch needs is never replaced by another such entry."""
    disk = tier(tmp_path, budget=3 * FILE)
    disk.read_by(DATASET, None)
    assert [disk.admit(*extent(number)) for number in range(5)] == [True] * 3 + [False] * 2
    assert on_disk(tmp_path) == 3 * FILE


def test_what_nobody_reads_gives_way(tmp_path: Path) -> None:
    """Entries of a dataset without a reader, and those of ours that are not needed, oldest first."""
    before = tier(tmp_path, budget=4 * FILE)
    for number in range(2):
        before.admit(*extent(number, OTHER))
    before.close()
    disk = tier(tmp_path, budget=4 * FILE)
    needed = np.zeros(9, np.bool_)
    needed[[1, 2, 3, 4, 5]] = True
    disk.read_by(DATASET, needed)
    assert all(disk.admit(*extent(number)) for number in (0, 1, 2, 3, 4))
    kept = {(entry.dataset, int(entry.name)) for entry in disk.entries()}
    assert kept == {(DATASET, 1), (DATASET, 2), (DATASET, 3), (DATASET, 4)}
    assert not disk.admit(*extent(5))


def test_live_datasets_share_a_budget(tmp_path: Path) -> None:
    """A second job gets its half of what the first one had filled, and no more."""
    first, second = tier(tmp_path, budget=6 * FILE), tier(tmp_path, budget=6 * FILE)
    first.read_by(DATASET, None)
    assert all(first.admit(*extent(number)) for number in range(6))
    second.read_by(OTHER, None)
    assert [second.admit(*extent(number, OTHER)) for number in range(5)] == [True] * 3 + [False] * 2
    assert first.usage().used == {DATASET: 3 * FILE, OTHER: 3 * FILE}
    assert on_disk(tmp_path) == 6 * FILE


def test_f20_threads_and_processes_stay_within_the_budget(tmp_path: Path) -> None:
    """Eight threads and two processes that fill one directory never hold more than its budget."""
    disk = tier(tmp_path, budget=20 * FILE, policy="lru")
    pids = [_fill_in_child(tmp_path, child) for child in range(2)]
    peaks = []
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(disk.admit, *extent(number)) for number in range(120, 240)]
        while not all(future.done() for future in done):
            peaks.append(disk.usage().nbytes)
    assert all(future.result() for future in done)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
    assert disk.usage().nbytes == on_disk(tmp_path) == 20 * FILE
    assert max(peaks) == 20 * FILE


def _fill_in_child(path: Path, child: int) -> int:
    pid = os.fork()
    if not pid:
        disk = tier(path, budget=20 * FILE, policy="lru")
        for number in range(child, 120, 2):
            disk.admit(*extent(number))
        os._exit(0 if disk.counters.admitted == 60 else 1)
    return pid


def test_f14_one_of_two_fetches(tmp_path: Path) -> None:
    """Who comes second waits, and finds what the first one kept."""
    key, data = extent(0)
    one, two = tier(tmp_path), tier(tmp_path)
    turns: list[str] = []
    begun = threading.Event()

    def second() -> None:
        begun.wait(10)
        with two.alone(key, 10):
            turns.append("second")
            assert held(two, key) == data

    thread = threading.Thread(target=second)
    thread.start()
    with one.alone(key, 10):
        begun.set()
        assert one.admit(key, data)
        turns.append("first")
    thread.join()
    assert turns == ["first", "second"]


def test_f15_an_entry_that_is_read_is_not_evicted(tmp_path: Path) -> None:
    """An open descriptor is a reference: others evict the next, and what it gives stays as it was."""
    disk, other = tier(tmp_path, budget=2 * FILE, policy="lru"), tier(tmp_path, budget=2 * FILE, policy="lru")
    for number in range(2):
        disk.admit(*extent(number))
    file = disk.find(extent(0)[0])
    assert file is not None
    assert other.admit(*extent(2))
    assert held(other, extent(0)[0]) == extent(0)[1]
    assert held(other, extent(1)[0]) is None


def test_entries_can_be_listed_verified_and_deleted(tmp_path: Path) -> None:
    """By the functions that the commands use."""
    disk = tier(tmp_path)
    for number in range(2):
        disk.admit(*extent(number))
    path = entry_path(tmp_path, extent(1)[0])
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    by_name = {int(entry.name): entry for entry in disk.entries()}
    assert by_name[0] == Listed(DATASET, extent(0)[0].name, FILE, by_name[0].turn)
    assert disk.verify(by_name[0]) == ""
    assert "CRC32C of its stored bytes" in disk.verify(by_name[1])
    assert disk.delete(by_name[1])
    assert [int(entry.name) for entry in disk.entries()] == [0]
    assert disk.usage().nbytes == FILE


def test_what_is_there_unread_is_not_written_or_counted_again(tmp_path: Path) -> None:
    """As a tier does whose look-ups hang: the store gives again what its disk holds."""
    disk = tier(tmp_path)
    key, data = extent(0)
    assert [disk.admit(key, data) for _ in range(2)] == [True, True]
    assert disk.usage().nbytes == FILE
    assert disk.counters.admitted == 1
    os.truncate(entry_path(tmp_path, key), FILE // 2)
    disk.recount()
    assert disk.admit(key, data)
    assert disk.usage().nbytes == FILE
    assert held(disk, key) == data


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A volume that is not mounted must not be filled below its mount point."""
    with pytest.raises(ConfigError, match="make it, or mount its volume"):
        tier(tmp_path / "missing")


def test_a_forked_child_holds_no_lock_of_its_parent(tmp_path: Path) -> None:
    """Its copies of descriptors are closed, so that an entry that the parent lets go of can be evicted."""
    disk = tier(tmp_path, budget=FILE, policy="lru")
    disk.admit(*extent(0))
    file = disk.find(extent(0)[0])
    assert file is not None
    told, tell = os.pipe()
    wait, end = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(end)
        os.write(tell, b"x")
        os.read(wait, 1)
        os._exit(0)
    os.read(told, 1)
    file.close()
    assert disk.admit(*extent(1))
    os.close(end)
    assert os.waitpid(pid, 0)[1] == 0
    for descriptor in (told, tell, wait):
        os.close(descriptor)
