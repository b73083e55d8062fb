"""Test the demo at a reduced size."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from datafeed.cli import main
from datafeed.dataset import Dataset
from datafeed.demo import DemoOptions, run_demo, write_digits
from datafeed.errors import ConfigError


def test_demo_tells_its_steps_and_passes(tmp_path: Path) -> None:
    """It converts to many shards and blocks, trains, compares and resumes, and what it states is measured."""
    lines: list[str] = []
    threads = torch.get_num_threads()
    assert run_demo(DemoOptions(tmp_path, epochs=6), lines.append), "\n".join(lines)
    text = "\n".join(lines)
    for part in ("1,442 to train on, 355 held out", "goal 95%", "Loader   ", "DataLoader ", "% stall", "demo passed."):
        assert part in text
    assert text.count(": yes") == 2
    assert torch.get_num_threads() == threads
    manifest = Dataset(tmp_path / "train").manifest
    assert manifest.records == 1442
    assert len(manifest.shards) >= 20
    assert sum(shard.blocks for shard in manifest.shards) >= 500


def test_demo_fails_when_the_network_learnt_too_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad result is exit code 1, and the temporary folder is gone."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    result = CliRunner().invoke(main, ["demo", "--epochs", "1", "--digits", "200"])
    assert result.exit_code == 1
    assert result.stdout.endswith("The demo failed.\n")
    assert list(tmp_path.iterdir()) == []


def test_write_digits_holds_every_fifth_out(tmp_path: Path) -> None:
    """Training and held-out digits are apart."""
    counts = write_digits(tmp_path, 100)
    names = {part: {path.name for path in (tmp_path / part).glob("*/*.png")} for part in counts}
    assert counts == {part: len(found) for part, found in names.items()}
    assert not names["train"] & names["test"]
    assert counts["train"] + counts["test"] == 100


def test_demo_options_are_checked() -> None:
    """More digits than there are is told."""
    with pytest.raises(ConfigError, match="100 to 1797 digits, found 10, 5000"):
        DemoOptions(digits=5000)
