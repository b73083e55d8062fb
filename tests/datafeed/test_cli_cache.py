"""Test the commands that look after a cache."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cached import EXTENTS, RECORDS, dataset, entries, epoch, loader, run, staged

from datafeed.cache.folder import NAME
from datafeed.commands.cache_stage import progress_text


@pytest.mark.parametrize("command", ["", "stage", "status", "verify", "clear"])
def test_help_shows_each_command_in_an_example(command: str) -> None:
    """A person who asks for help sees what to type."""
    result = run("cache", *command.split(), "--help")
    assert result.exit_code == 0
    assert f"      datafeed cache {command}".rstrip() in result.stdout


def test_status_says_what_is_held_and_by_whom_it_is_read(tmp_path: Path) -> None:
    """By dataset: entries, bytes, share, and readers while they live."""
    url, disk = staged(tmp_path)
    shown = run("cache", "status", "--nvme", disk, "--nvme-budget", "1MB").stdout
    assert f"nvme    {disk}/{NAME}\n" in shown
    assert f"of a budget of 1.0 MB (1 %) in {EXTENTS} entries\n" in shown
    assert " free; " in shown
    assert shown.rstrip().endswith(f"100 %  just now   nobody   {url}")
    run_there = loader(url, disk)
    next(iter(run_there))
    assert f"now        pid {os.getpid()}  {url}" in run("cache", "status", "--nvme", disk).stdout
    del run_there
    (tier,) = json.loads(run("cache", "status", "--nvme", disk, "--json").stdout)
    assert (tier["tier"], tier["path"], tier["budget_bytes"]) == ("nvme", f"{disk}/{NAME}", None)
    (held,) = tier["datasets"]
    assert (held["url"], held["entries"], held["share"], held["readers"]) == (url, EXTENTS, 1.0, [])
    assert held["held_bytes"] == tier["held_bytes"] == sum(path.stat().st_size for path in entries(disk))


def test_status_knows_a_share_and_what_it_does_not_know(tmp_path: Path) -> None:
    """A part of a dataset is so many percent; without the note beside it both stay unknown."""
    url, disk = staged(tmp_path)
    for path in entries(disk)[:10]:
        path.unlink()
    (held,) = json.loads(run("cache", "status", "--nvme", disk, "--json").stdout)[0]["datasets"]
    assert held["share"] == pytest.approx(0.75, abs=0.01)
    next((disk / NAME / "entries").glob("*/.about")).unlink()
    row = run("cache", "status", "--nvme", disk).stdout.splitlines()[-1]
    assert "unknown" in row
    assert url not in row


def test_verify_finds_and_deletes_what_is_wrong(tmp_path: Path) -> None:
    """Each is a line with its place and exit code 5; what a run would leave alone is left alone."""
    url, disk = staged(tmp_path)
    result = run("cache", "verify", "--nvme", disk)
    assert (result.exit_code, result.stdout.split(",")[0]) == (0, f"whole: {EXTENTS} entries")
    damaged, cut, linked = entries(disk)[3], entries(disk)[5], entries(disk)[7]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    os.truncate(cut, 150)
    linked.unlink()
    linked.symlink_to(tmp_path / "data" / "dataset.json")
    result = run("cache", "verify", "--nvme", disk)
    lines = result.stdout.splitlines()
    assert (result.exit_code, len(lines)) == (5, 4)
    assert lines[0] == (
        f"nvme {disk}, dataset {damaged.parent.name}, extent 3: the CRC32C of its stored bytes does not match"
    )
    assert "extent 5: expected " in lines[1]
    assert lines[2].endswith("extent 7: it is no file")
    assert lines[3].startswith("3 wrong: 39 entries, ")
    result = run("cache", "verify", "--nvme", disk, "--delete", "--json")
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["ok"]) == (5, False)
    assert [(problem["extent"], problem["deleted"]) for problem in facts["problems"]] == [
        (3, True),
        (5, True),
        (7, False),
    ]
    assert linked.is_symlink()
    linked.unlink()
    numbers, tiers = epoch(loader(url, disk))
    assert numbers == list(range(RECORDS))
    assert (tiers["store"].admitted, tiers["nvme"].damaged) == (3, 0)
    assert run("cache", "verify", "--nvme", disk).exit_code == 0


def test_clear_deletes_what_was_asked_for_and_nothing_else(tmp_path: Path) -> None:
    """By id or by URL, of one dataset of two; files of others stay, in the directory and beside it."""
    first, disk = staged(tmp_path)
    second = dataset(tmp_path / "other", seed="other")
    run("cache", "stage", second, "--nvme", disk, "--nvme-budget", "1MB")
    mine = [disk / "notes.txt", disk / NAME / "entries" / "notes.txt", entries(disk)[0].parent / "notes.txt"]
    for path in mine:
        path.write_text("mine")
    result = run("cache", "clear", "--nvme", disk, "--dataset", first, "--yes")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"cleared nvme {disk}: {EXTENTS} entries, ")
    (left,) = {path.parent.name for path in entries(disk)}
    (facts,) = json.loads(run("cache", "clear", "--nvme", disk, "--dataset", left, "--yes", "--json").stdout)
    assert (facts["deleted"], facts["kept"]) == (EXTENTS, 0)
    assert entries(disk) == []
    assert [path.read_text() for path in mine] == ["mine"] * 3
    assert "held    0 B in 0 entries" in run("cache", "status", "--nvme", disk).stdout


def test_clear_finds_a_dataset_by_its_manifest(tmp_path: Path) -> None:
    """Where another URL was noted, the id says that it is the same."""
    url, disk = staged(tmp_path)
    result = run("cache", "clear", "--nvme", disk, "--dataset", url.removeprefix("local://"), "--yes")
    assert result.exit_code == 0
    assert entries(disk) == []
    result = run("cache", "clear", "--nvme", disk, "--dataset", url, "--yes")
    assert result.exit_code == 2
    assert "holds nothing of" in result.stderr


def test_clear_asks_first(tmp_path: Path) -> None:
    """With the numbers; without a yes nothing goes."""
    _, disk = staged(tmp_path)
    for answer in ("n\n", ""):
        result = run("cache", "clear", "--nvme", disk, answer=answer)
        assert result.exit_code == 2
        assert f"Delete {EXTENTS} entries, " in result.stderr
        assert result.stderr.endswith("error: nothing was deleted: answer y, or give --yes\n")
    assert len(entries(disk)) == EXTENTS
    assert run("cache", "clear", "--nvme", disk, answer="y\n").exit_code == 0
    assert entries(disk) == []


def test_clear_leaves_what_a_run_reads(tmp_path: Path) -> None:
    """And says who that is."""
    url, disk = staged(tmp_path)
    run_there = loader(url, disk)
    next(iter(run_there))
    result = run("cache", "clear", "--nvme", disk)
    assert result.exit_code == 0
    assert result.stdout.endswith(f", are in use by pid {os.getpid()} and were left\n")
    assert len(entries(disk)) == EXTENTS


def test_tiers_are_named_by_options_file_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way shows the same; options come before the environment."""
    _, disk = staged(tmp_path)
    (tmp_path / "ebs").mkdir()
    file = tmp_path / "cache.toml"
    file.write_text(f'nvme = ["{disk}", "1MB"]\n')
    expected = json.loads(run("cache", "status", "--nvme", disk, "--nvme-budget", "1MB", "--json").stdout)
    given = json.loads(run("cache", "status", "--cache", file, "--json").stdout)
    monkeypatch.setenv("DATAFEED_CACHE", str(file))
    found = json.loads(run("cache", "status", "--json").stdout)
    for status in (*expected, *given, *found):
        del status["free_bytes"]  # others write there, too
    assert expected == given == found
    result = run("cache", "status", "--ebs", tmp_path / "ebs")
    assert result.stderr.startswith(f"error: no cache in '{tmp_path}/ebs': expected {NAME} in it")


