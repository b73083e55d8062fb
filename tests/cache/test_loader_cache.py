"""Check that a Loader reads through a cache: the same samples, each byte once, nothing left behind."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import counted_store
import pytest
from tiny import write_dataset

import datafeed
from datafeed.cache.folder import NAME
from datafeed.errors import ConfigError

RECORDS = 2 * 40 * 4


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A dataset of 320 records in 40 extents, on a store that is not a local path."""
    write_dataset(str(tmp_path / "data"), shards=2, blocks=40, extent_size=200)
    (tmp_path / "nvme").mkdir()
    return f"local://{tmp_path}/data"


def numbers(loader: datafeed.Loader) -> list[list[int]]:
    """Return `x` of the batches of an epoch."""
    return [batch["x"].tolist() for batch in loader]


def opened(url: str, cache: datafeed.Cache | None, **options: object) -> datafeed.Loader:
    """Open a loader of small batches."""
    settings: dict[str, object] = {"shuffle": True, "num_workers": 2, "lanes": 4, "window": 4000, **options}
    return datafeed.Loader(url, 8, cache=cache, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("shuffle", [True, "full", False])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_batches_are_the_same_with_any_cache(url: str, tmp_path: Path, shuffle: object, workers: int) -> None:
    """From memory, from a disk, from both, from the store, and from the local dataset."""
    local = opened(url.removeprefix("local://"), None, shuffle=shuffle, num_workers=workers)
    expected = [numbers(local), numbers(local)]
    nvme = (tmp_path / "nvme", "1MB")
    for cache in (None, datafeed.Cache(host="1MB"), datafeed.Cache(nvme=nvme), datafeed.Cache(nvme=nvme, host="1MB")):
        loader = opened(url, cache, shuffle=shuffle, num_workers=workers)
        assert [numbers(loader), numbers(loader)] == expected
    assert sorted(itertools.chain.from_iterable(expected[0])) == list(range(RECORDS))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("datafeed")]


def test_stats_say_what_came_from_where(url: str, tmp_path: Path) -> None:
    """The first epoch comes from the store, each extent once; the second from the disk."""
    loader = opened(url, datafeed.Cache(nvme=(tmp_path / "nvme", "1MB")))
    assert loader.stats().tiers == ()
    for store_blocks, fetched in ((80, 40), (0, 0)):
        numbers(loader)
        tiers = {tier.name: tier for tier in loader.stats().tiers}
        assert tiers["store"].admitted == fetched
        assert tiers["store"].refetched == 0
        assert tiers["nvme"].blocks + tiers["store"].blocks == loader.stats().blocks == 80
        assert (tiers["store"].blocks == 0) == (store_blocks == 0)


def test_a_loader_left_behind_leaves_nothing(url: str, tmp_path: Path) -> None:
    """An iterator that is dropped ends its threads; no unfinished entry and, with the loader, no session stays."""
    loader = opened(url, datafeed.Cache(nvme=(tmp_path / "nvme", "1MB")))
    next(iter(loader))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("datafeed")]
    del loader
    folder = tmp_path / "nvme" / NAME
    assert list((folder / "tmp").iterdir()) == []
    assert list((folder / "sessions").iterdir()) == []


