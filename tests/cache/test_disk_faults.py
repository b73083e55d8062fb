"""Inject what disks and other programs do to a cache directory; the numbers are those of the list of faults."""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
import time
from pathlib import Path

import pytest
from cache_files import DATASET, FILE, OTHER, Watched, entry_path, extent, failing, held, on_disk, tier, warned

from datafeed.cache.files import Descriptor, Files
from datafeed.cache.folder import NAME


@pytest.mark.parametrize("tail", ["zeros", "cut", "empty"])
def test_f11_a_power_cut_leaves_a_miss(tmp_path: Path, tail: str) -> None:
    """Whatever was not written yet is found out before a byte is used."""
    key, data = extent(0)
    disk = tier(tmp_path)
    disk.admit(key, data)
    path = entry_path(tmp_path, key)
    whole = path.read_bytes()
    path.write_bytes({"zeros": bytes(len(whole)), "cut": whole[:2000], "empty": b""}[tail])
    assert held(disk, key) is None
    assert disk.counters.damaged == 1
    assert not path.exists()
    assert disk.usage().nbytes == 0


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (errno.ENOSPC, "its volume is full .*free; the limit is now 3.1 kB"),
        (errno.EDQUOT, "the quota is used up"),
        (errno.EROFS, "its volume can only be read"),
        (errno.EIO, "its volume fails"),
        (errno.EMFILE, "too many open files .raise `ulimit -n`"),
    ],
)
@pytest.mark.parametrize("where", ["open", "write", "write the rest", "rename"])
def test_f12_f13_what_cannot_be_written_is_passed_by(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, cause: str, where: str
) -> None:
    """One warning with the cause; nothing is left of the entry, others are read on, and later it is tried again."""
    files = failing(0, code, only=where)
    disk = tier(tmp_path, files=files, retry_s=0.2)
    disk.admit(*extent(0))
    again = failing(1, code, only=where)
    files._act = again._act
    assert not disk.admit(*extent(1))
    assert not disk.admit(*extent(2))
    assert len(warned(caplog)) == 1
    assert caplog.records[-1].getMessage().startswith("writing to the nvme cache")
    assert re.search(cause, warned(caplog)[0])
    assert held(disk, extent(0)[0])
    assert on_disk(tmp_path) == disk.usage().nbytes == FILE
    time.sleep(0.25)
    assert disk.admit(*extent(1)) == (code not in {errno.ENOSPC, errno.EDQUOT})
    assert len(warned(caplog)) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_t2_any_operation_may_fail_once(tmp_path: Path, code: int) -> None:
    """Whichever operation fails, nothing is raised, nothing false is read, and the books are right after a count."""
    counting = failing(0, code)
    _work(tmp_path / "whole", counting)
    assert counting._count > 40
    for number in range(1, counting._count):
        path = tmp_path / str(number)
        _work(path, failing(number, code))
        again = tier(path, budget=4 * FILE)
        again.recount()
        assert on_disk(path) == again.usage().nbytes <= 4 * FILE
        again.close()
        shutil.rmtree(path)


def _work(path: Path, files: Files) -> None:
    path.mkdir()
    disk = tier(path, budget=4 * FILE, files=files, retry_s=0, policy="lru")
    disk.read_by(DATASET, None)
    for number in (0, 1, 2, 0, 3, 4, 5, 1):
        key, data = extent(number)
        with disk.alone(key, 1):
            found = held(disk, key)
            assert found is None or found == data
            if found is None:
                disk.admit(key, data)
    disk.close()


def test_f14_a_filler_that_dies_is_followed_by_a_waiter(tmp_path: Path) -> None:
    """The lock ends with its holder, whatever file is there."""
    key, _ = extent(0)
    disk = tier(tmp_path)
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        with tier(tmp_path).alone(key, 5):
            os.write(write, b"x")
            time.sleep(30)
        os._exit(0)
    os.read(read, 1)
    os.kill(pid, 9)
    with disk.alone(key, 20):
        assert disk.admit(*extent(0))
    os.waitpid(pid, 0)
    os.close(read)
    os.close(write)


