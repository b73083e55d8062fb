"""Test the commands that index and export."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tiny
from click.testing import CliRunner, Result

from datafeed.cli import main
from datafeed.dataset import Dataset


def run(*args: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(args), prog_name="datafeed")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Write a dataset of 2 shards of 3 blocks of 4 records."""
    tiny.write_dataset(str(tmp_path / "tiny"))
    return str(tmp_path / "tiny")


def test_index_rebuild_restores_the_very_bytes(url: str) -> None:
    """A lost index is no lost dataset."""
    files = [Path(url, name) for name in ("dataset.json", "blocks.idx")]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    result = run("index", "--rebuild", url)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"indexed {url}: 24 records in 2 shards, ")
    assert [path.read_bytes() for path in files] == before


def test_index_reads_plain_tfrecords_in_place(tmp_path: Path) -> None:
    """Files of others become a dataset without a copy."""
    (tmp_path / "a.tfrecord").write_bytes(tiny.framed([tiny.record(number) for number in range(7)]))
    facts = json.loads(run("index", str(tmp_path), "--json").stdout)
    assert (facts["records"], facts["codec"]) == (7, "none")
    assert "plain TFRecord, read in place" in run("info", str(tmp_path)).stdout
    assert run("verify", str(tmp_path)).exit_code == 0


def test_index_of_an_export_takes_the_schema_that_is_named(tmp_path: Path) -> None:
    """Types that the records do not tell, what may be missing and the order come from the dataset or a JSON file."""
    url, out = tiny.odd_dataset(tmp_path / "odd"), str(tmp_path / "out")
    assert run("export", url, out).exit_code == 0
    schema = Dataset(url).schema
    facts = json.loads(run("info", url, "--json").stdout)
    (tmp_path / "schema.json").write_text(json.dumps(facts["schema"]))
    for named in (url, f"{url}/dataset.json", str(tmp_path / "schema.json")):
        assert run("index", out).exit_code == 0
        assert Dataset(out).schema != schema
        result = run("index", out, "--schema", named)
        assert (result.exit_code, result.stderr) == (0, "")
        assert Dataset(out).schema == schema
        assert repr(Dataset(out)[0]) == repr(Dataset(url)[0])


def test_index_refuses_a_schema_that_is_none(url: str, tmp_path: Path) -> None:
    """A place without a dataset, without a file, and a file of something else are told apart."""
    (tmp_path / "a.tfrecord").write_bytes(tiny.framed([tiny.record(0)]))
    (tmp_path / "other.json").write_text('{"name": "x"}')
    (tmp_path / "half.json").write_text("[")
    for named, code, text in (
        (str(tmp_path), 3, "no dataset at"),
        (str(tmp_path / "none.json"), 3, "no file 'none.json' in"),
        (str(tmp_path / "other.json"), 3, "'other.json' in .* is no schema: expected the list of features"),
        (str(tmp_path / "half.json"), 3, "'half.json' in .* is no schema: expected the list of features"),
    ):
        result = run("index", str(tmp_path), "--schema", named)
        assert result.exit_code == code
        assert re.match(f"error: {text}", result.stderr), result.stderr
    result = run("index", "--rebuild", "--schema", url, url)
    assert result.exit_code == 2
    assert "--schema and --rebuild exclude each other" in result.stderr


def test_index_refuses_what_it_cannot_honour(url: str, tmp_path: Path) -> None:
    """Options that exclude each other, sizes that are none, and folders without TFRecords are told apart."""
    result = run("index", "--rebuild", "--block-size", "1MB", url)
    assert result.exit_code == 2
    assert "--block-size and --rebuild exclude each other" in result.stderr
    result = run("index", "--block-size", "10 QB", url)
    assert result.exit_code == 2
    assert result.stderr == "error: --block-size '10 QB' is no size: write it as 100MB, 1.5GB or 256KiB\n"
    (tmp_path / "empty").mkdir()
    result = run("index", str(tmp_path / "empty"))
    assert result.exit_code == 3
    assert "no plain TFRecord file" in result.stderr


def test_export_writes_tfrecords_with_an_index(url: str, tmp_path: Path) -> None:
    """Each shard is a file of the same records, with a line per record beside it."""
    dest = tmp_path / "out"
    result = run("export", url, str(dest), "--to", "tfrecord")
    assert result.stdout.startswith(f"exported to {dest}: 24 records in 4 files, ")
    data = b"".join(path.read_bytes() for path in sorted(dest.glob("*.tfrecord")))
    assert data == tiny.framed([tiny.record(number) for number in range(24)])
    assert len((dest / "shard-000000.idx").read_text().splitlines()) == 12


def test_export_into_a_full_directory_exits_4(url: str, tmp_path: Path) -> None:
    """Nobody's files are overwritten."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    result = run("export", url, str(tmp_path / "full"))
    assert result.exit_code == 4
    assert "is not empty: it holds 'mine.txt'" in result.stderr


def test_a_file_in_place_of_a_directory_is_named(url: str, tmp_path: Path) -> None:
    """By whatever asks for one."""
    (tmp_path / "mine").write_bytes(b"mine")
    path = str(tmp_path / "mine")
    for args, code in ((["export", url, path], 4), (["index", path], 3), (["index", "--rebuild", path], 3)):
        result = run(*args)
        assert (result.exit_code, result.stderr.startswith(f"error: {path} is a file: name ")) == (code, True)
