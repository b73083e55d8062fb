"""Test `datafeed convert` and what it shows."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from datafeed.cli import main
from datafeed.commands.meter import progress_text
from datafeed.commands.ticker import Ticker
from datafeed.converters.convert import convert
from datafeed.converters.progress import Progress
from datafeed.dataset import Dataset
from datafeed.storage import open_store


def run(*args: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(args), prog_name="datafeed")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Write a csv file of 100 rows."""
    path = tmp_path / "rows.csv"
    path.write_text("x,name\n" + "".join(f"{number},row {number}\n" for number in range(100)))
    return path


def test_convert_reports_what_it_did(rows: Path, tmp_path: Path) -> None:
    """The report is on standard output, and the dataset is there."""
    dest = tmp_path / "out"
    result = run("convert", str(rows), str(dest))
    assert result.exit_code == 0, result.stderr
    assert f"dataset  {dest}\nrecords  100 in 1 shard\nsize     " in result.stdout
    assert "in this process" in result.stdout
    assert result.stderr == ""
    assert Dataset(dest)[:]["x"].tolist() == list(range(100))


def test_convert_prints_one_json_document(rows: Path, tmp_path: Path) -> None:
    """Programs get every figure."""
    report = json.loads(run("convert", str(rows), str(tmp_path / "out"), "--json").stdout)
    assert (report["records"], report["shards"], report["skipped"], report["ran_on"]) == (100, 1, 0, "inline")
    assert report["ratio"] == report["raw_bytes"] / report["stored_bytes"]


def test_convert_refuses_columns_without_a_name(rows: Path, tmp_path: Path) -> None:
    """As an unset variable of a script leaves them, which means none and not all."""
    for names in ("", " , "):
        result = run("convert", str(rows), str(tmp_path / "out"), "--columns", names)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"error: columns: expected names such as a,b,c, found {names!r}\n"


def test_convert_again_does_nothing(rows: Path, tmp_path: Path) -> None:
    """A dataset that is complete is left as it is, and that is said."""
    run("convert", str(rows), str(tmp_path / "out"))
    assert "complete before: nothing was done" in run("convert", str(rows), str(tmp_path / "out")).stdout


def test_dry_run_prints_the_plan_and_writes_nothing(rows: Path, tmp_path: Path) -> None:
    """Shards, size and schema are estimated without a destination."""
    dest = tmp_path / "out"
    shown = run("convert", str(rows), str(dest), "--dry-run").stdout
    for part in (
        "records      about ",
        "shards       about 1",
        "stored       about ",
        "nothing written",
        "x     int64",
    ):
        assert part in shown
    plan = json.loads(run("convert", str(rows), str(dest), "--dry-run", "--json").stdout)
    assert [feature["name"] for feature in plan["schema"]] == ["x", "name"]
    assert not dest.exists()


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_a_password_is_shown_nowhere(rows: Path, json: list[str]) -> None:
    """Neither by the dry run, the report and its repetition, nor by what reads the dataset, nor in its files."""
    dest = f"memory://me:secret@host{rows}/{len(json)}"
    runs = [run("convert", str(rows), dest, *more, *json) for more in (["--dry-run"], [], [])]
    runs += [run(command, dest, *json) for command in ("info", "verify", "head")]
    runs += [run("info", f"{dest}/gone", *json), run("convert", str(rows), dest, "--limit", "3", *json)]
    assert [result.exit_code for result in runs] == [0] * 6 + [3, 4]
    assert not [result.output for result in runs if "secret" in result.output]
    assert "me:***@host" in runs[1].stdout
    store = open_store(dest)
    assert b"secret" not in b"".join(store.read(name) for name in store.names())


def test_a_source_that_cannot_be_reached_exits_3_without_its_password(tmp_path: Path) -> None:
    """Nobody listens at that port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    result = run("convert", f"http://me:secret@127.0.0.1:{port}/rows.csv", str(tmp_path / "out"))
    assert result.exit_code == 3
    assert f"http://me:***@127.0.0.1:{port}/rows.csv" in result.stderr
    assert "secret" not in result.output


def test_an_unknown_kind_exits_2_and_names_the_known(rows: Path, tmp_path: Path) -> None:
    """A typing error in --from is answered with what there is."""
    result = run("convert", str(rows), str(tmp_path / "out"), "--from", "cvs")
    assert result.exit_code == 2
    assert "'cvs'" in result.stderr
    assert "csv" in result.stderr.replace("'cvs'", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--shard-size=10 QB", "shard_size '10 QB' is no size: write it as 100MB, 1.5GB or 256KiB"),
        ("--block-size=0", "block_size must be at least one byte, found '0'"),
        ("--level=30", "level must be -100 to 22, found 30"),
        ("--workers=0", "Invalid value for '--workers': 0 is not in the range x>=1"),
        ("--on-error=ignore", "Invalid value for '--on-error': 'ignore' is not one of"),
        ("--type=x", "Invalid value for '--type': expected NAME=DTYPE, found no '='"),
    ],
)
def test_a_bad_option_exits_2(rows: Path, tmp_path: Path, options: str, said: str) -> None:
    """What was found and what is expected are told before anything is read."""
    result = run("convert", str(rows), str(tmp_path / "out"), options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_destination_inside_the_source_exits_2(tmp_path: Path) -> None:
    """A conversion cannot read what it writes."""
    result = run("convert", str(tmp_path), str(tmp_path / "out"))
    assert result.exit_code == 2
    expected = f"error: the destination '{tmp_path}/out' lies in the source '{tmp_path}': name a directory outside it\n"
    assert result.stderr == expected


def test_a_destination_that_cannot_be_written_exits_4(rows: Path, tmp_path: Path) -> None:
    """What is in the way is named."""
    (tmp_path / "file").write_text("")
    result = run("convert", str(rows), str(tmp_path / "file" / "out"))
    assert result.exit_code == 4
    assert result.stderr == f"error: '{tmp_path}/file' is a file: name a new or empty directory as the destination\n"


def test_a_destination_that_holds_something_else_exits_4(rows: Path, tmp_path: Path) -> None:
    """Somebody's files and another dataset are left alone."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    result = run("convert", str(rows), str(tmp_path / "mine"))
    assert result.exit_code == 4
    assert f"error: {tmp_path}/mine is not empty: no conversion wrote 'notes.txt'" in result.stderr
    run("convert", str(rows), str(tmp_path / "out"))
    result = run("convert", str(rows), str(tmp_path / "out"), "--limit", "7")
    assert result.exit_code == 4
    assert "holds another dataset, which stays as it is. Old -> new: limit: None -> 7" in result.stderr


