"""Check that extents are fetched to a disk ahead of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from cache_files import tier
from counted_store import CountedStore
from tiny import write_dataset

from datafeed.blockindex import read_index
from datafeed.cache.config import Cache
from datafeed.cache.reader import TieredReader
from datafeed.cache.stage import stage
from datafeed.errors import CorruptData
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.storage import open_store


@pytest.fixture
def blocks(tmp_path: Path) -> BlockReader:
    """A dataset of 12 extents on a store that is not local."""
    write_dataset(str(tmp_path / "data"), shards=3, blocks=8, extent_size=200)
    store = CountedStore(open_store(str(tmp_path / "data")))
    manifest = read_manifest(store)
    return BlockReader(store, manifest, read_index(store, manifest))


def test_a_run_reads_what_was_staged(tmp_path: Path, blocks: BlockReader) -> None:
    """A second call fetches nothing, and a run finds all of it."""
    done: list[tuple[int, str]] = []
    (tmp_path / "nvme").mkdir()
    disk = tier(tmp_path / "nvme", 10**6)
    counts = stage(blocks, disk, range(6), lambda number, _, outcome: done.append((number, outcome)))
    assert (counts.fetched, counts.there, counts.no_room) == (6, 0, 0)
    again = stage(blocks, disk, range(12), lambda number, _, outcome: done.append((number, outcome)))
    assert (again.fetched, again.there, again.no_room) == (6, 6, 0)
    assert sorted(done) == sorted([(n, "fetched") for n in range(12)] + [(n, "there") for n in range(6)])
    disk.close()
    reader = TieredReader(blocks, Cache(nvme=(tmp_path / "nvme", "1MB")))
    for start in range(0, 24, 8):
        reader.read_run(start, start + 8)
    assert reader.stats()[-1].admitted == 0


def test_staging_ends_where_no_room_is_left(tmp_path: Path, blocks: BlockReader) -> None:
    """What fits is there, and the rest was not even fetched."""
    counts = stage(blocks, tier(tmp_path, 1000), range(12), lambda *_: None, threads=1)
    assert (counts.fetched, counts.no_room) == (3, 1)
    assert isinstance(blocks.store, CountedStore)
    assert len(blocks.store.reads) == 4


def test_staging_tells_what_the_store_does_wrong(tmp_path: Path, blocks: BlockReader) -> None:
    """Wrong bytes are an error, and are not kept."""
    assert isinstance(blocks.store, CountedStore)
    blocks.store.lies = 1
    disk = tier(tmp_path, 10**6)
    with pytest.raises(CorruptData):
        stage(blocks, disk, [0], lambda *_: None, threads=1)
    assert disk.entries() == []
