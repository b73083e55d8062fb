"""Test a conversion on a Ray cluster of two nodes that loses one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numbered import Numbered, digests

from datafeed.converters.convert import ConvertOptions, convert

LOSING = """
import sys
import ray
from ray.cluster_utils import Cluster
from numbered import Numbered
from datafeed.converters.convert import ConvertOptions, convert

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=2)
    nodes = [lost]

    def lose(progress):
        if progress.shards >= 3 and nodes:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    options = ConvertOptions(workers=3, shard_size=4000, block_size=700, ray_address=cluster.address)
    report = convert(Numbered(3000, read_s=0.15), sys.argv[1], options, on_progress=lose)
    print(report.ran_on, report.workers, report.records, len(nodes))
    cluster.shutdown()
"""


@pytest.mark.slow
def test_a_node_that_is_lost_changes_nothing(tmp_path: Path) -> None:
    """Its tasks run again on the other one, and the bytes are those of a conversion in one process."""
    convert(Numbered(3000), tmp_path / "one", ConvertOptions(workers=1, shard_size=4000, block_size=700))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", LOSING, str(tmp_path / "two")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "ray 3 3000 0" in done.stdout, done.stdout + done.stderr
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
