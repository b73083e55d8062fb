"""Run training scripts as people write them: train, save, die, go on with as many processes or others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import forms
import journal
import pytest
import torch
from feeding import ROOT

HERE = Path(__file__).parent
COUNT = 131

pytestmark = [pytest.mark.frameworks, pytest.mark.slow]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a dataset of many small extents."""
    return forms.write(tmp_path_factory.mktemp("data"), records=COUNT, per_block=3, shards=4, extent_size=500)


def run(script: str, *arguments: str | Path, processes: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a script, under torchrun if it is on several processes."""
    launcher: Sequence[str] = ()
    if processes:
        launcher = (
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--local-addr=127.0.0.1",
            f"--nproc-per-node={processes}",
        )
    paths = (
        f"{ROOT}{os.pathsep}{ROOT / 'tests'}"  # the root first: the bare folder tests/datafeed is no package of ours
    )
    settings = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": paths}
    command = [sys.executable, *launcher, str(HERE / script), *map(str, arguments)]
    return subprocess.run(  # noqa: PLW1510  (the caller looks at the exit status)
        command, capture_output=True, text=True, timeout=110, env={**os.environ, **settings}
    )


def succeed(done: subprocess.CompletedProcess[str]) -> None:
    """Check that a script came to its end."""
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-5000:]


def position(state: dict[str, object]) -> tuple[int, int]:
    """Return where a state stands."""
    return state["epoch"], state["position"]  # type: ignore[return-value]


def test_plain_pytorch_goes_on_after_a_kill(url: str, tmp_path: Path) -> None:
    """From the last checkpoint, in the second epoch; a sample is seen once."""
    killed = run("plain_pytorch.py", tmp_path, url, "killed", 22)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    at = position(torch.load(tmp_path / "checkpoint.pt")["loader"])
    assert at == (1, 32)
    succeed(run("plain_pytorch.py", tmp_path, url, "resumed"))
    journal.check_runs(tmp_path, [("killed", at), ("resumed", None)], [range(COUNT)] * 2)


def test_f63_sigterm_saves_the_state_at_the_last_batch(url: str, tmp_path: Path) -> None:
    """The process ends by the signal, nothing else is left, and the next one goes on with the very next sample."""
    ended = run("plain_pytorch.py", tmp_path, url, "sigterm", 5)
    assert ended.returncode == -signal.SIGTERM, ended.stderr
    assert position(json.loads((tmp_path / "at-sigterm.json").read_text())) == (0, 40)
    assert {path.name for path in tmp_path.iterdir()} == {"at-sigterm.json", "checkpoint.pt", "sigterm-0.jsonl"}
    succeed(run("plain_pytorch.py", tmp_path, url, "resumed"))
    journal.check_runs(tmp_path, [("sigterm", None), ("resumed", None)], [range(COUNT)] * 2)


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2)])
def test_torchrun_goes_on_with_another_number_of_processes(url: str, tmp_path: Path, before: int, after: int) -> None:
    """By torch's distributed checkpoint."""
    killed = run("with_torchrun.py", tmp_path, url, "killed", 13, processes=before)
    assert killed.returncode != 0
    assert "Signal 9 (SIGKILL)" in killed.stderr, killed.stderr
    succeed(run("with_torchrun.py", tmp_path, url, "resumed", processes=after))
    ranks = journal.lines(tmp_path, "resumed")
    assert sorted(ranks) == list(range(after))
    journal.check_runs(tmp_path, [("killed", (1, 48)), ("resumed", None)], [range(COUNT)] * 2)


def test_lightning_goes_on_from_its_own_checkpoint(url: str, tmp_path: Path) -> None:
    """With ddp on two processes, which learn their ranks after the loader was built."""
    pytest.importorskip("lightning")
    killed = run("with_lightning.py", tmp_path, url, "killed", 13)
    assert killed.returncode == -signal.SIGKILL, killed.stdout[-2000:] + killed.stderr[-4000:]
    succeed(run("with_lightning.py", tmp_path, url, "resumed"))
    journal.check_runs(tmp_path, [("killed", (1, 48)), ("resumed", None)], [range(COUNT)] * 2)


def test_accelerate_keeps_the_loader_and_its_state(url: str, tmp_path: Path) -> None:
    """By `prepare`, `save_state` and `load_state`, on two processes."""
    pytest.importorskip("accelerate")
    killed = run("with_accelerate.py", tmp_path, url, "killed", 13, processes=2)
    assert "Signal 9 (SIGKILL)" in killed.stderr, killed.stderr
    succeed(run("with_accelerate.py", tmp_path, url, "resumed", processes=2))
    journal.check_runs(tmp_path, [("killed", (1, 48)), ("resumed", None)], [range(COUNT)] * 2)


def test_ray_train_gives_its_workers_their_ranks(url: str, tmp_path: Path) -> None:
    """Two workers, then one."""
    pytest.importorskip("ray.train")
    killed = run("with_ray.py", tmp_path, url, "killed", 2, 13)
    assert killed.returncode != 0
    succeed(run("with_ray.py", tmp_path, url, "resumed", 1))
    journal.check_runs(tmp_path, [("killed", (1, 48)), ("resumed", None)], [range(COUNT)] * 2)
