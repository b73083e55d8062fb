"""Test shuffling sources whose rows can be read by number."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from numbered import digests
from pyarrow import ipc

from datafeed import Dataset
from datafeed.converters import arrow_facts, numpy_files, shuffle
from datafeed.converters.array_rows import PAGE_NBYTES
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.detect import open_source
from datafeed.converters.encode import read_chunks
from datafeed.converters.options import SourceOptions
from datafeed.converters.shuffle import Shuffled
from datafeed.errors import BadItem

ROWS = 20_000
ASKED = ConvertOptions(shard_size=8_000_000, workers=1, shuffle_all=True, seed=3)
EXACT, WINDOWS = "shuffled exactly", "shuffled within windows"


def write_npy(folder: Path) -> Path:
    """Write one array in three files; a row is its number, over and over."""
    rows = np.repeat(np.arange(ROWS, dtype=np.int64), 100).reshape(ROWS, 100)
    for number, part in enumerate(np.split(rows, [5000, 5001])):
        np.save(folder / f"a{number}.npy", part)
    return folder


def write_large(folder: Path) -> str:
    """Write 64 MB that zstd cannot shrink, enough for several tasks; each row begins with its number."""
    folder.mkdir()
    rows = np.random.default_rng(1).integers(0, 256, (ROWS, 3200), np.uint8).view(np.int64)
    rows[:, 0] = np.arange(ROWS)
    np.save(folder / "a.npy", rows)
    return str(folder)


def write_npz(folder: Path) -> Path:
    """Write two arrays that belong together into a file, one of them of rows of 8 bytes."""
    numbers = np.arange(ROWS)
    np.savez(folder / "a.npz", data=np.repeat(numbers, 100).reshape(ROWS, 100), x=numbers)
    return folder / "a.npz"


def write_arrow(folder: Path, name: str = "a.arrow") -> Path:
    """Write record batches of a number and a text that follows from it."""
    numbers = np.arange(ROWS)
    table = pa.table({"data": numbers, "text": [f"{number:x}" * 200 for number in numbers]})
    with (ipc.new_stream if name.endswith("ipc") else ipc.new_file)(folder / name, table.schema) as out:
        out.write_table(table, 700)
    return folder / name


def write_stream(folder: Path) -> Path:
    """Write them as a stream."""
    return write_arrow(folder, "a.ipc")


def shuffled(path: Path | str, seed: int = 3) -> Shuffled:
    """Open a source, to be shuffled."""
    return Shuffled(open_source(str(path), None, SourceOptions()), seed)


def order(source: Shuffled) -> list[int]:
    """Return the numbers of the rows in the order in which they come, and check what else a row says of itself."""
    source.schema()
    numbers: list[int] = []
    for chunk in read_chunks(source, source.units(), pytest.fail):
        data = chunk.columns["data"].values.reshape(chunk.rows, -1)
        assert (data == data[:, :1]).all()
        if "x" in chunk.columns:
            np.testing.assert_array_equal(chunk.columns["x"].values, data[:, 0])
        text = chunk.columns.get("text")
        assert text is None or all(
            text.values[text.offsets[row] : text.offsets[row + 1]].tobytes() == b"%x" % number * 200
            for row, number in enumerate(data[:, 0].tolist())
        )
        numbers += data[:, 0].tolist()
    return numbers


@pytest.mark.parametrize("write", [write_npy, write_npz, write_arrow, write_stream])
def test_every_row_comes_once_and_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object) -> None:
    """Rows of any tenth of the source come as often in any tenth of the order, and neighbours are parted."""
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 2_000_000)
    assert callable(write)
    source = shuffled(write(tmp_path))
    assert len(source.units()) >= 8
    found = np.array(order(source))
    assert sorted(found) == list(range(ROWS))
    counts = np.histogram2d(np.arange(ROWS), found, 10)[0]
    assert np.abs(counts - 200).max() < 5 * 200**0.5
    assert ((counts - 200) ** 2 / 200).sum() < 81 + 4 * (2 * 81) ** 0.5  # chi-square of 81 degrees of freedom
    assert abs(np.abs(found - np.arange(ROWS)).mean() - ROWS / 3) < ROWS / 100
    assert np.count_nonzero(np.abs(np.diff(found)) == 1) < 12  # two are to be expected
    assert source.notes()[-1] == EXACT
    assert found.tolist() == order(shuffled(tmp_path if write is write_npy else source.inner.path))
    assert source.options()["shuffle"] == "exact"


def test_another_seed_gives_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In which other rows come together, too."""
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 2_000_000)
    first, second = (np.array(order(shuffled(write_npy(tmp_path), seed))[:2500]) for seed in (1, 2))
    assert 200 < len(np.intersect1d(first, second)) < 430  # an eighth of each