@pytest.mark.parametrize("command", ["status", "verify", "clear"])
def test_a_folder_without_a_cache_is_refused_untouched(tmp_path: Path, command: str) -> None:
    """A typing error makes no cache anywhere."""
    result = run("cache", command, "--nvme", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: no cache in '{tmp_path}': ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "verify", "clear"])
def test_a_cache_open_to_others_is_refused(tmp_path: Path, command: str) -> None:
    """As a run refuses it."""
    _, disk = staged(tmp_path)
    (disk / NAME).chmod(0o755)
    result = run("cache", command, "--nvme", disk)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "is open to others (mode 755): chmod 700 it" in result.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "no cache is named: give --cache FILE, --nvme DIR or --ebs DIR, or set DATAFEED_CACHE"),
        (["--nvme", "nowhere"], "nvme: the directory '{cwd}/nowhere' is not there: make it, or mount its volume"),
        (["--nvme", ".", "--cache", "x.toml"], "--cache and --nvme exclude each other"),
        (["--nvme-budget", "1GB"], "--nvme-budget needs --nvme"),
        (["--nvme", ".", "--nvme-budget", "10 QB"], "nvme '10 QB' is no size"),
        (["--nvme", "s3://bucket"], "nvme='s3://bucket' is a URL: a tier is a directory of this machine"),
        (["--cache", "none.toml"], "cannot read the cache's settings 'none.toml'"),
        (["--cache", "host.toml"], "that cache has no tier on a disk"),
        (["--tape", "/dev/st0"], "No such option '--tape'"),
    ],
)
def test_a_cache_that_is_named_wrongly_is_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], said: str
) -> None:
    """It says what was expected."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATAFEED_CACHE", raising=False)
    Path("host.toml").write_text('host = "1GB"\n')
    result = run("cache", "status", *args)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"error: {said.format(cwd=tmp_path)}")


def test_progress_has_bytes_rate_and_time_left() -> None:
    """What a person who waits wants to know."""
    assert progress_text(10**9, 4 * 10**9, 2.0) == "1.0 GB of 4.0 GB, 500.0 MB/s, 0:06 left"
