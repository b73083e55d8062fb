"""Check that a loader leaves nothing behind, and works wherever it is taken."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import feeding
import forms
import pytest

from datafeed import Loader
from datafeed.errors import LoaderClosed

COUNT = 300


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of a few features."""
    return forms.write(tmp_path_factory.mktemp("small"), records=COUNT)


def threads() -> int:
    """Count the threads of loaders."""
    return sum(thread.name.startswith("datafeed-") for thread in threading.enumerate())


def test_f64_a_break_leaves_no_thread_while_the_loader_lives(url: str) -> None:
    """Nor does an epoch that ends; each can be iterated again."""
    loader = Loader(url, 8, shuffle=True, num_workers=3)
    assert threads() == 0
    for _ in range(3):
        for number, _batch in enumerate(loader):
            assert threads() == 3
            if number == 9:
                break
        assert threads() == 0
    assert loader.state_dict()["position"] == 80
    assert len(feeding.flat(loader)) == COUNT
    assert threads() == 0


def test_f64_an_error_in_the_loop_leaves_no_thread(url: str) -> None:
    """Once its traceback is gone."""
    loader = Loader(url, 8, num_workers=2)

    def loop() -> None:
        for _ in loader:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    gc.collect()
    deadline = time.monotonic() + 10  # the collection may run on a worker, which then ends by itself
    while threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() == 0


def test_a_closed_iterator_says_so(url: str) -> None:
    """Its loader can be iterated again."""
    loader = Loader(url, 8, num_workers=2)
    iterator = iter(loader)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]  # ours has it
    assert threads() == 0
    with pytest.raises(LoaderClosed, match=r"call iter\(loader\)"):
        next(iterator)
    assert len(feeding.flat(loader)) == COUNT


def test_an_iterator_may_move_to_another_thread(url: str) -> None:
    """It belongs to one at a time."""
    loader = Loader(url, 8, num_workers=2)
    iterator, found = iter(loader), []
    found += feeding.flat([next(iterator)])
    thread = threading.Thread(target=lambda: found.extend(feeding.flat(iterator)))
    thread.start()
    thread.join(30)
    assert found == list(range(COUNT))


def test_threads_that_share_an_iterator_all_reach_its_end(url: str) -> None:
    """Each sample goes to one of them, and none is told that the iterator was closed."""
    iterator = iter(Loader(url, 4, num_workers=2))
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: feeding.flat(iterator), range(4)))
    assert sum(map(len, parts)) == COUNT


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("used", [False, True])
def test_f60_a_loader_of_the_parent_is_iterated_in_a_forked_child(url: str, *, used: bool) -> None:
    """Whether the parent has used it or not; an iterator of the parent is refused there, and hurts nobody."""
    loader = Loader(url, 8, shuffle=True, num_workers=2)
    running = iter(loader) if used else None
    assert running is None or next(running)
    pid = os.fork()
    if not pid:
        status = 1
        try:
            if running is not None:
                with pytest.raises(LoaderClosed, match=f"in process {os.getppid()}"):
                    next(running)
            status = 0 if sorted(feeding.flat(loader)) == list(range(COUNT)) else 3
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert len(feeding.flat(running or loader)) == COUNT - 8 * used


def test_f89_a_loader_pickles_before_and_after_use(url: str) -> None:
    """The copy opens all anew."""
    loader = Loader(url, 8, shuffle=True, num_workers=2)
    before = pickle.dumps(loader)
    epoch = feeding.flat(loader)
    after = pickle.dumps(loader)
    assert feeding.flat(pickle.loads(before)) == epoch  # noqa: S301
    assert feeding.flat(pickle.loads(after)) == feeding.flat(loader) != epoch  # noqa: S301
    assert max(len(before), len(after)) < 10_000


BEGIN = """
import os, sys
from datafeed import Loader
def begin(workers):
    loader = Loader(sys.argv[1], 8, True, num_workers=workers)
    iterator = iter(loader)
    next(iterator)
    return loader, iterator
"""
FORKS = """
def fork():
    pid = os.fork()
    assert not pid or os.waitpid(pid, 0)[1] == 0
    return not pid
"""


def test_f64_the_interpreter_ends_in_the_middle_of_an_epoch(url: str) -> None:
    """It hangs nowhere and says nothing: with threads and without, and with an iterator in a cycle of references."""
    code = """
if fork():
    loader, iterator = begin(0)
    sys.exit(0)
if fork():
    loader, iterator = begin(3)
    loop = [iterator]
    loop.append(loop)
    del iterator
    sys.exit(0)
loader, iterator = begin(3)
"""
    done = feeding.child(BEGIN + FORKS + code, url)
    assert (done.returncode, done.stderr) == (0, "")


def test_f64_a_forked_child_ends_while_the_parent_iterates(url: str) -> None:
    """Its own end does not wait for the threads of the parent, nor for the lock that one of them held."""
    code = """
loader, iterator = begin(3)
for _ in range(2):
    next(iterator)
    iterator._engine._lock.acquire()
    if fork():
        sys.exit(0)
    iterator._engine._lock.release()
"""
    done = feeding.child(BEGIN + FORKS + code, url)
    assert (done.returncode, done.stderr) == (0, "")


def test_f64_ctrl_c_ends_an_epoch(url: str) -> None:
    """While batches come, and while the caller waits for one: KeyboardInterrupt, and nothing else is said."""
    code = """
loader, iterator = begin(2)
print("on", flush=True)
while True:
    for batch in loader:
        pass
"""
    with _started(BEGIN + code, url) as running:
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    assert running.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1
    assert said.rstrip().endswith("KeyboardInterrupt")


def test_f64_ctrl_c_while_a_transform_is_slow(url: str) -> None:
    """The caller is told when the sample in hand is done, not when the epoch is."""
    code = """
import os, sys, time
from datafeed import Loader
def slow(sample, rng):
    os.write(1, b"on\\n")
    time.sleep(0.2)
    return {}
next(iter(Loader(sys.argv[1], 2, num_workers=2, transform=slow)))
for _ in range(200):
    time.sleep(0.1)
"""
    with _started(code, url) as running:
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=15)
    assert running.returncode == -signal.SIGINT
    assert said.rstrip().endswith("KeyboardInterrupt")


def _started(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a child, and wait for its first line."""
    pipe = subprocess.PIPE
    running = subprocess.Popen(feeding.command(code, *arguments), stdout=pipe, stderr=pipe, text=True, cwd=feeding.ROOT)
    assert running.stdout is not None
    assert running.stdout.readline() == "on\n"
    return running


def test_importing_the_package_does_not_load_torch(tmp_path: Path) -> None:
    """Nor does a dataset that is read by number."""
    url = forms.write(tmp_path, records=3)
    code = "import sys, datafeed; datafeed.Dataset(sys.argv[1])[1]; print('torch' in sys.modules)"
    assert feeding.child(code, url).stdout == "False\n"
