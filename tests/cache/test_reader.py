"""Check that blocks come back the same through every subset of tiers, and where they came from."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from cache_files import entry_path
from counted_store import CountedStore
from tiny import SCHEMA, write_dataset

from datafeed._native import Block, Parser
from datafeed.batches import to_arrays
from datafeed.blockindex import read_index
from datafeed.cache.config import Cache
from datafeed.cache.reader import TieredReader, TierStats
from datafeed.errors import ConfigError, CorruptData
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.storage import open_store

SHARDS, BLOCKS = 3, 8
TOTAL = SHARDS * BLOCKS


@pytest.fixture
def dataset(tmp_path: Path) -> BlockReader:
    """A dataset of 24 blocks in 12 extents, behind a store that counts and is not local."""
    write_dataset(str(tmp_path / "data"), shards=SHARDS, blocks=BLOCKS, extent_size=200)
    store = CountedStore(open_store(str(tmp_path / "data")))
    manifest = read_manifest(store)
    index = read_index(store, manifest)
    assert len(index.extents) - 1 == TOTAL // 2
    store.reads.clear()
    return BlockReader(store, manifest, index)


def cached(tmp_path: Path, dataset: BlockReader, *, ebs: float = 0, nvme: float = 0, host: float = 0) -> TieredReader:
    """Open tiers that hold shares of the dataset."""
    sizes = {"ebs": ebs, "nvme": nvme}
    stored = int(dataset.index.stored.sum()) + (len(dataset.index.extents) - 1) * 96
    for name in sizes:
        (tmp_path / name).mkdir(exist_ok=True)
    disks = {name: (tmp_path / name, int(share * stored)) for name, share in sizes.items() if share}
    flight = int(dataset.index.stored.sum())
    memory = {"host": flight + int(host * int(dataset.index.raw.sum()))} if host else {}
    return TieredReader(dataset, Cache(**disks, **memory))  # type: ignore[arg-type]


def runs_of(order: Sequence[int]) -> list[tuple[int, int]]:
    """Return runs of one block each."""
    return [(block, block + 1) for block in order]


def values_of(block: Block) -> list[tuple[int, str]]:
    """Return what the records of a block hold, packed or not."""
    rows = np.arange(len(block), dtype=np.int32)
    found = to_arrays(SCHEMA, Parser(SCHEMA.features).parse([block], np.zeros_like(rows), rows))
    assert len(rows)
    return list(zip(found["x"].tolist(), found["name"], strict=True))  # type: ignore[union-attr]


def read_all(reader: TieredReader, order: Sequence[int]) -> dict[str, TierStats]:
    """Read an epoch as the engine does, and check each block; return what came from where."""
    plain, figures = reader._blocks, reader.figures()
    ahead = reader.ahead(iter(_steps(order)), np.ones(TOTAL, np.int32))
    for step in ahead.steps:
        for block, (number, _) in zip(ahead.read_runs(step.loads), step.loads, strict=True):
            assert values_of(block) == values_of(plain.read(number))
    stats = {tier.name: tier for tier in figures()}
    ahead.close()
    return stats


class _Step:
    def __init__(self, loads: Sequence[tuple[int, int]]) -> None:
        self.loads = tuple(loads)
        self.rows = np.zeros(4, np.int32)


def _steps(order: Sequence[int]) -> Iterator[_Step]:
    for low in range(0, len(order), 3):
        yield _Step(runs_of(order[low : low + 3]))


def shuffled(seed: int) -> list[int]:
    """Return the blocks in some order."""
    return np.random.default_rng(seed).permutation(TOTAL).tolist()


@pytest.mark.parametrize(
    "shares",
    [
        {},
        {"host": 1.0},
        {"nvme": 1.0},
        {"ebs": 1.0},
        {"nvme": 1.0, "ebs": 1.0},
        {"nvme": 0.5, "host": 0.25},
        {"nvme": 0.3, "ebs": 0.3, "host": 0.3},
    ],
)
def test_each_byte_is_fetched_once_and_what_fits_is_kept(
    tmp_path: Path, dataset: BlockReader, shares: dict[str, float]
) -> None:
    """The first epoch fetches every extent once, later ones what no tier holds; all blocks are right."""
    reader = cached(tmp_path, dataset, **shares)
    extents = TOTAL // 2
    first = read_all(reader, shuffled(0))
    assert first["store"].admitted == extents
    for epoch in (1, 2):
        later = read_all(reader, shuffled(epoch))
        assert later["store"].refetched == 0
        assert later["store"].admitted <= extents * max(0, 1 - sum(shares.values())) + 2 * len(shares)
        assert sum(tier.blocks for tier in later.values()) == TOTAL
        if sum(shares.values()) < 1:
            assert all(tier.admitted == 0 for name, tier in later.items() if name != "store"), (first, later, epoch)
    assert not [thread for thread in threading.enumerate() if thread.name == "datafeed-fetch"]


def test_a_second_process_finds_what_the_first_kept(tmp_path: Path, dataset: BlockReader) -> None:
    """A pickled reader, and one that is made anew, read from the disk alone."""
    reader = cached(tmp_path, dataset, nvme=1.0)
    read_all(reader, shuffled(0))
    copy = pickle.loads(pickle.dumps(reader))  # noqa: S301
    assert read_all(copy, shuffled(1))["store"].admitted == 0


def test_a_hit_is_promoted_where_there_is_room(tmp_path: Path, dataset: BlockReader) -> None:
    """What lay on the slower disk comes from the faster one the next time."""
    read_all(cached(tmp_path, dataset, ebs=1.0), shuffled(0))
    reader = cached(tmp_path, dataset, ebs=1.0, nvme=1.0)
    first, second = read_all(reader, shuffled(1)), read_all(reader, shuffled(2))
    assert first["store"].admitted == second["store"].admitted == 0
    assert first["nvme"].admitted == TOTAL // 2
    assert second["nvme"].blocks == TOTAL


@pytest.mark.parametrize("where", ["header", "frame"])
def test_f24_a_flipped_bit_in_an_entry_is_fetched_again(tmp_path: Path, dataset: BlockReader, where: str) -> None:
    """The entry goes, the block is right, and the figures say it."""
    reader = cached(tmp_path, dataset, nvme=1.0)
    read_all(reader, shuffled(0))
    key = reader._state().extents.key(5)
    path = entry_path(tmp_path / "nvme", key)
    data = bytearray(path.read_bytes())
    data[20 if where == "header" else 200] ^= 1
    path.write_bytes(data)
    stats = read_all(reader, shuffled(1))
    assert (stats["store"].admitted, stats["nvme"].damaged, stats["nvme"].admitted) == (1, 1, 1)
    assert read_all(reader, shuffled(2))["store"].admitted == 0


def test_f43_wrong_bytes_from_the_store_are_fetched_again_and_not_kept(tmp_path: Path, dataset: BlockReader) -> None:
    """A page of HTML once is no harm; for ever it is an error that names the shard; a disk never holds it."""
    store = dataset.store
    assert isinstance(store, CountedStore)
    reader = cached(tmp_path, dataset, nvme=1.0)
    store.lies = 1
    stats = read_all(reader, shuffled(0))
    assert (stats["nvme"].admitted, stats["nvme"].damaged) == (TOTAL // 2, 0)
    again = cached(tmp_path / "nvme", dataset, nvme=1.0)
    store.lies = 100
    with pytest.raises(CorruptData, match="shard-000000"):
        again.read(0)
    assert again._state().tiers.disks[0].entries() == []


def test_f16_a_budget_below_the_window_is_refused(tmp_path: Path, dataset: BlockReader) -> None:
    """At the start, with the numbers."""
    (tmp_path / "nvme").mkdir()
    with pytest.raises(ConfigError, match=r"host=1000 is too small: .* give at least"):
        TieredReader(dataset, Cache(host=1000)).open()
    with pytest.raises(ConfigError, match=r"nvme: its budget of 200 B is below the largest extent"):
        TieredReader(dataset, Cache(nvme=(tmp_path / "nvme", 200))).open()


def test_a_local_dataset_is_read_in_place(tmp_path: Path) -> None:
    """A tier on its own volume is left out; memory is not."""
    write_dataset(str(tmp_path / "data"), shards=SHARDS, blocks=BLOCKS, extent_size=200)
    (tmp_path / "nvme").mkdir()
    store = open_store(str(tmp_path / "data"))
    manifest = read_manifest(store)
    blocks = BlockReader(store, manifest, read_index(store, manifest))
    reader = TieredReader(blocks, Cache(nvme=(tmp_path / "nvme", "1MB"), host="1MB"))
    assert read_all(reader, shuffled(0))["store"].blocks == TOTAL
    assert read_all(reader, shuffled(1))["host"].blocks == TOTAL
    assert reader._state().tiers.disks == []


def test_one_block_is_read_in_its_encoding(tmp_path: Path, dataset: BlockReader) -> None:
    """Also where memory holds it packed, which whoever reads the records as they are cannot use."""
    reader = cached(tmp_path, dataset, host=1.0)
    read_all(reader, shuffled(0))
    assert read_all(reader, shuffled(1))["host"].blocks == TOTAL
    assert bytes(reader.read(5).raw) == bytes(dataset.read(5).raw)
    assert values_of(reader.read_runs([(5, 6)])[0]) == values_of(dataset.read(5))


def test_runs_over_extents_are_read(tmp_path: Path, dataset: BlockReader) -> None:
    """A run of a whole shard comes from several extents."""
    reader = cached(tmp_path, dataset, nvme=1.0)
    assert [bytes(block.raw) for block in reader.read_run(0, BLOCKS)] == [
        bytes(dataset.read(block).raw) for block in range(BLOCKS)
    ]
    with pytest.raises(ValueError, match="are not a run inside one shard"):
        reader.read_run(0, BLOCKS + 1)
