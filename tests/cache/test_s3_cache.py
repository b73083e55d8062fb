"""Check that a cache stands before a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest
import s3fs
from s3_server import make_bucket, options, s3_server
from tiny import write_dataset

import datafeed


@pytest.mark.s3
def test_a_loader_over_s3_fetches_each_extent_once(tmp_path: Path) -> None:
    """With each subset of tiers: the batches of the local dataset, and no GET in the second epoch where all fits."""
    write_dataset(str(tmp_path / "data"), shards=2, blocks=40, extent_size=200)
    local = datafeed.Loader(str(tmp_path / "data"), 8, shuffle=True, lanes=4, window=4000)
    expected = [[batch["x"].tolist() for batch in local] for _ in range(2)]
    with s3_server() as address:
        make_bucket(address, "bucket")
        s3fs.S3FileSystem(**options(address)).put(str(tmp_path / "data"), "bucket/data", recursive=True)
        for number, names in enumerate([(), ("host",), ("nvme",), ("nvme", "ebs"), ("nvme", "ebs", "host")]):
            disks = {name: (tmp_path / f"{name}{number}", "1MB") for name in names if name != "host"}
            for path, _ in disks.values():
                path.mkdir()
            cache = datafeed.Cache(**disks, host="1MB" if "host" in names else None)  # type: ignore[arg-type]
            loader = datafeed.Loader(
                "s3://bucket/data", 8, shuffle=True, lanes=4, window=4000, cache=cache, storage_options=options(address)
            )
            assert [[batch["x"].tolist() for batch in loader] for _ in range(2)] == expected
            store = loader.stats().tiers[-1]
            assert (store.admitted, store.refetched) == (0 if names else 40, 0)
