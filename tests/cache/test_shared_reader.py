"""Check that processes that share a cache directory fetch each extent once between them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from counted_store import CountedStore
from tiny import write_dataset

from datafeed.blockindex import read_index
from datafeed.cache.config import Cache
from datafeed.cache.reader import TieredReader
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.storage import open_store

BLOCKS = 60


def _reader(path: Path, store: CountedStore) -> TieredReader:
    manifest = read_manifest(store)
    return TieredReader(
        BlockReader(store, manifest, read_index(store, manifest)), Cache(nvme=(path / "nvme", "1MB"), policy="epoch")
    )


def _read(path: Path, seed: int) -> None:
    """Read all blocks in an order of this process's own, ahead, and compare with the local dataset."""
    data = open_store(str(path / "data"))
    manifest = read_manifest(data)
    plain = BlockReader(data, manifest, read_index(data, manifest))
    reader = _reader(path, CountedStore(data, str(path / "log"), latency_s=0.002))
    order = np.random.default_rng(seed).permutation(BLOCKS).tolist()
    ahead = reader.ahead(iter([_Step(block) for block in order]), np.ones(BLOCKS, np.int32))
    for step in ahead.steps:
        (block,) = ahead.read_runs(step.loads)
        if bytes(block.raw) != bytes(plain.read(step.loads[0][0]).raw):
            os._exit(3)
    ahead.close()


class _Step:
    def __init__(self, block: int) -> None:
        self.loads = ((block, block + 1),)
        self.rows = np.zeros(1, np.int32)


@pytest.mark.slow
def test_f14_eight_processes_fetch_each_extent_once(tmp_path: Path) -> None:
    """Cold, at the same time, in eight orders; the log of the store's reads counts for all of them."""
    write_dataset(str(tmp_path / "data"), shards=3, blocks=BLOCKS // 3, extent_size=200)
    (tmp_path / "nvme").mkdir()
    pids = []
    for seed in range(8):
        pid = os.fork()
        if not pid:
            _read(tmp_path, seed)
            os._exit(0)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 8
    fetched = Counter((tmp_path / "log").read_text().splitlines())
    assert len(fetched) == BLOCKS // 2
    assert set(fetched.values()) == {1}
