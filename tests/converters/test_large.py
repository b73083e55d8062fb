"""Test inputs that are larger than memory may be, and records of very different sizes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc

from datafeed.blockindex import read_index
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.manifest import read_manifest
from datafeed.storage import open_store

GB = 10**9
LIMIT_KB = 600_000

CHILD = """
import resource, sys
from datafeed.converters.convert import ConvertOptions, convert
options = ConvertOptions(workers=1, level=-1, shuffle_all=len(sys.argv) > 3)
report = convert(sys.argv[1], sys.argv[2], options)
assert not options.shuffle_all or "shuffled exactly" in report.notes
print(report.records, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def converted(source: Path, dest: Path, *more: str) -> tuple[int, int]:
    """Convert a file in a child, shuffled where more is said; return its records and the child's most memory, in kB."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", CHILD, str(source), str(dest), *more]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    records, peak = map(int, done.stdout.split())
    return records, peak


@pytest.mark.large
@pytest.mark.parametrize("more", [[], ["shuffled"]], ids=str)
def test_an_array_of_8_gb_passes_in_little_memory(tmp_path: Path, more: list[str]) -> None:
    """It is a sparse file, so that it takes no room; it is read in full all the same, by rows from anywhere too."""
    rows = 8 * GB // 4096
    np.lib.format.open_memmap(tmp_path / "a.npy", "w+", np.uint16, (rows, 2048)).flush()
    assert (tmp_path / "a.npy").stat().st_size > 8 * GB
    records, peak = converted(tmp_path / "a.npy", tmp_path / "out", *more)
    assert records == rows
    assert peak < LIMIT_KB


@pytest.mark.large
def test_an_arrow_file_of_2_gb_is_shuffled_in_little_memory(tmp_path: Path) -> None:
    """It is mapped, and what was read of it is let go."""
    batch = pa.record_batch({"x": pa.array([bytes(2000)] * 10_000)})
    with ipc.new_file(tmp_path / "a.arrow", batch.schema) as out:
        for _ in range(100):
            out.write_batch(batch)
    records, peak = converted(tmp_path / "a.arrow", tmp_path / "out", "shuffled")
    assert records == 10**6
    assert peak < LIMIT_KB


@pytest.mark.large
def test_a_tar_of_8_gb_passes_in_little_memory(tmp_path: Path) -> None:
    """A thousand members of 8 MB, sparse."""
    with open(tmp_path / "a.tar", "wb") as file:
        for number in range(1000):
            member = tarfile.TarInfo(f"{number:06d}.bin")
            member.size = 8 * 2**20
            file.write(member.tobuf(tarfile.USTAR_FORMAT))
            file.seek(member.size, os.SEEK_CUR)
        file.write(bytes(10240))
    assert (tmp_path / "a.tar").stat().st_size > 8 * GB
    records, peak = converted(tmp_path / "a.tar", tmp_path / "out")
    assert records == 1000
    assert peak < LIMIT_KB


def mixed(number: int) -> list[dict[str, object]]:
    """Make a record of 40 MB, or a thousand of 1 kB, that zstd cannot shrink."""
    rng = np.random.default_rng(number)
    if number % 2:
        return [{"n": number, "blob": rng.bytes(40_000_000)}]
    return [{"n": number, "blob": rng.bytes(1000)} for _ in range(1000)]


@pytest.mark.large
def test_shards_come_near_their_size_whatever_the_records(tmp_path: Path) -> None:
    """3 GB of records of 1 kB and of 40 MB: within 15 % of 100 MB, or half the largest block, but for the last."""
    report = convert(range(146), tmp_path, ConvertOptions(workers=1), fn=mixed)
    assert report.raw_bytes > 2.9 * GB
    store = open_store(tmp_path)
    index = read_index(store, read_manifest(store))
    sizes = [index.stored[index.shard == number] for number in range(report.shards)]
    assert report.shards > 20
    for blocks, after in itertools.pairwise(sizes):
        largest = max(int(blocks.max()), int(after[0]))
        assert abs(int(blocks.sum()) - 100_000_000) <= max(15_000_000, largest / 2)
