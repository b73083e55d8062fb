"""Test that a conversion survives kills, full disks and broken uploads."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from numbered import Numbered, digests, records

import datafeed
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.errors import DatasetNotFound, OutputError, OutputFull
from datafeed.manifest import read_manifest
from datafeed.storage import open_store

SMALL = ConvertOptions(shard_size=4000, block_size=700, workers=1)
ROUNDS = int(os.environ.get("DATAFEED_KILL_ROUNDS", "20"))
TESTS = Path(__file__).parents[1]


def _child(*args: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(TESTS), str(Path(datafeed.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, check=False)


def test_f01_killed_conversion_leaves_nothing_partial_and_resumes(tmp_path: Path) -> None:
    """Killed all over, and killed again on its way on, a conversion ends with the bytes of an undisturbed one.

    After every kill each file under a final name is whole. DATAFEED_KILL_ROUNDS sets the rounds.
    """
    done = _child(str(TESTS / "killed.py"), str(tmp_path), str(ROUNDS), "1")
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    assert counts["killed"] >= ROUNDS * 0.7
    assert counts["twice"] >= ROUNDS * 0.2
    assert counts["points"] > 60


def _interrupted(dest: Path, source: Numbered) -> int:
    """Stop a conversion once it has finished three shards; return how many stand."""

    def stop(_: object) -> None:
        if len(list(dest.glob("shard-*"))) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(dataclasses.replace(source, read_s=0.02), str(dest), SMALL, on_progress=stop)
    return len(list(dest.glob("shard-*")))


def test_f01_rerun_keeps_finished_shards(tmp_path: Path) -> None:
    """Shards that were finished are not written again, and the report says how many there were."""
    stood = _interrupted(tmp_path, Numbered(500))
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("shard-*")}
    report = convert(Numbered(500), str(tmp_path), SMALL)
    assert report.resumed == stood
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in before} == before


def test_f01_finished_shard_of_another_size_is_made_again(tmp_path: Path) -> None:
    """A finished shard that was cut meanwhile is made again, and so are those behind it."""
    _interrupted(tmp_path / "a", Numbered(500))
    shard = tmp_path / "a" / "shard-000001.tfrecord.zst"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert convert(Numbered(500), str(tmp_path / "a"), SMALL).resumed == 1
    convert(Numbered(500), str(tmp_path / "b"), SMALL)
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_f04_stale_lock_is_taken_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The lock of a conversion that died is taken over by the next, which logs it."""
    (tmp_path / ".convert.lock").write_text('{"pid": 4194304, "host": "h", "since": "t"}')
    with caplog.at_level(logging.WARNING):
        convert(Numbered(20), str(tmp_path), SMALL)
    assert "took over the stale lock" in caplog.text


@contextmanager
def _tmpfs(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("NOT TESTED: a small tmpfs needs root and the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_f02_full_disk_keeps_finished_shards(tmp_path: Path) -> None:
    """Without room a conversion ends with the numbers, leaves no temporary file, and goes on once there is room."""
    out = tmp_path / "small"
    source = Numbered(3000, letters=256)
    options = dataclasses.replace(SMALL, shard_size=20_000)
    with _tmpfs(out, "128k"):
        with pytest.raises(OutputFull, match=r"no room .* needs .* are free at"):
            convert(source, str(out), options)
        assert list(out.glob("shard-*"))
        assert not [name for name in digests(out) if "/." in f"/{name}"]
        assert not (out / "dataset.json").exists()
        subprocess.run(["mount", "-o", "remount,size=10m", str(out)], check=True)
        assert convert(source, str(out), options).resumed > 1
        convert(source, str(tmp_path / "whole"), options)
        assert digests(out) == digests(tmp_path / "whole")


def test_f03_failed_write_aborts_the_shard_and_names_it(tmp_path: Path) -> None:
    """A write that the system refuses (RLIMIT_FSIZE: EFBIG) ends with file and errno; finished shards stay."""
    out = tmp_path / "out"
    code = f"""
import resource, signal, errno
from numbered import Numbered
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.errors import OutputError
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
OPTIONS = ConvertOptions(shard_size=1500, block_size=30_000, workers=1, level=3)
class Grows(Numbered):
    def expected(self, row):
        return bytes(80) if row < 300 else super().expected(row)
try:
    convert(Grows(600, unit_rows=300, letters=256), {str(out)!r}, OPTIONS)
except OutputError as exc:
    assert exc.errno == errno.EFBIG, exc
    print(exc.filename)
"""
    done = _child("-c", code)
    assert done.stderr == ""
    assert done.stdout.startswith(f"{out}/shard-")
    assert list(out.glob("shard-*"))
    assert not list(out.glob(".*"))
    assert not (out / "dataset.json").exists()


class FlakyStore(MemoryFileSystem):
    """Keep objects in memory, and lose the connection at a chosen put."""

    protocol = "flaky"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    puts_left: ClassVar[int] = 0

    def pipe_file(self, path: str, value: bytes, **kwargs: object) -> None:
        """Put an object, or fail before anything of it stands."""
        if FlakyStore.puts_left == 0:
            raise ConnectionResetError(104, "connection reset by peer")
        FlakyStore.puts_left -= 1
        super().pipe_file(path, value, **kwargs)


fsspec.register_implementation("flaky", FlakyStore, clobber=True)


def test_f07_interrupted_upload_leaves_old_or_new(tmp_path: Path) -> None:
    """Wherever the connection is lost, readers see no dataset; a rerun completes it with the same bytes."""
    source = Numbered(150)
    convert(source, str(tmp_path), SMALL)
    whole = records(str(tmp_path))
    puts, done = 0, False
    while not done:
        url = f"flaky://bucket{tmp_path}/{puts}"
        FlakyStore.puts_left = puts
        try:
            convert(source, url, SMALL)
            done = True
        except OutputError:
            with pytest.raises(DatasetNotFound):
                read_manifest(open_store(url))
            FlakyStore.puts_left = -1
            convert(source, url, SMALL)
        assert records(url) == whole
        assert open_store(url).names() == sorted(digests(tmp_path))
        puts += 1
    assert puts > 8
