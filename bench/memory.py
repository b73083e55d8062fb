"""Sample the memory of processes while something runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import psutil

_EVERY_S = 0.05

Watched = Callable[[], list[psutil.Process]]


class PeakMemory:
    """Keep the largest memory that each of some processes had while the `with` block ran.

    Args:
        watched: Lists the processes; asked at every sample.
    """

    def __init__(self, watched: Watched) -> None:
        self._watched = watched
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peak-memory", daemon=True)
        self.pss: dict[int, int] = {}
        self.rss: dict[int, int] = {}

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        for process in self._watched():
            try:
                found = process.memory_full_info()
            except psutil.NoSuchProcess:
                continue
            self.pss[process.pid] = max(found.pss, self.pss.get(process.pid, 0))
            self.rss[process.pid] = max(found.rss, self.rss.get(process.pid, 0))


def this_process() -> list[psutil.Process]:
    """List the process itself."""
    return [psutil.Process()]


def ray_workers() -> list[psutil.Process]:
    """List the processes of a local Ray that run, or ran, tasks."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            name = process.cmdline()[:1]
        except psutil.NoSuchProcess:
            continue
        if name and name[0].startswith("ray::"):
            found.append(process)
    return found
