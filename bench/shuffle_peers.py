"""Take the shuffled orders of other people's loaders, from their own code, over record numbers instead of records.

Each runs in a process of its own: `python -m datafeed.bench.shuffle_peers NAME CASE FILE`.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np

from datafeed.splitmix import Numbers

_TIMEOUT_S = 600
_CANONICAL_NODES = 64  # streaming's own choice for py1s on one node; for py1e it is 1
_FILES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Shards:
    """Describe the files that a peer reads, and how many records it may hold.

    Args:
        records: How many records there are, a multiple of `shards`.
        shards: How many files.
        buffer: Records of the peer's buffer, or of its shuffle block.
        seed: Seeds the peer's generators.
    """

    records: int
    shards: int
    buffer: int
    seed: int = 0

    def starts(self) -> Numbers:
        """Return the first record of each file."""
        return np.arange(self.shards, dtype=np.int64) * (self.records // self.shards)


def _streaming(case: Shards, algorithm: str, nodes: int) -> Numbers:
    """Shuffle with streaming's function, then share out with its own partitions: one node, one rank, one worker."""
    found = find_spec("streaming")
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(found.submodule_search_locations[0])
    # Their packages' own start would load transformers and torchvision, which these functions do not use.
    for name, path in (("streaming", folder), ("streaming.base", folder / "base")):
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [str(path)]
    shuffle = getattr(import_module(f"streaming.base.shuffle.{algorithm}"), f"get_shuffle_{algorithm}")
    partitions = import_module("streaming.base.partition.orig").get_partitions_orig
    sizes = np.full(case.shards, case.records // case.shards, np.int64)
    shuffled = np.asarray(shuffle(sizes, nodes, case.seed, 0, case.buffer), np.int64)
    turn = np.asarray(partitions(case.records, nodes, 1, 1, 1, 1)).ravel()
    order: Numbers = shuffled[turn[turn >= 0]]
    return order


def _webdataset(case: Shards) -> Numbers:
    """Read the files one after another, in shuffled order, through its buffer."""
    import webdataset as wds

    chance = random.Random(case.seed)
    starts = case.starts().tolist()
    chance.shuffle(starts)
    records = (start + row for start in starts for row in range(case.records // case.shards))
    out: Iterator[int] = wds.filters.shuffle(case.buffer, rng=chance)(records)
    return np.fromiter(out, np.int64, case.records)


def _tf_data(case: Shards, files: int) -> Numbers:
    """Read so many files at once, in shuffled order, through its buffer."""
    import tensorflow as tf

    size = case.records // case.shards
    starts = tf.data.Dataset.from_tensor_slices(case.starts()).shuffle(case.shards, seed=case.seed)
    records = starts.interleave(lambda start: tf.data.Dataset.range(start, start + size), cycle_length=files)
    batches = records.shuffle(case.buffer, seed=case.seed).batch(65_536).as_numpy_iterator()
    return np.concatenate(list(batches))


@dataclass(frozen=True, slots=True)
class Peer:
    """Name a peer's order.

    Args:
        package: What it is imported from.
        order: Returns the record numbers of an epoch in order.
        buffered: Whether the buffer's size makes a difference.
        own: The size that it chooses itself, where that is measured too.
    """

    package: str
    order: Callable[[Shards], Numbers]
    buffered: bool = True
    own: int | None = None


PEERS: dict[str, Peer] = {
    "streaming py1e": Peer("streaming", partial(_streaming, algorithm="py1e", nodes=1), own=4_000_000),
    "streaming py1s": Peer("streaming", partial(_streaming, algorithm="py1s", nodes=_CANONICAL_NODES), buffered=False),
    "webdataset": Peer("webdataset", _webdataset),
    "tf.data": Peer("tensorflow", partial(_tf_data, files=1)),
    f"tf.data, {_FILES_AT_ONCE} files at once": Peer("tensorflow", partial(_tf_data, files=_FILES_AT_ONCE)),
}


def missing(name: str) -> bool:
    """Tell whether a peer's package is not installed."""
    return find_spec(PEERS[name].package) is None


def order_apart(name: str, case: Shards) -> Numbers:
    """Return a peer's order of an epoch, made in a fresh process.

    Args:
        name: One of `PEERS`.
        case: What it reads.

    Returns:
        int64[records], the record number at each position.

    Raises:
        RuntimeError: It failed; with the end of what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "order.npy"
        command = [sys.executable, "-m", __name__, name, json.dumps(asdict(case)), str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} failed with exit code {done.returncode}: {done.stderr[-2000:]}")
        return np.asarray(np.load(out), np.int64)


if __name__ == "__main__":
    np.save(sys.argv[3], PEERS[sys.argv[1]].order(Shards(**json.loads(sys.argv[2]))))