def test_f14_a_waiter_has_a_deadline(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who waited long enough fetches too, and says so."""
    key, _ = extent(0)
    one, two = tier(tmp_path), tier(tmp_path)
    with one.alone(key, 1), two.alone(key, 0.05):
        pass
    assert "another process fetched extent 0" in warned(caplog)[0]


def test_f19_a_directory_that_is_deleted_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Misses until then, one warning."""
    disk = tier(tmp_path, retry_s=0.1)
    disk.admit(*extent(0))
    shutil.rmtree(tmp_path / NAME)
    assert held(disk, extent(0)[0]) is None
    assert disk.admit(*extent(0))
    assert held(disk, extent(0)[0]) is None
    time.sleep(0.15)
    assert held(disk, extent(0)[0]) == extent(0)[1]
    assert len(warned(caplog)) == 1
    assert "its directory is gone" in warned(caplog)[0]


def test_f19_a_volume_that_is_unmounted_is_passed_by(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where the directory given is not there any more, nothing is made in its place."""
    (tmp_path / "mount").mkdir()
    disk = tier(tmp_path / "mount", retry_s=0.1)
    shutil.rmtree(tmp_path / "mount")
    for _ in range(3):
        assert not disk.admit(*extent(0))
        assert held(disk, extent(0)[0]) is None
    assert not (tmp_path / "mount").exists()
    assert len(warned(caplog)) <= 2  # reading and writing are told apart


def test_f20_nothing_piles_up(tmp_path: Path) -> None:
    """After many epochs by many readers there are entries within the budget, and nothing else."""
    for epoch in range(30):
        disk = tier(tmp_path, budget=5 * FILE, policy="lru" if epoch % 2 else "epoch")
        disk.read_by(DATASET, None)
        for number in range(12):
            with disk.alone(extent(number)[0], 1):
                disk.admit(*extent(number))
        disk.close()
    names = sorted(path.name for path in (tmp_path / NAME).rglob("*") if path.is_file())
    assert len(names) == 5 + len([".locks", "ledger"])
    assert on_disk(tmp_path) <= 5 * FILE


def test_f22_a_volume_that_others_fill_is_left_room(tmp_path: Path) -> None:
    """Below the floor what nobody needs goes, then nothing more is kept."""
    before = tier(tmp_path)
    for number in range(3):
        before.admit(*extent(number, OTHER))
    before.close()
    volume = _Volume()
    disk = tier(tmp_path, files=volume, keep_free=10**7)
    disk.read_by(DATASET, None)
    volume.free_nbytes = 11 * 10**6
    assert disk.admit(*extent(0))
    volume.free_nbytes = 9 * 10**6
    assert not disk.admit(*extent(1))
    assert [entry.dataset for entry in disk.entries()] == [DATASET]


class _Volume(Files):
    """A volume whose free space is told."""

    free_nbytes = 2**40

    def free(self, folder: Descriptor) -> os.statvfs_result:
        fields = list(super().free(folder))
        fields[4] = self.free_nbytes // fields[1]
        return os.statvfs_result(fields)


def test_f23_a_disk_that_hangs_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After one look-up that took too long there is none until it is tried again."""
    slow = [0.2]

    def act(operation: str, _: int) -> None:
        if operation == "read" and threading.current_thread() is threading.main_thread():
            time.sleep(slow[0])

    disk = tier(tmp_path, files=Watched(act), slow_s=0.15, retry_s=1.0)
    disk.admit(*extent(0))
    held(disk, extent(0)[0])
    assert held(disk, extent(0)[0]) is None
    assert "a look-up took" in warned(caplog)[0]
    slow[0] = 0
    time.sleep(1.1)
    assert held(disk, extent(0)[0]) == extent(0)[1]


def test_f24_what_several_find_damaged_is_dropped_once(tmp_path: Path) -> None:
    """The entry that the first of them put in its place stays."""
    key, data = extent(0)
    disk, other = tier(tmp_path), tier(tmp_path)
    disk.admit(key, data)
    found = [disk.find(key), disk.find(key), other.find(key)]
    path = entry_path(tmp_path, key)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    for user, file in zip((disk, disk, other), found, strict=True):
        assert file is not None
        user.read_wrong(key, file, "its last byte is another")
        disk.admit(key, data)
    assert [disk.counters.damaged, other.counters.damaged, disk.counters.admitted] == [1, 0, 2]
    assert held(other, key) == data
    assert disk.usage().nbytes == key.file_nbytes


def test_f24_three_damaged_entries_end_a_tier(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A disk that changes what it holds is not used any more, and that is said."""
    disk = tier(tmp_path)
    for number in range(4):
        disk.admit(*extent(number))
        path = entry_path(tmp_path, extent(number)[0])
        if number < 3:
            path.write_bytes(b"?" + path.read_bytes()[1:])
            assert held(disk, extent(number)[0]) is None
    assert held(disk, extent(3)[0]) is None
    (said,) = warned(caplog)
    assert "the nvme cache" in said
    assert "left out for the rest of this process: 3 entries were damaged within an hour" in said
    assert not disk.admit(*extent(4))


def test_f26_another_layout_stands_beside_ours(tmp_path: Path) -> None:
    """What a release with another layout keeps is neither read nor touched."""
    other = tmp_path / "datafeed-cache-v2" / "entries"
    other.mkdir(parents=True)
    (other / "0000000000").write_bytes(b"later")
    tier(tmp_path).admit(*extent(0))
    assert (other / "0000000000").read_bytes() == b"later"
