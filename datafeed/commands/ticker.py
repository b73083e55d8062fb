"""Show on standard error how far a command is."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

import click

from datafeed.sizes import format_size

_TERMINAL_S = 0.1
_FIRST_S, _MOST_S, _SHARE = 2.0, 10.0, 0.1  # a line is at most a tenth of the time old; an hour gives under 400


class Ticker:
    """Write a line of progress: renewed in place on a terminal, a plain line every 2 to 10 seconds elsewhere.

    What nothing new came after is said again, with the time that has passed.

    Args:
        what: What is going on, in front of every line.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._live = sys.stderr.isatty()
        self._start = time.monotonic()
        self._next = self._start + self._pause(self._start)
        self._nbytes = 0
        self._latest = ""
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._beat = threading.Thread(target=self._repeat, name="datafeed-ticker", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._beat.is_alive():
            self._beat.join()
        if self._live:
            click.echo("\r\x1b[K", err=True, nl=False)

    def add(self, nbytes: int) -> None:
        """Count bytes that are done with."""
        self._nbytes += nbytes
        now = time.monotonic()
        rate = self._nbytes / max(now - self._start, 1e-9)
        self.line(f"{format_size(self._nbytes)}, {format_size(rate)}/s", now)

    def stay(self, text: str) -> None:
        """Show a text of what takes long, with the time that has passed."""
        self._latest = text
        if not self._beat.is_alive():
            self._beat.start()

    def _repeat(self) -> None:
        while not self._ended.wait(_TERMINAL_S):
            now = time.monotonic()
            self._show(f"{self._latest}, {now - self._start:.0f} s so far", now)

    def line(self, text: str, now: float) -> None:
        """Show a text, if it is time."""
        self.stay(text)
        self._show(text, now)

    def _show(self, text: str, now: float) -> None:
        with self._writing:
            if now < self._next:
                return
            self._next = now + self._pause(now)
            line = f"{self._what}: {text}"
            click.echo(f"\r\x1b[K{line}" if self._live else line, err=True, nl=not self._live)

    def _pause(self, now: float) -> float:
        return _TERMINAL_S if self._live else min(max(_FIRST_S, _SHARE * (now - self._start)), _MOST_S)
