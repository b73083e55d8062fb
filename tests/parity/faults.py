"""Compare what is seen of workers that die, hang, or have no room."""

from __future__ import annotations

import os
import queue
import resource
import signal
import threading
import time
from typing import Any

import torch
from parity.compare import Maker, case, error_of
from parity.data import Killed, Stuck


def _killed(how: int, *, stay: bool = False) -> Any:
    def compared(make: Maker) -> object:
        batches = iter(make(Killed(8, how), 1, num_workers=2, persistent_workers=stay))
        error = error_of(lambda: list(batches))
        words = "exited unexpectedly" in str(error) or "by signal" in str(error) or "with exit code" in str(error)
        named = any(str(worker.pid) in str(error) for worker in batches._workers)  # type: ignore[attr-defined]
        return type(error), words, named

    return compared


for name, how, stay in (
    ("killed", signal.SIGKILL, False),
    ("terminated", signal.SIGTERM, False),
    ("ended_by_itself", 0, False),
    ("killed_though_it_stays", signal.SIGKILL, True),
):
    function = _killed(how, stay=stay)
    function.__module__, function.__name__ = __name__, name
    case(function)


@case
def killed_while_asked_from_a_thread(make: Maker) -> object:
    """The error comes without a signal's help."""
    found: queue.Queue[Any] = queue.Queue()
    batches = iter(make(Killed(8, signal.SIGKILL), num_workers=1))
    thread = threading.Thread(target=lambda: found.put(error_of(lambda: list(batches))))
    thread.start()
    seen = error_of(lambda: time.sleep(0.5)), error_of(thread.join)  # a signal's error may come here instead
    thread.join()
    errors = [error for error in (*seen, found.get()) if isinstance(error, RuntimeError)]
    return {type(error) for error in errors}, any(str(batches._workers[0].pid) in str(one) for one in errors)  # type: ignore[attr-defined]


@case
def timed_out(make: Maker) -> object:
    """The seconds are named."""
    return list(make(Stuck(4), num_workers=1, timeout=1))


@case
def too_many_open_files(make: Maker) -> object:
    """The limit is named, with what to do; the descriptors are those of the tensors that are kept."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 40, limits[1]))
    kept = []
    try:
        for batch in make([torch.ones(2)] * 200, num_workers=1):
            kept.append(batch)  # noqa: PERF402  (what came before the error is kept)
    except (RuntimeError, OSError) as exc:
        return type(exc), str(exc).partition(".")[0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    return len(kept)
