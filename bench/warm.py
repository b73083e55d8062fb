"""Measure epochs that come from a tier, beside the local dataset read in place.

Run as a program, it measures one contender in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator

from datafeed.bench.fetched import fresh_directory
from datafeed.bench.figures import Figure, Setting, in_process
from datafeed.bench.prepare import TOY_COUNTS
from datafeed.bench.serving import served
from datafeed.bench.workloads import COUNTS, Name, make
from datafeed.cache.config import Cache
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.dataset import Dataset
from datafeed.loader import Loader

BUCKET = "converted"
_BATCH = 256
_WORKERS = 2
_BUDGET = "4GB"
_GOALS_OF_HOST = {"tokens": 3_000_000.0, "tabular": 4_000_000.0}
_SECONDS = 2.0


def prepare(setting: Setting, name: Name) -> str:
    """Make a workload and convert it, where an earlier call did not; return the dataset's folder."""
    workload = make(name, setting.data / "raw" / name, (TOY_COUNTS if setting.toy else COUNTS)[name])
    dest = str(setting.data / BUCKET / name)
    convert(workload.source, dest, ConvertOptions(workers=1))
    return dest


def measure_warm(name: Name, setting: Setting) -> Iterator[Figure]:
    """Measure warm epochs from a disk tier, beside the local dataset, and from memory.

    Args:
        name: The workload.
        setting: Where the data are, and how many rounds.
    """
    folder = prepare(setting, name)
    seconds = 0.0 if setting.toy else _SECONDS
    with served(setting.data) as server, fresh_directory(setting, "warm") as disk:
        url, options = f"s3://{BUCKET}/{name}", server.storage_options
        disks = {"nvme": [str(disk), _BUDGET]}
        rounds = [
            {
                "local": _rate([folder, None, None, seconds]),
                "disk": _rate([url, options, disks, seconds]),
                "host": _rate([url, options, {"host": _BUDGET}, seconds]),
            }
            for _ in range(setting.rounds)
        ]
    yield from _figures(name, rounds)


def _figures(name: Name, rounds: list[dict[str, float]]) -> Iterator[Figure]:
    ratios = [100 * one["disk"] / one["local"] for one in rounds]
    yield Figure(
        f"{name}: warm from a disk tier, beside local",
        statistics.median(ratios),
        "%",
        "at least",
        90.0,
        {"samples": ratios},
    )
    for tier in ("local", "disk"):
        samples = [one[tier] for one in rounds]
        yield Figure(f"{name}: warm, {tier}", statistics.median(samples), "records/s", facts={"samples": samples})
    samples = [one["host"] for one in rounds]
    goal = _GOALS_OF_HOST.get(name)
    judge = "at least" if goal else ""
    what = f"{name}: warm from the host tier"
    yield Figure(what, statistics.median(samples), "records/s", judge, goal or 0.0, {"samples": samples})  # type: ignore[arg-type]  # one of the literals


def _rate(arguments: list[object]) -> float:
    return in_process(__name__, arguments)["rate"]


def _measure(
    url: str, storage_options: dict[str, object] | None, tiers: dict[str, str] | None, least_s: float
) -> dict[str, float]:
    """Fill the tiers by one epoch; return the records a second of those that follow."""
    dataset = Dataset(url, storage_options, None if tiers is None else Cache(**tiers))  # type: ignore[arg-type]  # as given
    loader = Loader(dataset, _BATCH, shuffle=True, num_workers=_WORKERS)
    samples = _epoch(loader)
    assert samples == len(dataset), f"expected {len(dataset)} samples, found {samples}"
    total, begun = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begun) < least_s or not total:
        total += _epoch(loader)
        if tiers is not None:
            fetched = loader.stats().tiers[-1].admitted
            assert not fetched, f"expected a warm epoch, and {fetched} extents were fetched"
    return {"rate": total / seconds}


def _epoch(loader: Loader) -> int:
    return sum(len(batch["tokens"] if "tokens" in batch else batch["label"]) for batch in loader)


if __name__ == "__main__":
    print(json.dumps(_measure(*map(json.loads, sys.argv[1:]))))
