"""Check that over a torch Dataset nothing is left behind, however the workers, the caller or the process end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import feeding
import psutil
import pytest
import torch
from processes import ended, wait_until
from torch.utils.data import _utils
from torch_data import numbers, state_of

from datafeed import Loader

BEGIN = """
import itertools, json, os, signal, sys, time
import torch
from datafeed import Loader

class Texts(list):
    def __getitem__(self, number):  # a batch of them fills a pipe: its sender waits for the reader
        return "x" * 300_000

def tell(batches):
    print(json.dumps([worker.pid for worker in getattr(batches, "_workers", [])]), flush=True)
"""


@contextmanager
def child(code: str) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """Run code in a session of its own until it has told its workers; see that nothing of them is left behind it."""
    with subprocess.Popen(
        feeding.command(BEGIN + code), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=feeding.ROOT,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        workers = [psutil.Process(pid) for pid in json.loads(process.stdout.readline())]
        try:
            yield process, workers
        finally:
            process.kill()
    wait_until(lambda: all(map(ended, workers)))
    assert shared_memory([process.pid, *(worker.pid for worker in workers)]) == []


def shared_memory(pids: list[int]) -> list[str]:
    """Return the names of shared memory that processes made."""
    return [name for name in os.listdir("/dev/shm") if any(f"_{pid}_" in name for pid in pids)]  # noqa: S108


def output(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return how a child ended, and what it said since."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


class Deadly(list[int]):
    """Kill the process that asks for the item 7, unless it is the one that made this."""

    def __init__(self, count: int) -> None:
        super().__init__(range(count))
        self.maker = os.getpid()

    def __getitem__(self, number: Any) -> Any:
        if number == 7 and os.getpid() != self.maker:
            os.kill(os.getpid(), signal.SIGKILL)
            signal.pause()
        return torch.tensor(number)


@pytest.mark.parametrize("threaded", [False, True])
def test_a_killed_worker_is_named_and_the_rest_comes_from_its_state(*, threaded: bool) -> None:
    """Torch looks for the dead every 5 s, sooner where a signal can tell; the other workers end, no memory is left."""
    assert _utils.MP_STATUS_CHECK_INTERVAL <= 5
    loader = Loader(Deadly(12), 2, num_workers=2)  # type: ignore[arg-type]
    batches = iter(loader)
    workers = [psutil.Process(worker.pid) for worker in batches._workers]  # type: ignore[attr-defined]
    got: list[Any] = []
    raised: list[str] = []
    done = threading.Event()  # a thread whose join() a signal's error cuts short is taken for ended by Python 3.11

    def train(iterator: Any) -> None:
        try:
            got.extend(batch.tolist() for batch in iterator)
        except RuntimeError as exc:
            raised.append(str(exc))  # its traceback would keep the iterator
        finally:
            done.set()

    if threaded:
        threading.Thread(target=train, args=(batches,)).start()
        while not done.is_set():
            try:
                done.wait()
            except RuntimeError as exc:  # a signal's error comes to the main thread
                raised.append(str(exc))
    else:
        train(batches)
    assert any(str(worker.pid) in error for worker in workers for error in raised)
    state = state_of(loader)
    del batches
    wait_until(lambda: all(map(ended, workers)))
    assert shared_memory([worker.pid for worker in workers]) == []
    again = Loader(Deadly(12), 2)  # type: ignore[arg-type]
    again.load_state_dict(state)
    assert got + numbers(again) == [[number, number + 1] for number in range(0, 12, 2)]


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers_end_with_a_killed_parent(context: str, tmp_path: Path) -> None:
    """Even those that wait to send: over a full pipe torch's own wait for ever."""
    (tmp_path / "texts.py").write_text(
        "class Texts(list):\n    def __getitem__(self, n):\n        return 'x' * 300_000\n"
    )
    code = f"""
sys.path.insert(0, {str(tmp_path)!r})
from texts import Texts
if __name__ == "__main__":
    batches = iter(Loader(Texts(range(90)), 2, num_workers=2, multiprocessing_context={context!r}))
    next(batches)
    tell(batches)
    signal.pause()
"""
    with child(code) as (process, workers):
        assert not any(map(ended, workers))
        process.kill()