def test_f56_a_name_with_control_characters_stays_one_line(tmp_path: Path) -> None:
    """A path from a stranger's archive cannot write lines of its own to a log."""
    result = run("convert", f"{tmp_path}/a\nb\x1b[2J\udcff", str(tmp_path / "out"))
    assert result.exit_code == 3
    assert result.stderr.count("\n") == 1
    assert result.stderr.rstrip("\n").isprintable()


def test_a_terminal_sees_a_bar_and_a_pipe_only_the_report(rows: Path, tmp_path: Path) -> None:
    """Progress goes to the terminal; what is piped on is the report alone."""
    terminal, end = pty.openpty()
    program = "import sys; from datafeed.cli import main; sys.exit(main())"
    args = [sys.executable, "-c", program, "convert", str(rows), str(tmp_path / "out"), "--json"]
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=end, check=True, timeout=60)
    os.close(end)
    shown = os.read(terminal, 65536).decode()
    os.close(terminal)
    assert "records/s" in shown
    assert json.loads(done.stdout)["records"] == 100


def test_progress_has_rates_ratio_and_time_left() -> None:
    """A line says how fast, how small and how long."""
    progress = Progress(12_000, 60_000_000, 20_000_000, 2, 10.0, 1200.0, 6e6, 3725.0)
    assert progress_text(progress) == (
        "12,000 records in 2 shards, 1,200 records/s, 6.0 MB/s, ratio 3.00, 1:02:05 left"
    )


def test_plain_lines_are_soon_there_and_stay_few(capsys: pytest.CaptureFixture[str]) -> None:
    """The newest is at most a tenth of the time old, or 2 s; a log of an hour is not flooded."""
    start = time.monotonic()
    with Ticker("work") as ticker:
        for tenth in range(36_000):
            ticker.line(str(tenth / 10), start + tenth / 10)
    shown = capsys.readouterr()
    assert shown.out == ""
    told = [float(line.removeprefix("work: ")) for line in shown.err.splitlines()]
    assert told[0] == pytest.approx(2.0, abs=0.11)
    gaps = [(later - before, before) for before, later in itertools.pairwise(told)]
    assert all(gap <= max(2.0, min(10.0, before / 10)) + 0.11 for gap, before in gaps)
    assert len(told) < 400


def test_a_ticker_is_quiet_when_work_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    """No line is written before there is something to wait for."""
    with Ticker("verify") as ticker:
        ticker.add(10)
    assert capsys.readouterr().err == ""


def test_what_stands_still_is_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    """A source that takes long to list is no silence, nor is a task that does; it ends with the command."""
    with Ticker("convert") as ticker:
        for text in ("reading the source", "1 record in 0 shards"):
            ticker.stay(text) if text.startswith("reading") else ticker.line(text, 0.0)
            said = ""
            while f"convert: {text}, " not in said:
                said += capsys.readouterr().err
                time.sleep(0.05)
        ticker.line("2 records", time.monotonic() + 60)
        assert capsys.readouterr().err == "convert: 2 records\n"
    assert not any(thread.name == "datafeed-ticker" for thread in threading.enumerate())


def test_progress_tells_each_phase(rows: Path, tmp_path: Path) -> None:
    """Planning, converting, committing."""
    seen: list[Progress] = []
    convert(rows, tmp_path / "out", on_progress=seen.append)
    phases = [phase for phase, _ in itertools.groupby(progress.phase for progress in seen)]
    assert phases == ["plan", "convert", "commit"]
    assert progress_text(seen[0]) == "reading the source, to plan"
    assert re.fullmatch(
        r"100 records in 1 shard, [0-9,]+ records/s, .*, ratio [0-9.]+, committing", progress_text(seen[-1])
    )
