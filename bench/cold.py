"""Measure a first epoch of images from S3, beside fetching the same ranges and beside peers with caches of their own.

Run as a program, it measures one contender in a process of its own.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator

import click
import numpy as np

from datafeed.bench import cold_peers
from datafeed.bench.fetched import stored_nbytes
from datafeed.bench.figures import Figure, Setting, in_process
from datafeed.bench.prepare import TOY_COUNTS
from datafeed.bench.serving import Server, served
from datafeed.bench.workloads import COUNTS, make
from datafeed.cache.extents import Extents
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.dataset import Dataset
from datafeed.loader import Loader
from datafeed.reader import BlockReader
from datafeed.storage import open_store

BUCKET = "converted"
URL = f"s3://{BUCKET}/images"
LINK = 100_000_000  # bytes a second
_THREADS = 32  # as many as the loader fetches with
_BATCH = 256
_WINDOW = "64MB"
_EPOCHS = 3  # of one measurement: each is cold, as nothing is kept
_WORKERS = 2


def prepare(setting: Setting) -> None:
    """Make the images and convert them, where an earlier call did not."""
    workload = make("images", setting.data / "raw" / "images", (TOY_COUNTS if setting.toy else COUNTS)["images"])
    convert(workload.source, setting.data / BUCKET / "images", ConvertOptions(workers=1))


def measure_cold(setting: Setting) -> Iterator[Figure]:
    """Measure epochs of which every byte is fetched, over loopback, beside bare GETs of the same extents.

    Args:
        setting: Where the data are, and how many rounds.
    """
    prepare(setting)
    with served(setting.data) as server:
        rounds = [{name: _run(name, server) for name in ("GETs thrown away", "Loader")} for _ in range(setting.rounds)]
    for name in ("GETs thrown away", "Loader"):
        yield _rate(name, [one[name] for one in rounds])
    ratios = [100 * one["GETs thrown away"]["seconds"] / one["Loader"]["seconds"] for one in rounds]
    what = "cold epochs beside GETs thrown away"
    yield Figure(what, statistics.median(ratios), "%", "at least", 85.0, {"samples": ratios})


def measure_peers(setting: Setting) -> Iterator[Figure]:
    """Measure whole first epochs of ours and of peers, over loopback, in turn.

    Args:
        setting: Where the data are, and how many rounds.
    """
    prepare(setting)
    names = ["Loader"]
    for name in cold_peers.PEERS:
        if cold_peers.missing(name):
            click.echo(f"NOT MEASURED: {name}: {cold_peers.missing(name)}", err=True)
            continue
        cold_peers.prepare(setting.data, name)
        names.append(name)
    with served(setting.data) as server:
        rounds = [{name: _run(name, server, 1) for name in names} for _ in range(setting.rounds)]
    for name in names:
        yield _rate(name, [one[name] for one in rounds], "one epoch, ")


def _rate(name: str, found: list[dict[str, float]], what: str = "") -> Figure:
    rates = [one["nbytes"] / one["seconds"] / 1e6 for one in found]
    facts = {"samples": rates, "CPU-seconds, but of workers": [one["cpu_s"] for one in found]}
    return Figure(f"cold from loopback, {what}{name}", statistics.median(rates), "MB/s", facts=facts)


def measure_link(setting: Setting) -> Iterator[Figure]:
    """Measure a first epoch over a slow link, and count what is asked for.

    Args:
        setting: Where the data are.
    """
    prepare(setting)
    with served(setting.data, bandwidth=str(LINK)) as server:
        before = server.counts()
        found = _run("Loader", server, 1)
        counts = server.counts().since(before)
    extents = len(Dataset(setting.data / BUCKET / "images").index.extents) - 1
    least = found["nbytes"] / LINK
    facts = {
        "seconds": found["seconds"],
        "bytes asked for, of those of the dataset, %": 100 * counts.shard_nbytes() / found["nbytes"],
        "extents": extents,
        "extents asked for more than once": sum(count > 1 for count in counts.shards().values()),
    }
    yield Figure("cold epoch on a link of 100 MB/s", 100 * least / found["seconds"], "%", "at least", 97.0, facts)


def _run(name: str, server: Server, epochs: int = _EPOCHS) -> dict[str, float]:
    return in_process(__name__, [name, server.storage_options, epochs])


Epoch = Callable[[], int]


def _begin_load(storage_options: dict[str, object]) -> Epoch:
    """Read epochs through the Loader, whose window is small, as it is beside most datasets."""
    dataset = Dataset(URL, storage_options)
    nbytes = stored_nbytes(dataset)
    loader = Loader(dataset, _BATCH, shuffle=True, num_workers=_WORKERS, columns=["image", "label"], window=_WINDOW)

    def epoch() -> int:
        images = sum(len(batch["label"]) for batch in loader)
        assert images == len(dataset), f"expected {len(dataset)} images, found {images}"
        return nbytes

    return epoch


def _begin_fetch(storage_options: dict[str, object]) -> Epoch:
    """Fetch the extents, and throw them away."""
    dataset = Dataset(URL, storage_options)
    store = open_store(URL, storage_options)
    extents = Extents(BlockReader(store, dataset.manifest, dataset.index))
    order = np.random.default_rng(0).permutation(len(extents)).tolist()

    def epoch() -> int:
        numbers = iter(order)  # of which the next goes to whoever asks first

        def fetch() -> None:
            buffer = memoryview(bytearray(extents.largest))
            for number in numbers:
                key = extents.key(number)
                name = dataset.manifest.shards[int(dataset.index.shard[extents.blocks(number)[0]])].name
                store.read_into(name, key.offset, buffer[: key.nbytes])

        threads = [threading.Thread(target=fetch) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return extents.nbytes

    return epoch


CONTENDERS: dict[str, Callable[[dict[str, object]], Epoch]] = {
    "GETs thrown away": _begin_fetch,
    "Loader": _begin_load,
    **cold_peers.PEERS,
}


def _measure(name: str, storage_options: dict[str, object], epochs: int) -> dict[str, float]:
    epoch = CONTENDERS[name](storage_options)
    cpu, begun = time.process_time(), time.perf_counter()
    nbytes = sum(epoch() for _ in range(epochs))
    return {"nbytes": nbytes, "seconds": time.perf_counter() - begun, "cpu_s": time.process_time() - cpu}


if __name__ == "__main__":
    print(json.dumps(_measure(*map(json.loads, sys.argv[1:]))))
