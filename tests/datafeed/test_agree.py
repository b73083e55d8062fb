"""Check that ranks that would read different things are told so, by name, and that none waits without end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import feeding
import forms
import pytest

RANK = """
import sys
import torch.distributed as dist
from datafeed import Loader
url, store, rank, options = sys.argv[1:]
dist.init_process_group("gloo", store=dist.FileStore(store, 2), rank=int(rank), world_size=2)
loader = Loader(url, 4, True, num_workers=1, **{"timeout": 20, **eval(options)})
for turn in range(2):
    print(sum(batch["_mask"].sum().item() for batch in loader))
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a small dataset."""
    return forms.write(tmp_path_factory.mktemp("small"), records=21)


def ranks(url: str, store: Path, *options: str) -> list[tuple[int, str, str]]:
    """Run as many of two ranks as there are options; return the exit status, output and errors of each."""
    running = [
        subprocess.Popen(
            feeding.command(RANK, url, str(store), str(rank), each),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=feeding.ROOT,
        )
        for rank, each in enumerate(options)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=60) for process in running]
    return [(process.returncode, *output) for process, output in zip(running, outputs, strict=True)]


def test_ranks_that_agree_read_every_sample(url: str, tmp_path: Path) -> None:
    """In each epoch, with no word said."""
    found = ranks(url, tmp_path / "store", "{}", "{}")
    assert [status for status, _, _ in found] == [0, 0], found
    assert [output.split() for _, output, _ in found] == [["11", "11"], ["10", "10"]]


def test_f69_a_rank_with_another_seed_is_named_on_both(url: str, tmp_path: Path) -> None:
    """Before the first batch."""
    found = ranks(url, tmp_path / "store", "{}", "{'seed': 3}")
    for status, output, errors in found:
        assert (status, output) == (1, "")
        assert "StateMismatch: rank 1 is about to read something else than rank 0: seed is 3 there and 0" in errors


def test_f69_a_rank_that_does_not_come_is_named_within_the_timeout(url: str, tmp_path: Path) -> None:
    """It reads alone meanwhile, and the other says so after a second."""
    found = ranks(url, tmp_path / "store", "{'timeout': 1}", "{'rank': 0, 'world_size': 1, 'mask': True}")
    assert found[1][0] == 0, found[1]
    assert found[0][0] == 1
    assert "TimeoutError: no sign of rank 1 after 1 s" in found[0][2]
