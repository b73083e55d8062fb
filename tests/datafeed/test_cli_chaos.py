"""Test the commands that do to a cache what bad disks do, and what a run makes of it."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cached import EXTENTS, RECORDS, dataset, entries, epoch, loader, mounted, run, staged

from datafeed.cache.chaos import BALLAST
from datafeed.cache.directory import DiskOptions
from datafeed.cache.disk import DiskTier
from datafeed.cache.entry import read_key
from datafeed.cache.folder import NAME


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A volume of 8 MB of its own."""
    with mounted(tmp_path / "small", "size=8m") as path:
        yield path


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings so far."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("command", ["", "corrupt", "truncate", "slow", "full"])
def test_help_shows_each_command_in_an_example(command: str) -> None:
    """A person who asks for help sees what to type."""
    result = run("chaos", *command.split(), "--help")
    assert result.exit_code == 0
    assert f"      datafeed chaos {command}".rstrip() in result.stdout


@pytest.mark.parametrize("how", ["corrupt", "truncate"])
def test_f24_a_run_refetches_what_was_hurt(tmp_path: Path, how: str) -> None:
    """The entries that were named, no others: the samples are right, and the next epoch finds them mended."""
    url, disk = staged(tmp_path)
    before = {path: path.read_bytes() for path in entries(disk)}
    result = run("chaos", how, disk, "--entries", 2, "--seed", 5)
    assert result.exit_code == 0
    hurt = [path for path in entries(disk) if path.read_bytes() != before[path]]
    assert [f"dataset {path.parent.name}, extent {int(path.name)}: " in result.stdout for path in hurt] == [True] * 2
    assert "\nnext: a run that reads them fetches each again" in result.stdout
    again = loader(url, disk)
    numbers, tiers = epoch(again)
    assert numbers == list(range(RECORDS))
    assert (tiers["nvme"].damaged, tiers["store"].admitted, tiers["nvme"].admitted) == (2, 2, 2)
    assert {path: path.read_bytes() for path in entries(disk)} == before
    assert epoch(again)[1]["store"].admitted == 0


def test_corrupting_flips_one_byte(tmp_path: Path) -> None:
    """At the place that it names; the same seed names the same, another one others."""
    _, disk = staged(tmp_path)
    before = {path: path.read_bytes() for path in entries(disk)}
    (hurt,) = json.loads(run("chaos", "corrupt", disk, "--seed", 1, "--json").stdout)["entries"]
    (path,) = [path for path in before if path.read_bytes() != before[path]]
    places = [place for place, (old, new) in enumerate(zip(before[path], path.read_bytes(), strict=True)) if old != new]
    (place,) = places
    assert hurt["extent"] == int(path.name)
    assert hurt["text"].startswith(f"byte {place:,} of {len(before[path]):,} was ")
    assert before[path][place] ^ path.read_bytes()[place] == 0xFF
    assert json.loads(run("chaos", "corrupt", disk, "--seed", 1, "--json").stdout)["entries"][0]["extent"] == int(
        path.name
    )
    assert path.read_bytes() == before[path]  # flipped back
    chosen = {
        entry["extent"]
        for seed in range(8)
        for entry in json.loads(run("chaos", "corrupt", disk, "--seed", seed, "--json").stdout)["entries"]
    }
    assert len(chosen) > 3


def test_hurt_entries_keep_their_turn(tmp_path: Path) -> None:
    """A bad disk does not make an entry the latest one."""
    _, disk = staged(tmp_path)
    turns = [path.stat().st_mtime_ns for path in entries(disk)]
    run("chaos", "corrupt", disk, "--entries", 5)
    run("chaos", "truncate", disk, "--entries", 5)
    assert [path.stat().st_mtime_ns for path in entries(disk)] == turns


def test_what_has_another_name_elsewhere_is_left_alone(tmp_path: Path) -> None:
    """A hard link to somebody's file is no file of the cache's alone."""
    _, disk = staged(tmp_path)
    mine = tmp_path / "mine"
    for path in entries(disk):
        path.unlink()
        mine.write_bytes(b"mine" * 100)
        os.link(mine, path)
        mine = mine.with_name(f"{path.name}-mine")
    result = run("chaos", "corrupt", disk, "--entries", EXTENTS)
    assert result.stdout.count("left alone: it is empty, or has another name elsewhere") == EXTENTS
    assert {path.read_bytes() for path in entries(disk)} == {b"mine" * 100}


