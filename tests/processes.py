"""Wait for processes in tests."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def ended(process: psutil.Process) -> bool:
    """Tell whether a process has ended, though its parent may not have taken note of it yet."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def wait_until(ready: Callable[[], bool]) -> None:
    """Wait for something, a minute at most."""
    end = time.monotonic() + 60
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.05)
