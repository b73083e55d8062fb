"""Kill conversions over and over; run as a program, since it forks."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from numbered import Numbered, digests

from datafeed.converters.convert import ConvertOptions, convert

SOURCE = Numbered(300, bad=frozenset({10, *range(100, 150), 210}))  # the third task holds nothing else
OPTIONS = ConvertOptions(shard_size=4000, block_size=700, workers=1, on_error="quarantine")
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def _watch(dest: Path, act: Callable[[int], None]) -> None:
    """Call before every change in a folder, with its number: each is a point at which a machine may fail."""
    count = 0

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        if event in EVENTS and str(args[0]).startswith(str(dest)) and (event != "open" or _writes(args[2])):
            act(count)
            count += 1

    sys.addaudithook(hook)


def _writes(flags: object) -> bool:
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_DIRECTORY))


def _kill_at(point: int) -> Callable[[int], None]:
    def act(number: int) -> None:
        if number == point:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def _in_child(work: Callable[[], object], kill_after_s: float | None = None) -> bool:
    """Run in a forked child; return whether it was killed."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert status == 0, status
    return False


def _convert(dest: Path) -> None:
    convert(SOURCE, str(dest), OPTIONS)


def _count(dest: Path) -> int:
    """Count the changes of an undisturbed conversion."""
    counts = dest.parent / "points"

    def work() -> None:
        _watch(dest, lambda number: counts.write_text(str(number + 1)) and None)
        _convert(dest)

    _in_child(work)
    shutil.rmtree(dest)
    return int(counts.read_text())


def _check_names(dest: Path, reference: dict[str, str]) -> None:
    """Whatever stands under a final name must be whole."""
    for name, digest in digests(dest).items() if dest.exists() else ():
        final = not name.startswith(("journal/", ".")) and "/." not in name
        assert not final or reference[name] == digest, f"{name} is partial"


def main(folder: Path, rounds: int, seed: int) -> dict[str, object]:
    """Kill at points spread over a conversion, and at random moments; finish each, and compare."""
    rng = random.Random(seed)
    _convert(folder / "whole")
    reference = digests(folder / "whole")
    dest = folder / "out"
    started = time.monotonic()
    points = _count(dest)
    whole_s = time.monotonic() - started
    killed = twice = 0
    for number in range(rounds):
        if number % 4:
            point = number * points // rounds
            killed += _in_child(lambda point=point: (_watch(dest, _kill_at(point)), _convert(dest)))
        else:
            killed += _in_child(lambda: _convert(dest), rng.uniform(0, whole_s))
        _check_names(dest, reference)
        again = rng.randrange(points)
        twice += _in_child(lambda again=again: (_watch(dest, _kill_at(again)), _convert(dest)))
        _check_names(dest, reference)
        _in_child(lambda: _convert(dest))
        found = digests(dest)
        assert found == reference, sorted(set(found.items()) ^ set(reference.items()))
        shutil.rmtree(dest)
    return {"points": points, "killed": killed, "twice": twice}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201  (its result)
