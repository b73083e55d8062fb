"""Run the measurements of storage and cache over tiny data, and check what is counted, never how fast it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from datafeed.bench.cache import PARTS, main
from datafeed.bench.figures import Figure, Setting
from datafeed.bench.serving import served
from datafeed.s3store import S3Store


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """A folder for tiny data, and one round."""
    return Setting(tmp_path_factory.mktemp("cache"), rounds=1, toy=True)


def figures(part: str, setting: Setting) -> dict[str, Figure]:
    """Return the figures of a part by name."""
    return {figure.name: figure for figure in PARTS[part](setting)}


def test_a_server_counts_what_it_was_asked_for(tmp_path: Path) -> None:
    """Ranges of shards are told apart from the rest, and counts before are taken off."""
    (tmp_path / "bucket").mkdir()
    for name in ("shard-000000.tfrecord.zst", "dataset.json"):
        (tmp_path / "bucket" / name).write_bytes(bytes(1000))
    with served(tmp_path) as server:
        store = S3Store("s3://bucket", {**server.storage_options, "hedge": False})
        store.read_range("shard-000000.tfrecord.zst", 0, 100)
        before = server.counts()
        store.read_range("shard-000000.tfrecord.zst", 0, 100)
        store.read_range("shard-000000.tfrecord.zst", 100, 250)
        store.read_range("dataset.json", 0, 10)
        counts = server.counts().since(before)
    key = "bucket/shard-000000.tfrecord.zst"
    assert counts.shards() == {(key, 0, 100): 1, (key, 100, 250): 1}
    assert (counts.shard_nbytes(), counts.gets.total()) == (250, 3)


@pytest.mark.slow
def test_epochs_fetch_what_no_cache_holds(setting: Setting) -> None:
    """A disk of half of the dataset leaves half to fetch, and is not written to again; plain LRU fetches more."""
    found = figures("fetched", setting)
    half = found["fetched an epoch, 50% disk, epoch"]
    assert half.holds
    written = half.facts["extents written to the disk by epoch"]
    assert isinstance(written, list)
    assert written[0] > 0
    assert not any(written[1:])
    assert found["fetched an epoch, 50% disk, lru"].value > half.value + 10


@pytest.mark.slow
def test_processes_with_one_directory_fetch_once(setting: Setting) -> None:
    """The server is asked for each extent once; two jobs end within their budget."""
    found = figures("sharing", setting)
    assert found["GETs an extent, 2 processes with one cache directory, cold"].value == 1
    assert found["held by two jobs of their budget, at the end"].holds


@pytest.mark.slow
@pytest.mark.parametrize("part", ["link", "gets", "hedging"])
def test_each_part_measures_something(part: str, setting: Setting) -> None:
    """All of it runs at toy size, and what it read was checked."""
    assert all(figure.value >= 0 and figure.unit for figure in figures(part, setting).values())


@pytest.mark.slow
def test_the_command_replaces_a_part_and_keeps_the_others(tmp_path: Path) -> None:
    """One file holds all parts, each with its machine, however they were run."""
    out = tmp_path / "cache.json"
    out.write_text('{"other": {"figures": []}, "terabyte": {}}')
    command = ["--toy", "--data", str(tmp_path), "--rounds", "1", "--only", "terabyte", "--out", str(out)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "from Loader to its first sample" in result.output
    report = json.loads(out.read_bytes())
    assert report["other"] == {"figures": []}
    assert report["terabyte"]["figures"][0]["goal"] == 2
    assert report["terabyte"]["machine"]["cores"]
    assert str(tmp_path) not in out.read_text()