def test_a_forked_child_and_a_pickled_copy_read_too(url: str, tmp_path: Path) -> None:
    """Each opens the tiers anew, also after the parent has read."""
    cache = datafeed.Cache(nvme=(tmp_path / "nvme", "1MB"), host="1MB")
    expected = numbers(opened(url, None))
    loader = opened(url, cache)
    assert numbers(loader) == expected
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301
    copy.set_epoch(0)
    assert numbers(copy) == expected
    pid = os.fork()
    if not pid:
        loader.set_epoch(0)
        os._exit(0 if numbers(loader) == expected else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_forked_child_goes_on_with_an_epoch(url: str, tmp_path: Path) -> None:
    """Where the caller's own thread makes the batches, a child reads the rest of them as its parent does."""
    iterator = iter(opened(url, datafeed.Cache(nvme=(tmp_path / "nvme", "1MB")), num_workers=0))
    first = [next(iterator)["x"].tolist() for _ in range(5)]
    expected = numbers(opened(url, None))
    pid = os.fork()
    if not pid:
        os._exit(0 if first + [batch["x"].tolist() for batch in iterator] == expected else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert first + [batch["x"].tolist() for batch in iterator] == expected


_PROGRAM = """
import sys, time, datafeed
from counted_store import CountedStore
dataset = datafeed.Dataset(sys.argv[1], cache=datafeed.Cache(nvme=(sys.argv[2], "1MB")))
dataset._store = CountedStore(dataset._store, latency_s=0.05)
batches = iter(datafeed.Loader(dataset, 8, shuffle=True, num_workers=2, lanes=4, window=4000))
next(batches)
print("begun", flush=True)
while sys.argv[3] == "wait":
    time.sleep(0.1)  # in slices: a signal just before a sleep begins does not cut it short
"""


@pytest.mark.parametrize("how", ["exit", "wait"])
def test_a_program_that_ends_leaves_nothing(url: str, tmp_path: Path, how: str) -> None:
    """At its end, or by Ctrl-C, within an epoch and while extents are fetched: no session, nothing unfinished."""
    command = [sys.executable, "-c", _PROGRAM, url, str(tmp_path / "nvme"), how]
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(counted_store.__file__)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "begun\n"
        if how == "wait":
            child.send_signal(signal.SIGINT)
        child.wait(30)
        said = child.stderr.read()
    assert ("KeyboardInterrupt" in said) == (how == "wait")
    assert "Exception ignored" not in said
    folder = tmp_path / "nvme" / NAME
    assert list((folder / "tmp").iterdir()) == []
    assert list((folder / "sessions").iterdir()) == []


def test_a_dataset_reads_by_number_through_the_cache(url: str, tmp_path: Path) -> None:
    """Blocks of a sample come with their extent, which is kept."""
    dataset = datafeed.Dataset(url, cache=datafeed.Cache(nvme=(tmp_path / "nvme", "1MB")))
    assert [dataset[number]["x"] for number in (0, 319, 7)] == [0, 319, 7]
    assert dataset.tiered is dataset.reader
    assert dataset.tiered is not None
    assert {tier.name: tier.admitted for tier in dataset.tiered.stats()} == {"nvme": 2, "store": 2}


def test_f16_what_a_cache_cannot_be_is_refused(url: str) -> None:
    """Something else than a Cache, a Cache beside an open dataset, a budget below what is in flight."""
    with pytest.raises(ConfigError, match=r"cache must be a datafeed\.Cache, found '1GB'"):
        datafeed.Loader(url, cache="1GB")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="belongs to Dataset"):
        datafeed.Loader(datafeed.Dataset(url), cache=datafeed.Cache())
    with pytest.raises(ConfigError, match="cache= needs a converted dataset"):
        datafeed.Loader([1, 2], cache=datafeed.Cache())  # type: ignore[arg-type]


def test_f16_a_budget_below_what_is_in_flight_is_refused_at_once(url: str) -> None:
    """When the loader is made, in one line with the numbers; no directory has to be there yet, and shares wait."""
    for cache, message in (
        (datafeed.Cache(host=100), "host=100 is too small: .*give at least .* kB$"),
        (datafeed.Cache(nvme=("/nowhere", 50)), "nvme: its budget of 50 B is below the largest extent"),
        (datafeed.Cache(nvme=("/nowhere", "1GB"), ebs=("/elsewhere", 60)), "ebs: its budget of 60 B is below"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            opened(url, cache)
        assert "\n" not in str(caught.value)
    opened(url, datafeed.Cache(nvme=("/nowhere", "1GB"), ebs=("/elsewhere", "1%"), host="1MB"))


def test_datasets_of_one_schema_share_a_directory(tmp_path: Path) -> None:
    """Programs wrote them, so that they have one id: their entries are apart all the same."""
    (tmp_path / "nvme").mkdir()
    cache = datafeed.Cache(nvme=(tmp_path / "nvme", "1MB"))
    loaders = []
    for name, begin in (("train", 0), ("test", 100)):
        datafeed.write(tmp_path / name, ({"x": number} for number in range(begin, begin + 100)))
        loaders.append(datafeed.Loader(f"local://{tmp_path}/{name}", 8, cache=cache))
    for _ in range(2):
        for begin, loader in zip((0, 100), loaders, strict=True):
            assert list(itertools.chain.from_iterable(numbers(loader))) == list(range(begin, begin + 100))
    for loader in loaders:
        tiers = {tier.name: tier for tier in loader.stats().tiers}
        assert (tiers["store"].admitted, tiers["nvme"].damaged) == (0, 0)
