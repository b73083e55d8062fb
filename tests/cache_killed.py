"""Kill processes that fill and evict one cache directory, over and over; run as a program, since it forks.

What must be in the directory is known to the parent alone: entry i holds the bytes that follow from i.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from cache_files import DATASET, FILE, OTHER, Watched, extent, held, killing, on_disk, tier

from datafeed.cache.disk import DiskTier
from datafeed.cache.files import Files
from datafeed.cache.folder import NAME
from datafeed.cache.policy import Policy

EXTENTS, HELD = 12, 6


def _work(path: Path, files: Files, seed: int, policy: Policy) -> None:
    """Read extents of two datasets as a loader does, and check each."""
    rng = random.Random(seed)
    disk = tier(path, budget=HELD * FILE, files=files, policy=policy)
    disk.read_by(DATASET, None)
    for _ in range(20):
        key, data = extent(rng.randrange(EXTENTS), rng.choice([DATASET, OTHER]))
        with disk.alone(key, 20):
            found = held(disk, key)
            if found is None:
                disk.admit(key, data)
            elif found != data:
                os._exit(3)
    disk.close()


def _start(path: Path, files: Files, seed: int, policy: Policy) -> int:
    pid = os.fork()
    if not pid:
        _work(path, files, seed, policy)
        os._exit(0)
    return pid


def _end(pid: int) -> bool:
    """Wait for a child; return whether it was killed."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert status == 0, f"a child read wrong bytes, or failed: {status}"
    return False


def _check(path: Path) -> DiskTier:
    """Open the directory as the next run does: leftovers go, what is there is whole, and the books are right."""
    disk = tier(path, budget=HELD * FILE)
    assert list((path / NAME / "tmp").iterdir()) == []
    assert len(list((path / NAME / "sessions").iterdir())) == 1
    for entry in disk.entries():
        assert disk.verify(entry) == "", entry
        assert held(disk, extent(int(entry.name), entry.dataset)[0]) == extent(int(entry.name), entry.dataset)[1]
    end = time.monotonic() + 20
    while disk.usage().nbytes != on_disk(path):  # the recount runs on a thread
        assert time.monotonic() < end, (disk.usage(), on_disk(path))
        time.sleep(0.002)
    assert on_disk(path) <= HELD * FILE
    disk.close()
    return disk


def main(folder: Path, rounds: int, seed: int) -> dict[str, int]:
    """Kill one of two processes at each point in turn, and now and then at a random moment; check each time."""
    rng = random.Random(seed)
    counted = Watched(lambda _operation, _number: None)
    started = time.monotonic()
    _work(folder, counted, 0, "lru")
    whole_s = time.monotonic() - started
    killed = 0
    for number in range(rounds):
        policy: Policy = "epoch" if number % 3 == 0 else "lru"
        point = 1 + number * counted._count // rounds
        at_point = number % 4 != 0
        victim = _start(folder, killing(point) if at_point else Files(), number, policy)
        other = _start(folder, Files(), number + rounds, policy)
        if not at_point:
            time.sleep(rng.uniform(0, 2 * whole_s))
            os.kill(victim, signal.SIGKILL)
        killed += _end(victim)
        assert not _end(other)
        _check(folder)
    return {"points": counted._count, "killed": killed}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  (its result)
