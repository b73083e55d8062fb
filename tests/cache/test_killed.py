"""Kill processes that share a cache directory, and check what is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import cache_killed
import pytest
from cache_files import FILE, OTHER, entry_path, extent, tier

from datafeed.cache.folder import NAME


def _run(folder: Path, rounds: int, timeout_s: int) -> dict[str, int]:
    command = [sys.executable, cache_killed.__file__, str(folder), str(rounds), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_f9_f10_what_is_left_is_whole_wherever_one_is_killed(tmp_path: Path) -> None:
    """One of two processes dies while it fills or evicts: entries are whole or gone, and budgets hold."""
    assert _run(tmp_path, 80, 60)["killed"] > 40


@pytest.mark.large
def test_f9_f10_a_thousand_rounds(tmp_path: Path) -> None:
    """The same at every point and at many moments."""
    assert _run(tmp_path, 1000, 600)["killed"] > 600


def test_f9_leftovers_of_a_killed_process_are_swept(tmp_path: Path) -> None:
    """Unfinished entries and sessions go at the next start; whole entries stay, and are not read for it."""
    disk = tier(tmp_path)
    disk.admit(*extent(0))
    disk.close()
    (tmp_path / NAME / "tmp" / "17-abcdef01-0").write_bytes(b"half")
    (tmp_path / NAME / "sessions" / "17-abcdef01").write_bytes(b"")
    again = tier(tmp_path)
    assert [path.name for path in (tmp_path / NAME / "tmp").iterdir()] == []
    assert len(list((tmp_path / NAME / "sessions").iterdir())) == 1
    assert again.usage().nbytes == FILE


def test_f21_books_that_are_damaged_are_made_anew(tmp_path: Path) -> None:
    """From what lies there, of all datasets."""
    disk = tier(tmp_path)
    disk.admit(*extent(0))
    disk.admit(*extent(0, OTHER))
    disk.close()
    (tmp_path / NAME / "ledger").write_bytes(b"\xff" * 20)
    entry_path(tmp_path, extent(0)[0]).unlink()
    assert tier(tmp_path).usage().used == {OTHER: FILE}