def test_sigterm_can_save_the_last_batch_handed_out(tmp_path: Path) -> None:
    """A handler of the caller's asks for the state in the middle of anything; the next run gets the next sample."""
    path = tmp_path / "state.json"
    code = f"""
loader = Loader(range(1_000_000), 4, shuffle=True, generator=torch.Generator().manual_seed(1), num_workers=1)
seen = []
def save(number, frame):
    with open({str(path)!r}, "w") as file:
        json.dump([len(seen), loader.state_dict()], file)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
batches = iter(loader)
tell(batches)
for batch in batches:
    seen.append(batch)
    if len(seen) == 20:
        print("on", flush=True)
"""
    with child(code) as (process, _):
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        # A worker whose peer leaves while it hands over a tensor says so on its standard error, as torch's own do.
        assert output(process)[:2] == (0, "")
    handed, state = json.loads(path.read_text())
    assert state["batches"] - handed in (0, 1)  # 1: between the hand-over and the caller's own count
    whole = iter(Loader(range(1_000_000), 4, shuffle=True, generator=torch.Generator().manual_seed(1)))  # type: ignore[arg-type]
    again = Loader(range(1_000_000), 4, shuffle=True, generator=torch.Generator())  # type: ignore[arg-type]
    again.load_state_dict(state)
    for _ in range(state["batches"]):
        next(whole)
    assert next(iter(again)).tolist() == next(whole).tolist()


@pytest.mark.parametrize(("workers", "times"), [(0, 1), (2, 1), (2, 2)])
def test_an_interrupt_ends_all(workers: int, times: int) -> None:
    """From the terminal, which every process of the session gets: one traceback, the caller's own."""
    code = f"""
batches = iter(Loader(range(10_000_000), 4, num_workers={workers}))
next(batches)
tell(batches)
for batch in batches:
    pass
"""
    with child(code) as (process, _):
        for _ in range(times):
            os.killpg(process.pid, signal.SIGINT)
        status, _, err = output(process)
    assert status in (-signal.SIGINT, 1)
    assert err.count("KeyboardInterrupt") >= 1
    assert err.count("Traceback") <= times


ENDS = {
    "exception": "for number, batch in enumerate(batches):\n    if number == 3: raise ValueError('mine')",
    "dropped": "list(itertools.islice(batches, 10)); del batches",
    "alive_at_exit": "next(batches)",
    "in_a_generator": "def walk():\n    yield from batches\nwalking = walk()\nnext(walking)",
    "in_a_cycle": "cycle = [batches]\ncycle.append(cycle)\nnext(batches)\ndel batches",
    "exit": "next(batches); sys.exit(0)",
    "in_a_thread": "import threading\nthreading.Thread(target=lambda: list(itertools.islice(batches, 10))).start()",
}


@pytest.mark.parametrize(
    ("end", "stay"),
    [*((end, False) for end in ENDS), ("exception", True), ("dropped", True), ("alive_at_exit", True)],
)
def test_the_end_of_the_process_is_quiet(end: str, *, stay: bool) -> None:
    """No noise, no process, no memory; workers that stay end too."""
    code = f"""
loader = Loader([torch.ones(1000)] * 400, 4, num_workers=2, persistent_workers={stay})
batches = iter(loader)
tell(batches)
{ENDS[end]}
"""
    with child(code) as (process, _):
        status, out, err = output(process)
    assert (status, out) == (1 if end == "exception" else 0, "")
    assert err.count("Traceback") == (end == "exception")
    assert (err.rstrip().endswith("ValueError: mine")) == (end == "exception")


def test_a_forked_child_has_iterators_of_its_own() -> None:
    """What the parent's iterator reads does not come to the child."""
    code = """
loader = Loader(range(8), 4, num_workers=1)
batches = iter(loader)
tell(batches)
first = next(batches).tolist()
pid = os.fork()
if pid == 0:
    same = [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    os._exit(0 if same else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), first, next(batches).tolist())
"""
    with child(code) as (process, _):
        assert output(process) == (0, "0 [0, 1, 2, 3] [4, 5, 6, 7]\n", "")


def test_datasets_of_no_and_of_one_sample_have_their_batches() -> None:
    """For fewer samples than a batch, and than workers."""
    for workers in (0, 2):
        assert numbers(Loader([], 4, num_workers=workers)) == []  # type: ignore[arg-type]
        assert numbers(Loader([5], 4, num_workers=workers)) == [[5]]  # type: ignore[arg-type]
        assert numbers(Loader([5], 4, num_workers=workers, drop_last=True)) == []  # type: ignore[arg-type]
    empty = Loader([], 4)  # type: ignore[arg-type]
    again = Loader([], 4)  # type: ignore[arg-type]
    again.load_state_dict(state_of(empty))
    assert numbers(again) == []
