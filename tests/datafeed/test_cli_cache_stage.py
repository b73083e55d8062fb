"""Test that a dataset is fetched to a disk ahead of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import s3fs
from cached import EXTENTS, RECORDS, dataset, entries, epoch, loader, mounted, run, staged
from processes import wait_until
from s3_server import environment, make_bucket, options, s3_server
from tiny import write_dataset

from datafeed.cache.folder import NAME

MANY = 240  # extents, so that a child can be stopped on the way


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real S3 server with a dataset of many extents at s3://bucket/data; gives its address."""
    folder = tmp_path_factory.mktemp("server") / "data"
    write_dataset(str(folder), shards=2, blocks=MANY, extent_size=200)
    with s3_server() as address:
        make_bucket(address, "bucket")
        s3fs.S3FileSystem(**options(address)).put(str(folder), "bucket/data", recursive=True)
        yield address


def started(server: str, disk: Path) -> subprocess.Popen[str]:
    """Stage in a process of its own, an extent at a time."""
    program = "import sys; from datafeed.cli import main; sys.exit(main())"
    args = ["cache", "stage", "s3://bucket/data", "--nvme", str(disk), "--nvme-budget", "10MB", "--threads", "1"]
    return subprocess.Popen(
        [sys.executable, "-c", program, *args],
        env=environment(server),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_run_fetches_nothing_of_what_was_staged(tmp_path: Path) -> None:
    """The samples are right, and all come from the disk."""
    url, disk = staged(tmp_path)
    numbers, tiers = epoch(loader(url, disk))
    assert numbers == list(range(RECORDS))
    assert (tiers["store"].admitted, tiers["store"].blocks, tiers["nvme"].blocks) == (0, 0, 2 * EXTENTS)


def test_a_second_call_fetches_only_what_is_absent(tmp_path: Path) -> None:
    """And says so, also to programs."""
    url, disk = staged(tmp_path)
    args = ["cache", "stage", url, "--nvme", disk, "--nvme-budget", "13kB"]  # room for all once
    assert run(*args).stdout == f"{url} was in nvme {disk} before, {EXTENTS} extents: nothing was fetched\n"
    gone, kept = entries(disk)[:10], entries(disk)[10:]
    times = [path.stat().st_ctime_ns for path in kept]
    for path in gone:
        path.unlink()
    facts = json.loads(run(*args, "--json").stdout)
    assert (facts["tier"], facts["path"], facts["extents"]) == ("nvme", str(disk), EXTENTS)
    assert (facts["fetched"], facts["there_before"], facts["left_out"]) == (10, 30, 0)
    assert [path.stat().st_ctime_ns for path in kept] == times


@pytest.mark.s3
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_f09_a_command_that_is_ended_goes_on_where_it_was(tmp_path: Path, server: str, how: signal.Signals) -> None:
    """Whole entries are left, nothing else after the next call, and that one fetches the rest."""
    child = started(server, tmp_path)
    wait_until(lambda: len(entries(tmp_path)) > 20)
    child.send_signal(how)
    _, shown = child.communicate(timeout=60)
    if how == signal.SIGINT:
        assert (child.returncode, shown) == (130, "error: interrupted\n")
        assert list((tmp_path / NAME / "sessions").iterdir()) == []
        assert list((tmp_path / NAME / "tmp").iterdir()) == []
    else:
        assert child.returncode == -how
    there = len(entries(tmp_path))
    assert 20 < there < MANY
    assert run("cache", "verify", "--nvme", tmp_path).exit_code == 0
    again = started(server, tmp_path)
    said, shown = again.communicate(timeout=60)
    assert (again.returncode, shown) == (0, "")
    assert f" {MANY - there} of {MANY} extents fetched, " in said
    assert f"; {there} were there before\n" in said
    assert list((tmp_path / NAME / "tmp").iterdir()) == []
    assert json.loads(run("cache", "status", "--nvme", tmp_path, "--json").stdout)[0]["datasets"][0]["share"] == 1.0


def test_what_does_not_fit_is_refused_before_it_begins(tmp_path: Path) -> None:
    """With the numbers; nothing was fetched."""
    url, disk = dataset(tmp_path / "data"), tmp_path / "nvme"
    disk.mkdir()
    result = run("cache", "stage", url, "--nvme", disk, "--nvme-budget", "5kB")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (4, "", 1)
    assert result.stderr.startswith(
        f"error: no room for {url} in the nvme cache {disk}: 12.1 kB are to be fetched, and 5.0 kB can be held "
        "(budget 5.0 kB, 0 B of it held; "
    )
    assert result.stderr.endswith("give it more, free some, or take --as-much-as-fits\n")
    assert entries(disk) == []


def test_as_much_as_fits_is_staged(tmp_path: Path) -> None:
    """And stays: the run fetches the rest, each epoch again, and no more."""
    url, disk = dataset(tmp_path / "data"), tmp_path / "nvme"
    disk.mkdir()
    result = run("cache", "stage", url, "--nvme", disk, "--nvme-budget", "5kB", "--as-much-as-fits")
    held = len(entries(disk))
    assert result.exit_code == 0
    assert f" {held} of {EXTENTS} extents fetched, " in result.stdout
    assert result.stdout.endswith(f"; {EXTENTS - held} did not fit\n")
    assert 5000 - 400 < sum(path.stat().st_size for path in entries(disk)) <= 5000
    numbers, tiers = epoch(loader(url, disk, "5kB"))
    assert numbers == list(range(RECORDS))
    assert tiers["store"].admitted == EXTENTS - held


def test_a_dataset_that_nobody_reads_gives_way(tmp_path: Path) -> None:
    """One that a run reads does not."""
    first, disk = dataset(tmp_path / "data"), tmp_path / "nvme"
    second = dataset(tmp_path / "other", seed="other")
    disk.mkdir()
    args = ["--nvme", disk, "--nvme-budget", "14kB"]
    assert run("cache", "stage", first, *args).exit_code == 0
    run_there = loader(first, disk, "14kB")
    next(iter(run_there))
    result = run("cache", "stage", second, *args)
    assert result.exit_code == 4
    assert "12.1 kB are to be fetched, and 7.0 kB can be held (budget 14.0 kB, 12.1 kB of it held; " in result.stderr
    del run_there
    assert run("cache", "stage", second, *args).exit_code == 0
    found = json.loads(run("cache", "status", "--nvme", disk, "--json").stdout)[0]["datasets"]
    assert {held["url"]: held["share"] for held in found}[second] == 1.0
    assert sum(path.stat().st_size for path in entries(disk)) <= 14000


@pytest.mark.parametrize("rank", [0, 3])
def test_the_part_of_a_rank_is_what_that_rank_reads(tmp_path: Path, rank: int) -> None:
    """With the seed and lanes of the Loader it fetches nothing, in any epoch; another rank does."""
    url, disk = dataset(tmp_path / "data"), tmp_path / "nvme"
    disk.mkdir()
    part = ["--rank", rank, "--world", 4, "--seed", 7, "--lanes", 8]
    assert run("cache", "stage", url, "--nvme", disk, "--nvme-budget", "1MB", *part).exit_code == 0
    assert 10 <= len(entries(disk)) <= 18
    own = loader(url, disk, seed=7, lanes=8, rank=rank, world_size=4)
    for _ in range(2):
        assert epoch(own)[1]["store"].admitted == 0
    other = loader(url, disk, seed=7, lanes=8, rank=1, world_size=4)
    assert epoch(other)[1]["store"].admitted > 0


def test_a_tier_is_chosen_where_there_are_several(tmp_path: Path) -> None:
    """None is guessed."""
    url = dataset(tmp_path / "data")
    for name in ("nvme", "ebs"):
        (tmp_path / name).mkdir()
    (tmp_path / "cache.toml").write_text(f'nvme = ["{tmp_path}/nvme", "1MB"]\nebs = ["{tmp_path}/ebs", "1MB"]\n')
    args = ["cache", "stage", url, "--cache", tmp_path / "cache.toml"]
    result = run(*args)
    assert result.exit_code == 2
    assert "the cache has the tiers nvme and ebs: choose one by --to" in result.stderr
    assert run(*args, "--to", "ebs").exit_code == 0
    assert len(entries(tmp_path / "ebs")) == EXTENTS
    assert not (tmp_path / "nvme" / NAME).exists()
    result = run("cache", "stage", url, "--nvme", tmp_path / "nvme", "--nvme-budget", "1MB", "--to", "ebs")
    assert "the cache has no tier 'ebs', it has nvme" in result.stderr


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--rank", "1"], 2, "--rank and --world need each other"),
        (["--rank", "2", "--world", "2"], 2, "--rank 2 is none of 2 ranks: they are counted from 0"),
        (["--seed", "1"], 2, "--seed and --lanes have an effect with --rank alone"),
        (["--rank", "0", "--world", "3", "--lanes", "4"], 2, "lanes=4 cannot be shared out among 3 ranks"),
        (["--nvme-budget", "100"], 2, "nvme: its budget of 100 B is below the largest extent of the dataset"),
        (["--threads", "0"], 2, "Invalid value for '--threads'"),
        (["--to", "tape"], 2, "Invalid value for '--to': 'tape' is not one of 'nvme', 'ebs'"),
    ],
)
def test_what_cannot_be_staged_is_an_error_of_one_line(tmp_path: Path, args: list[str], code: int, said: str) -> None:
    """Before anything is fetched."""
    url = dataset(tmp_path / "data")
    result = run("cache", "stage", url, "--nvme", tmp_path, "--nvme-budget", "1MB", *args)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (code, "", 1)
    assert said in result.stderr
    assert entries(tmp_path) == []


