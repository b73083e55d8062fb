"""Make datasets, caches and runs for the tests of the commands about caches."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tiny import write_dataset

import datafeed
from datafeed.cache.folder import NAME
from datafeed.cache.stats import TierStats
from datafeed.cli import main

EXTENTS = 40
RECORDS = 2 * 40 * 4


def run(*args: object, answer: str | None = None) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(map(str, args)), prog_name="datafeed", input=answer)


def dataset(folder: Path, *, seed: str = "") -> str:
    """Write a dataset of 320 records in 40 extents; return its URL on a store that is not a local path."""
    write_dataset(str(folder), shards=2, blocks=40, extent_size=200, seed=seed)
    return f"local://{folder}"


def staged(tmp_path: Path) -> tuple[str, Path]:
    """Write a dataset and stage it; return its URL and the tier's directory."""
    url, disk = dataset(tmp_path / "data"), tmp_path / "nvme"
    disk.mkdir()
    result = run("cache", "stage", url, "--nvme", disk, "--nvme-budget", "1MB")
    assert result.exit_code == 0, result.stderr
    return url, disk


def loader(url: str, disk: Path, budget: str = "1MB", **options: object) -> datafeed.Loader:
    """Open a Loader of small batches over a cache of one disk."""
    settings: dict[str, object] = {"shuffle": True, "num_workers": 2, "lanes": 4, "window": 4000, **options}
    return datafeed.Loader(url, 8, cache=datafeed.Cache(nvme=(disk, budget)), **settings)  # type: ignore[arg-type]


def epoch(loader: datafeed.Loader) -> tuple[list[int], dict[str, TierStats]]:
    """Read an epoch; return `x` of its records, sorted, and what came from which tier."""
    numbers = sorted(number for batch in loader for number in batch["x"].tolist())
    return numbers, {tier.name: tier for tier in loader.stats().tiers}


def entries(disk: Path) -> list[Path]:
    """Return the entries of a tier's directory, in turn."""
    return sorted((disk / NAME / "entries").glob("*/[0-9]*"))


@contextmanager
def mounted(path: Path, options: str) -> Iterator[Path]:
    """Mount a volume of its own, which takes the right to; skip the test where it is not there.

    Args:
        path: Where; made.
        options: As tmpfs takes them.

    Yields:
        The path.
    """
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=False, capture_output=True)
    if made.returncode:
        pytest.skip("NOT TESTED: a full volume: a small one cannot be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)  # a loader not collected yet may be at home there
