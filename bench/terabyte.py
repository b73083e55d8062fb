"""Measure what opening a dataset of a terabyte takes: the index is a real one, and all shards are one file."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from datafeed.bench.figures import Figure, Setting, in_process
from datafeed.bench.memory import PeakMemory, this_process
from datafeed.bench.serving import served
from datafeed.blockindex import read_columns
from datafeed.commit import commit
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.write import write
from datafeed.dataset import Dataset
from datafeed.loader import Loader
from datafeed.manifest import read_manifest
from datafeed.shard import shard_name
from datafeed.storage import open_store

_RECORD_NBYTES = 25_000
_BUCKET = "large"


def make(folder: Path, shards: int, shard_nbytes: int) -> str:
    """Make a dataset of equal shards, or find the one that an earlier call made.

    Args:
        folder: A bucket, in which the dataset is.
        shards: How many there are.
        shard_nbytes: Stored bytes of each, about.

    Returns:
        Its URL.
    """
    dest = folder / f"{shards}-shards"
    url = f"s3://{folder.name}/{dest.name}"
    if (dest / "whole").exists():
        return url
    write(str(dest), _samples(shard_nbytes), options=ConvertOptions(workers=1, shard_size=2 * shard_nbytes))
    store = open_store(str(dest))
    manifest = read_manifest(store)
    (info,) = manifest.shards
    names = [shard_name(number) for number in range(shards)]
    for name in names[1:]:
        os.link(dest / info.name, dest / name)
    infos = [replace(info, name=name) for name in names]
    commit(store, manifest.header, manifest.codec, infos, read_columns(store, manifest) * shards)
    (dest / "whole").touch()
    return url


def _samples(nbytes: int) -> Iterator[dict[str, object]]:
    rng = np.random.default_rng(0)
    for number in range(nbytes // _RECORD_NBYTES):
        yield {"data": rng.bytes(int(rng.integers(_RECORD_NBYTES // 2, _RECORD_NBYTES * 3 // 2))), "label": number}


def measure_terabyte(setting: Setting) -> Iterator[Figure]:
    """Take one sample of a shuffled epoch, in fresh processes: the time from `Loader`, and the memory that it adds.

    Args:
        setting: Where the data are, and how many rounds.
    """
    shards, nbytes = (20, 1_000_000) if setting.toy else (10_000, 100_000_000)
    url = make(setting.data / _BUCKET, shards, nbytes)
    with served(setting.data) as server:
        rounds = [in_process(__name__, [url, server.storage_options]) for _ in range(setting.rounds)]
    facts = {"records": rounds[0]["records"], "blocks": rounds[0]["blocks"], "samples": rounds}
    seconds, added = (statistics.median(one[key] for one in rounds) for key in ("seconds", "added_bytes"))
    yield Figure("1 TB from Loader to its first sample", seconds, "s", "at most", 2.0, facts)
    yield Figure("1 TB, memory that this adds", added / 1e6, "MB", "at most", 300.0)


def _open(url: str, storage_options: dict[str, object]) -> dict[str, float]:
    """Take one sample of a shuffled epoch."""
    import botocore.session

    botocore.session.get_session().get_service_model("s3")  # what any client of S3 loads
    with PeakMemory(this_process) as before:
        pass
    with PeakMemory(this_process) as peak:
        begun = time.perf_counter()
        loader = Loader(url, batch_size=1, shuffle=True, num_workers=1, storage_options=storage_options)
        opened = time.perf_counter()
        batches = iter(loader)
        next(batches)
        done = time.perf_counter()
    pid = os.getpid()
    return {
        "seconds": done - begun,
        "open_s": opened - begun,
        "added_bytes": peak.rss[pid] - before.rss[pid],
        "records": len(loader),
        "blocks": sum(shard.blocks for shard in Dataset(url, storage_options).manifest.shards),
    }


if __name__ == "__main__":
    print(json.dumps(_open(*map(json.loads, sys.argv[1:]))))
