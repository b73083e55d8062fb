"""Test the lock of a destination."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from datafeed.converters.lock import LOCK_NAME, locked
from datafeed.errors import OutputError, OutputLocked
from datafeed.storage import open_store


def test_f04_second_conversion_fails_at_once_and_names_the_first(tmp_path: Path) -> None:
    """While one holds the lock, the next gets pid, host and time of it."""
    store = open_store(tmp_path / "out")
    expected = rf"output locked by pid {os.getpid()} on host {re.escape(socket.gethostname())} since \d{{4}}-\d\d-\d\dT"
    with locked(store), pytest.raises(OutputLocked, match=expected), locked(store):
        pass
    with locked(store):
        pass
    assert list((tmp_path / "out").iterdir()) == []


def test_f04_another_process_is_named(tmp_path: Path) -> None:
    """A lock held by another process names that one's pid, and is free again once it was killed."""
    code = f"""
import sys, time
from datafeed.converters.lock import locked
from datafeed.storage import open_store
with locked(open_store({str(tmp_path)!r})):
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(OutputLocked, match=f"pid {child.pid} "), locked(open_store(tmp_path)):
            pass
        child.kill()
    with locked(open_store(tmp_path)):
        assert json.loads((tmp_path / LOCK_NAME).read_bytes())["pid"] == os.getpid()


@pytest.mark.parametrize("scheme", ["", "memory:/"])
def test_f04_stale_lock_is_taken_over_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture, scheme: str) -> None:
    """A lock whose holder is dead is taken over, which the log says with the holder's pid."""
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    store = open_store(f"{scheme}{tmp_path}")
    with store.writer(LOCK_NAME) as sink:
        sink.write(json.dumps({"pid": dead.pid, "host": socket.gethostname(), "since": "yesterday"}).encode())
    with caplog.at_level(logging.WARNING), locked(store):
        pass
    assert f"pid {dead.pid} on host {socket.gethostname()} since yesterday" in caplog.text
    assert not store.exists(LOCK_NAME)


def test_f04_remote_lock_of_another_host_stays(tmp_path: Path) -> None:
    """Whether a process of another host lives cannot be known: the lock holds, and the message says what to delete."""
    store = open_store(f"memory:/{tmp_path}")
    with store.writer(LOCK_NAME) as sink:
        sink.write(b'{"pid": 1, "host": "elsewhere", "since": "now"}')
    with pytest.raises(OutputLocked, match=rf"host elsewhere .*delete {re.escape(LOCK_NAME)}"), locked(store):
        pass


def test_f04_remote_lock_of_a_live_process_stays(tmp_path: Path) -> None:
    """A remote lock is refused while its holder lives."""
    store = open_store(f"memory:/{tmp_path}")
    with locked(store), pytest.raises(OutputLocked, match=f"pid {os.getpid()}"), locked(store):
        pass
    assert not store.exists(LOCK_NAME)


def test_destination_in_a_file_is_refused(tmp_path: Path) -> None:
    """A destination that cannot be a directory is an OutputError that names it."""
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(OutputError, match="/file' is a file: name"), locked(open_store(tmp_path / "file" / "out")):
        pass
