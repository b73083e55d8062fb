"""Prove that one command measures, prints and writes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from datafeed.bench.case import Case
from datafeed.bench.machine import describe_machine
from datafeed.bench.throughput import run_throughput


@pytest.mark.slow
def test_command_prints_a_table_and_writes_every_sample(case: Case, checksums: dict[str, int], tmp_path: Path) -> None:
    """The toy run of a row names figures, peer and goal, and keeps the samples that they come from."""
    assert checksums
    out = tmp_path / "bench.json"
    data = Path(case.data).parent
    command = [sys.executable, "-m", "datafeed.bench", "--toy", "--data", str(data), "--out", str(out)]
    done = subprocess.run([*command, "--only", "bare zstd"], capture_output=True, text=True, check=True, timeout=100)
    assert "tokens beside bare zstd" in done.stdout
    report = json.loads(out.read_bytes())
    assert report["case"] == {**asdict(case), "data": ""}
    assert len(report["rounds"]["tokens/Loader"]) == 1
    assert report["rows"][0]["goal"] == 0.88
    assert str(data) not in out.read_text()


def test_run_refuses_a_row_that_does_not_exist(case: Case) -> None:
    """A word that names nothing is an error, not an empty table."""
    with pytest.raises(ValueError, match="no row is named"):
        run_throughput(case, 1, ["nothing like it"], lambda _text: None)


def test_machine_is_described_without_names() -> None:
    """It has what explains a figure, and nothing that tells whose machine it is."""
    found = describe_machine()
    assert found["cores"]
    assert set(found) == {
        "cpu", "cores", "memory_bytes", "kernel", "python", "packages", "commit", "changed_files", "load",
    }  # fmt: skip