def test_what_is_to_be_staged_must_be_there_and_elsewhere(tmp_path: Path) -> None:
    """A dataset that is missing, and one that runs read where it is."""
    url = dataset(tmp_path / "data")
    args = ["--nvme", tmp_path, "--nvme-budget", "1MB"]
    assert run("cache", "stage", f"{url}/nothing", *args).exit_code == 3
    result = run("cache", "stage", tmp_path / "data", *args)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"is on the volume of the nvme cache {tmp_path}: runs read it where it is\n")
    result = run("cache", "stage", url, "--nvme", tmp_path)
    assert result.stderr.startswith("error: --nvme needs --nvme-budget: how much it may hold")


def test_a_damaged_dataset_is_not_staged(tmp_path: Path) -> None:
    """Its place is named, the exit code is that of damage, and what is kept is right."""
    url, disk = dataset(tmp_path / "data"), tmp_path / "nvme"
    disk.mkdir()
    shard = tmp_path / "data" / "shard-000001.tfrecord.zst"
    shard.write_bytes(shard.read_bytes().replace(shard.read_bytes()[20:40], bytes(20)))
    result = run("cache", "stage", url, "--nvme", disk, "--nvme-budget", "1MB", "--threads", "1")
    assert (result.exit_code, result.stderr.count("\n")) == (5, 1)
    assert run("cache", "verify", "--nvme", disk).exit_code == 0


def test_f13_a_disk_without_inodes_is_named(tmp_path: Path) -> None:
    """What was fetched stays; the error says what is used up, and what to do."""
    url = dataset(tmp_path / "data")
    with mounted(tmp_path / "nvme", "size=8m,nr_inodes=30") as disk:
        result = run("cache", "stage", url, "--nvme", disk, "--nvme-budget", "8MB")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (4, "", 1)
        assert f"error: the nvme cache {disk} cannot be written: its volume is full (" in result.stderr
        assert "and no inodes free" in result.stderr
        held = len(entries(disk))
        assert f"{held} extents of {EXTENTS} of {url} were fetched, the same command goes on" in result.stderr
        assert 10 < held < 30
        assert run("cache", "verify", "--nvme", disk).exit_code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: a foreign directory needs root to make")
def test_a_cache_of_another_user_is_refused(tmp_path: Path) -> None:
    """Nothing is read of it or written to it."""
    url, disk = staged(tmp_path)
    os.chown(disk / NAME, 12345, 12345)
    for args in (["stage", url, "--nvme-budget", "1MB"], ["status"], ["verify"], ["clear"]):
        result = run("cache", *args, "--nvme", disk)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "belongs to user 12345" in result.stderr