def test_many_hurt_entries_end_a_tier_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As the command says; the samples are right, and the warning says what to do."""
    url, disk = staged(tmp_path)
    result = run("chaos", "corrupt", disk, "--entries", 10)
    assert "at the third within an hour it leaves the tier out, with one warning" in result.stdout
    numbers, tiers = epoch(loader(url, disk))
    assert numbers == list(range(RECORDS))
    assert 3 <= tiers["nvme"].damaged < 10  # entries that were open already are read
    (said,) = warned(caplog)
    assert "`datafeed cache verify --delete`" in said
    assert (
        len(json.loads(run("cache", "verify", "--nvme", disk, "--json").stdout)["problems"])
        == 10 - tiers["nvme"].damaged
    )


def test_a_slow_tier_says_so_and_is_left_alone_where_it_hangs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Until it is undone; what each run should show is said."""
    url, disk = staged(tmp_path)
    result = run("chaos", "slow", disk, "--delay", "0.03")
    assert "takes 0.03 s more\nnext: a run warns of it, and waits" in result.stdout
    assert "chaos   each look-up takes 0.03 s more" in run("cache", "status", "--nvme", disk).stdout
    tier = DiskTier("nvme", DiskOptions(str(disk), 10**6, slow_s=0.01))
    key = read_key(entries(disk)[0].read_bytes()[:96])
    assert key is not None
    assert [tier.find(key) is None, tier.find(key)] == [False, None]
    tier.close()
    assert ["0.03 s more: `datafeed chaos slow --undo` ends it" in text for text in warned(caplog)] == [True, False]
    assert "a look-up took" in warned(caplog)[1]
    assert "leaves the tier alone for a minute" in run("chaos", "slow", disk, "--delay", "6").stdout
    assert run("chaos", "slow", disk, "--undo").exit_code == 0
    caplog.clear()
    assert epoch(loader(url, disk))[1]["store"].admitted == 0
    assert warned(caplog) == []


def test_f12_a_full_volume_keeps_what_is_there_and_nothing_more(small: Path, tmp_path: Path) -> None:
    """The run reads on, and fetches the rest in each epoch; after --undo it keeps it."""
    url = dataset(tmp_path / "data")
    args = ["cache", "stage", url, "--nvme", small, "--nvme-budget", "8MB"]
    assert run(*args).exit_code == 0
    for path in entries(small)[:10]:
        path.unlink()
    result = run("chaos", "full", small, "--leave", "100kB", "--yes")
    assert result.exit_code == 0
    assert f"of the volume of {small}/{NAME}, " in result.stdout
    assert "next: a run drops what nobody needs, since 419.4 kB are left to others" in result.stdout
    assert "of ballast (`datafeed chaos full --undo`)" in run("cache", "status", "--nvme", small).stdout
    result = run(*args)
    assert (result.exit_code, len(entries(small))) == (4, 30)
    assert "and 0 B can be held" in result.stderr
    again = loader(url, small, "8MB")
    for _ in range(2):
        numbers, tiers = epoch(again)
        assert numbers == list(range(RECORDS))
        assert (tiers["store"].admitted, tiers["nvme"].admitted) == (10, 0)
    assert run("chaos", "full", small, "--undo").stdout.startswith("gave back ")
    assert run(*args).exit_code == 0
    assert len(entries(small)) == EXTENTS


def test_a_volume_without_a_byte_can_be_given_back(small: Path, tmp_path: Path) -> None:
    """What undoes it writes nothing."""
    url = dataset(tmp_path / "data")
    assert run("cache", "stage", url, "--nvme", small, "--nvme-budget", "8MB").exit_code == 0
    assert run("chaos", "full", small, "--leave", "1", "--yes").exit_code == 0
    assert os.statvfs(small).f_bavail == 0
    assert run("chaos", "full", small, "--undo").exit_code == 0
    assert not (small / NAME / BALLAST).exists()
    assert "there was nothing to give back" in run("chaos", "full", small, "--undo").stdout


def test_filling_asks_first_and_takes_what_it_says(tmp_path: Path) -> None:
    """Whoever else is on the volume must be thought of."""
    _, disk = staged(tmp_path)
    volume = os.statvfs(disk)
    leave = volume.f_bavail * volume.f_frsize - 20_000_000
    result = run("chaos", "full", disk, "--leave", leave, answer="n\n")
    assert result.exit_code == 2
    assert f"of the volume of {disk}/{NAME}? [y/N]" in result.stderr
    assert not (disk / NAME / BALLAST).exists()
    result = run("chaos", "full", disk, "--leave", "900PB", "--yes")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "are free, not above what to leave" in result.stderr
    assert not (disk / NAME / BALLAST).exists()


@pytest.mark.parametrize("command", [["corrupt"], ["truncate"], ["slow", "--delay", "1"], ["full", "--leave", "1"]])
def test_a_folder_that_is_no_cache_is_refused_untouched(tmp_path: Path, command: list[str]) -> None:
    """A typing error harms nothing."""
    (tmp_path / "0000000001").write_text("mine")
    result = run("chaos", command[0], tmp_path, *command[1:])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"error: no cache in '{tmp_path}': expected {NAME} in it")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["corrupt", "{}", "--entries", "99"], "has 40 entries, not 99: take fewer"),
        (["corrupt", "{}", "--entries", "0"], "Invalid value for '--entries'"),
        (["slow", "{}"], "give one of --delay and --undo"),
        (["slow", "{}", "--delay", "1", "--undo"], "give one of --delay and --undo"),
        (["slow", "{}", "--delay", "0"], "Invalid value for '--delay'"),
        (["full", "{}"], "give one of --leave and --undo"),
        (["full", "{}", "--leave", "much"], "--leave 'much' is no size"),
        (["melt", "{}"], "No such command 'melt'"),
    ],
)
def test_wrong_usage_is_one_line(tmp_path: Path, args: list[str], said: str) -> None:
    """As every other error."""
    _, disk = staged(tmp_path)
    result = run("chaos", *[arg.format(disk) for arg in args])
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert said in result.stderr
