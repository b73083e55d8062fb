"""Count, at the server, what processes fetch that share one cache directory.

Run as a program, it is one of them: it reads epochs, and prints what it saw.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from datafeed.bench.fetched import WINDOW, fresh_directory, make, stored_nbytes
from datafeed.bench.figures import Figure, Setting, result_of, started
from datafeed.bench.serving import Server, served
from datafeed.cache.config import Cache
from datafeed.dataset import Dataset
from datafeed.loader import Loader

_PROCESSES, _TOY_PROCESSES = 8, 2
_SHARED = 0.5  # of both datasets, the budget of two jobs
_EPOCHS = 3


def measure_sharing(setting: Setting) -> Iterator[Figure]:
    """Let eight processes read one dataset cold, then two jobs a dataset each within one budget.

    Args:
        setting: Where the data are.
    """
    urls = [make(setting, "one"), make(setting, "two", seed=1)]
    with served(setting.data) as server:
        yield _measure_cold(setting, server, urls[0])
        yield from _measure_jobs(setting, server, urls)


def _measure_cold(setting: Setting, server: Server, url: str) -> Figure:
    processes = _TOY_PROCESSES if setting.toy else _PROCESSES
    extents = len(Dataset(url, server.storage_options).index.extents) - 1
    with fresh_directory(setting, "sharing") as folder:
        before = server.counts()
        children = [
            started(__name__, [url, {**server.storage_options, "hedge": False}, str(folder), "1GB", seed, 1])
            for seed in range(processes)
        ]
        found = [result_of(child) for child in children]
        counts = server.counts().since(before).shards()
    facts = {
        "processes": processes,
        "samples of each": [one["samples"] for one in found],
        "GETs": counts.total(),
        "most GETs of one extent": max(counts.values()),
        "extents never asked for": extents - len(counts),
    }
    name = f"GETs an extent, {processes} processes with one cache directory, cold"
    return Figure(name, counts.total() / extents, "", "at most", 1.0, facts)


def _measure_jobs(setting: Setting, server: Server, urls: list[str]) -> Iterator[Figure]:
    sizes = [stored_nbytes(Dataset(url, server.storage_options)) for url in urls]
    budget = int(_SHARED * sum(sizes))
    with fresh_directory(setting, "sharing") as folder:
        children = [
            started(__name__, [url, {**server.storage_options, "hedge": False}, str(folder), budget, 0, _EPOCHS])
            for url in urls
        ]
        found = [result_of(child) for child in children]
        held = sum(path.stat().st_size for path in folder.rglob("[0-9]*") if path.is_file())
    fetched = [100 * one["last_fetched_bytes"] / size for one, size in zip(found, sizes, strict=True)]
    yield Figure("held by two jobs of their budget, at the end", 100 * held / budget, "%", "at most", 100.0)
    name = "fetched in the third epoch by two jobs within a budget of half of both"
    yield Figure(name, sum(fetched) / len(fetched), "%", facts={"of each": fetched, "bound": 100 * (1 - _SHARED)})


def _read(url: str, storage_options: dict[str, object], folder: str, budget: str | int, seed: int, epochs: int) -> None:
    """Read epochs; print how many samples the last one had, and what it fetched."""
    dataset = Dataset(url, storage_options, Cache(nvme=(folder, budget)))
    window = int(WINDOW * dataset.manifest.raw_bytes)
    loader = Loader(dataset, 64, shuffle=True, num_workers=2, seed=seed, window=window)
    for _ in range(epochs):
        samples = sum(len(batch["number"]) for batch in loader)
    store = loader.stats().tiers[-1]
    assert samples == len(dataset), f"expected {len(dataset)} samples, found {samples}"
    print(json.dumps({"samples": samples, "last_fetched_bytes": store.admitted_nbytes}))


if __name__ == "__main__":
    _read(*map(json.loads, sys.argv[1:]))