def test_rows_that_would_be_read_with_many_others_are_shuffled_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a few bytes lie in pages of 4 KiB; where the whole source is read a few times, that does not matter."""
    monkeypatch.setattr(numpy_files, "UNIT_NBYTES", 100_000)
    np.save(tmp_path / "a.npy", np.zeros((400_000, 2)))
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 1_300_000)
    assert shuffled(tmp_path).notes()[-1] == EXACT
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 200_000)
    assert shuffled(tmp_path).notes()[-1].startswith(WINDOWS)
    np.save(tmp_path / "a.npy", np.zeros((20_000, PAGE_NBYTES // 15 // 8)))
    assert shuffled(tmp_path).notes()[-1] == EXACT
    monkeypatch.setattr(shuffle, "MOST_FILES", 0)
    assert shuffled(tmp_path).notes()[-1].startswith(WINDOWS)


def test_rows_that_lie_elsewhere_or_packed_are_shuffled_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remote ones would each be a request; compressed ones, and those in Fortran order, lie nowhere by themselves."""
    for module, name in (
        (shuffle, "WINDOW_NBYTES"),
        (numpy_files, "UNIT_NBYTES"),
        (numpy_files, "SCATTERED_NBYTES"),
        (arrow_facts, "UNIT_NBYTES"),
    ):
        monkeypatch.setattr(module, name, 2_000_000)
    rows = np.zeros((ROWS, 100))
    fsspec.filesystem("memory").pipe("/far/a.npy", (write_npy(tmp_path) / "a2.npy").read_bytes())
    np.save(tmp_path / "fortran.npy", np.asfortranarray(rows))
    table = pa.table({"data": np.arange(10**6), "text": ["x"] * 10**6})
    with ipc.new_file(tmp_path / "a.arrow", table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as out:
        out.write_table(table, 50_000)
    for where in ("memory://far/a.npy", tmp_path / "fortran.npy", tmp_path / "a.arrow"):
        assert shuffled(where).notes()[-1].startswith(WINDOWS)


def test_a_damaged_file_is_one_bad_item_and_the_others_are_shuffled_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is seen to be so, and one that is cut short after it was looked at."""
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 2_000_000)
    (write_npy(tmp_path) / "a1.npy").write_bytes(b"no array")
    source, bad = shuffled(tmp_path), list[BadItem]()
    source.schema(), source.units()
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append)]
    numbers = [int(row) for chunk in chunks for row in chunk.columns["data"].values[:, 0]]
    assert [item.where for item in bad] == [str(tmp_path / "a1.npy")]
    assert sorted(numbers) == [row for row in range(ROWS) if row != 5000]
    os.truncate(tmp_path / "a2.npy", 10_000)
    assert all("ends too early" in item.reason for unit in source.units()[:-1] for item in bad_of(source, unit))


def bad_of(source: Shuffled, unit: object) -> list[BadItem]:
    """Return the bad items of a unit, one at least."""
    bad: list[BadItem] = []
    list(source.read(unit, bad.append))  # type: ignore[arg-type]  # one of its own
    assert bad
    return bad


@pytest.mark.usefixtures("ray_workers")
def test_the_bytes_are_the_same_for_any_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Ray too, whose workers get the order from the source alone."""
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 8_000_000)
    raw = write_large(tmp_path / "raw")
    report = convert(raw, tmp_path / "1", ASKED)
    assert EXACT in report.notes
    options = ConvertOptions(shard_size=8_000_000, workers=2, shuffle_all=True, seed=3)
    assert convert(raw, tmp_path / "2", options).ran_on == "ray"
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
    assert sorted(int(row["data"][0]) for row in Dataset(tmp_path / "1")) == list(range(ROWS))


CHILD = """
import os, signal, sys
from datafeed.converters import arrow_facts, numpy_files, shuffle
from datafeed.converters.convert import ConvertOptions, convert
shuffle.WINDOW_NBYTES = 8_000_000
def stop(progress):
    if progress.shards > 1:
        os.kill(os.getpid(), signal.SIGKILL)
options = ConvertOptions(shard_size=8_000_000, workers=1, shuffle_all=True, seed=3)
convert(sys.argv[1], sys.argv[2], options, on_progress=stop)
"""


def test_a_rerun_after_a_kill_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on after the finished shards."""
    monkeypatch.setattr(shuffle, "WINDOW_NBYTES", 8_000_000)
    raw = write_large(tmp_path / "raw")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", CHILD, raw, tmp_path / "2"], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    convert(raw, tmp_path / "1", ASKED)
    assert convert(raw, tmp_path / "2", ASKED).resumed > 0
    assert digests(tmp_path / "1") == digests(tmp_path / "2")
