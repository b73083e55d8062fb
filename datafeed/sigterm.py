"""Save where loaders stand when the process is told to end."""

from __future__ import annotations

import json
import os
import signal
import threading
import weakref
from pathlib import Path
from types import FrameType
from typing import Protocol

from datafeed.errors import ConfigError
from datafeed.localstore import LocalStore


class Stateful(Protocol):
    """Tell where one stands."""

    def state_dict(self) -> dict[str, object]:
        """Return it as JSON values."""


_saving: weakref.WeakKeyDictionary[Stateful, Path] = weakref.WeakKeyDictionary()


def save_on_sigterm(loader: Stateful, path: Path) -> None:
    """Make SIGTERM write a loader's state to a file, while the loader lives; then what SIGTERM did before happens.

    The file is there as a whole or not at all. A child process that is forked off writes nothing.

    Args:
        loader: What has the state.
        path: Where it is written.

    Raises:
        ConfigError: This is not the main thread, which alone may catch signals.
    """
    _saving[loader] = path
    if isinstance(signal.getsignal(signal.SIGTERM), _Handler):
        return
    if threading.current_thread() is not threading.main_thread():
        raise ConfigError("on_sigterm= needs iter(loader) in the main thread: Python catches signals nowhere else")
    signal.signal(signal.SIGTERM, _Handler(signal.getsignal(signal.SIGTERM), os.getpid()))


class _Handler:
    """Save all states, then do what the handler before did.

    Args:
        before: That handler, as `signal.getsignal` returned it.
        pid: The process that saves.
    """

    def __init__(self, before: object, pid: int) -> None:
        self._before = before
        self._pid = pid

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._pid:
            for loader, path in list(_saving.items()):
                _save(loader, path)
        if callable(self._before):
            self._before(number, frame)
        elif self._before != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


def _save(loader: Stateful, path: Path) -> None:
    """Write a state; a failure is told, and does not keep the process from ending."""
    try:
        with LocalStore(str(path.parent)).writer(path.name) as sink:
            sink.write(json.dumps(loader.state_dict()).encode())
    except Exception as exc:  # noqa: BLE001  (whatever it is, the process is about to end)
        os.write(2, f"datafeed: the state was not saved to {path}: {exc!r}\n".encode())  # print may be at work below
