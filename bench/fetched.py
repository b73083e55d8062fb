"""Count, at the server, what each epoch fetches through caches of several sizes and policies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from datafeed.bench.figures import Figure, Setting
from datafeed.bench.serving import Server, served
from datafeed.cache.config import Cache
from datafeed.cache.policy import Policy
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.write import write
from datafeed.dataset import Dataset
from datafeed.loader import Loader

CACHES = ((0.0, 0.25), (0.0, 0.5), (0.0, 0.75), (0.0, 0.9), (0.1, 0.4))
_TOY_CACHES = ((0.0, 0.5),)  # what is in flight is more than a tenth of a tiny dataset
POLICIES: tuple[Policy, ...] = ("epoch", "lru")
_GOAL_OF_TWO = 55.0
_RECORD_NBYTES = 4000
_RECORDS = 8  # an extent, in four blocks
_EXTENTS, _TOY_EXTENTS = 4800, 480  # a hundred for each lane
WINDOW = 0.02
_EPOCHS = 3
_BUCKET = "small"


def make(setting: Setting, name: str, seed: int = 0) -> str:
    """Write a dataset of small extents, or find the one that an earlier call wrote; return its URL.

    Args:
        setting: Where.
        name: Of the dataset.
        seed: Of its bytes.
    """
    extents = _TOY_EXTENTS if setting.toy else _EXTENTS
    dest = setting.data / _BUCKET / f"{name}-{extents}"
    if not (dest / "dataset.json").exists():
        rng = np.random.default_rng(seed)
        samples = ({"data": rng.bytes(_RECORD_NBYTES), "number": number} for number in range(extents * _RECORDS))
        options = ConvertOptions(
            workers=1,
            shard_size=extents * _RECORDS * _RECORD_NBYTES // 16,
            block_size=2 * (_RECORD_NBYTES + 100),
            extent_size=_RECORDS * _RECORD_NBYTES,
        )
        write(str(dest), samples, options=options)
    return f"s3://{_BUCKET}/{dest.name}"


def measure_fetched(setting: Setting) -> Iterator[Figure]:
    """Count the share of a dataset that each epoch from the second on fetches, window-shuffled.

    Args:
        setting: Where the data are.
    """
    url = make(setting, "one")
    with served(setting.data) as server:
        for policy in POLICIES:
            for memory, disk in _TOY_CACHES if setting.toy else CACHES:
                yield _measure(setting, server, url, policy, memory, disk)


def _measure(setting: Setting, server: Server, url: str, policy: Policy, memory: float, disk: float) -> Figure:
    options = {**server.storage_options, "hedge": False}  # a second GET would be counted
    plain = Dataset(url, options)
    nbytes, raw = stored_nbytes(plain), plain.manifest.raw_bytes
    fetched, written = [], []
    with fresh_directory(setting, "fetched") as folder:
        cache = Cache(nvme=(folder, int(disk * nbytes)), host=int(memory * raw) or None, policy=policy)
        dataset = Dataset(url, options, cache)
        loader = Loader(dataset, 64, shuffle=True, num_workers=2, window=int(WINDOW * raw))
        for _ in range(_EPOCHS):
            before = server.counts()
            samples = sum(len(batch["number"]) for batch in loader)
            assert samples == len(dataset), f"expected {len(dataset)} samples, found {samples}"
            fetched.append(100 * server.counts().since(before).shard_nbytes() / nbytes)
            written.append(sum(tier.admitted for tier in loader.stats().tiers if tier.name == "nvme"))
    bound = 100 * (1 - memory - disk)
    what = f"{memory:.0%} memory + {disk:.0%} disk" if memory else f"{disk:.0%} disk"
    return Figure(
        f"fetched an epoch, {what}, {policy}",
        sum(fetched[1:]) / len(fetched[1:]),
        "%",
        "at most" if policy == "epoch" else "",
        _GOAL_OF_TWO if memory else bound + 6,
        {"bound": bound, "fetched by epoch, %": fetched, "extents written to the disk by epoch": written},
    )


def stored_nbytes(dataset: Dataset) -> int:
    """Return the stored bytes of a dataset's blocks."""
    return int(dataset.index.stored.sum(dtype=np.int64))


@contextmanager
def fresh_directory(setting: Setting, name: str) -> Iterator[Path]:
    """Give an empty directory, and remove it afterwards."""
    folder = setting.data / "scratch" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
