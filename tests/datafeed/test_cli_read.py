"""Test the commands that look at a dataset."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import tiny
from click.testing import CliRunner, Result

from datafeed.cli import main
from datafeed.commands.terminal import safe
from datafeed.commands.values import show, to_json


def run(*args: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(args), prog_name="datafeed")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Write a dataset of 2 shards of 3 blocks of 4 records."""
    tiny.write_dataset(str(tmp_path / "tiny"))
    return str(tmp_path / "tiny")


def test_info_says_what_a_dataset_holds(url: str) -> None:
    """Counts, sizes, schema and origin are all there."""
    shown = run("info", url).stdout
    for part in (
        f"dataset  {url}\n",
        "records  24\n",
        "shards   2, ",
        "blocks   6 of",
        "zstd level 3",
        "x     int64  int64",
    ):
        assert part in shown
    assert "source  tiny" in shown


def test_info_prints_one_json_document(url: str) -> None:
    """Programs get every fact."""
    facts = json.loads(run("info", url, "--json").stdout)
    assert (facts["records"], facts["shards"], facts["blocks"], facts["codec"]) == (24, 2, 6, "zstd")
    assert [feature["name"] for feature in facts["schema"]] == ["x", "name"]


def test_info_of_a_raw_folder_says_what_to_do(tmp_path: Path) -> None:
    """Somebody who mistakes raw data for a dataset is told the next step."""
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    result = run("info", str(tmp_path))
    advice = f"raw data, it seems ('a.jpg'): run `datafeed convert {tmp_path} DEST`"
    assert (result.exit_code, result.stderr) == (3, f"error: no dataset at {tmp_path}: {advice}\n")


def test_info_of_an_unknown_protocol_is_a_usage_error() -> None:
    """The URL is at fault, and shown."""
    result = run("info", "gopher://x/y")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: no file system for 'gopher://x/y'")


def test_storage_options_are_refused_for_a_local_path(url: str) -> None:
    """An option without effect is an error, as is one without a value."""
    result = run("info", url, "--storage-option", "anon=true")
    assert result.exit_code == 2
    assert "storage_options ['anon'] have no effect on the local path" in result.stderr
    for typed in ("s3cret", "=s3cret"):  # the key forgotten
        result = run("info", url, "--storage-option", typed)
        assert result.exit_code == 2
        assert "expected KEY=VALUE, found no" in result.stderr
        assert "s3cret" not in result.output


def test_head_shows_samples_as_lines(url: str) -> None:
    """A person sees values, not dumps."""
    shown = run("head", url, "-n", "2").stdout
    assert shown == 'sample 0\n  x     0\n  name  "sample 0"\nsample 1\n  x     1\n  name  "sample 1"\n'


def test_head_stops_at_the_end(url: str) -> None:
    """More than there is, is all there is."""
    assert run("head", url, "-n", "99").stdout.count("sample ") == 48


def test_f56_control_characters_are_escaped_on_the_terminal(tmp_path: Path) -> None:
    """A name or value from a stranger's data cannot move the cursor, ring, or turn the text round."""
    url = tiny.odd_dataset(tmp_path)
    for command in ("head", "info"):
        shown = run(command, url).stdout
        assert all(char.isprintable() or char == "\n" for char in shown)
        assert "a\\x1b[31m" in shown
    assert '"red\\x1b]0;title\\x07 \\u202e"' in run("head", url).stdout
    assert "1 (dog\\n)" in run("head", url).stdout
    assert "odd\\x07" in run("info", url).stdout


def test_head_shortens_bytes_and_names_what_is_missing(tmp_path: Path) -> None:
    """A picture is a line, and nothing is not an empty string."""
    shown = run("head", tiny.odd_dataset(tmp_path)).stdout
    assert "blob" in shown
    assert "40 bytes 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f... (image/png)" in shown
    assert "float32[3] [1.5, nan, -inf]" in shown
    assert '["one", "zwölf"]' in shown
    assert "missing" in shown


def test_head_json_is_whole_and_valid(tmp_path: Path) -> None:
    """Bytes are base64, NaN is a string, missing is null."""
    (sample,) = json.loads(run("head", tiny.odd_dataset(tmp_path), "--json").stdout)
    assert base64.b64decode(sample["blob"]) == bytes(range(40))
    assert sample["x"] == [1.5, "NaN", "-Infinity"]
    assert sample["tags"] == ["one", "zwölf"]
    assert sample["gone"] is None


def test_cat_writes_the_tfrecords_that_were_framed(url: str) -> None:
    """The stream is the records, byte for byte; a part of it is its beginning."""
    whole = tiny.framed([tiny.record(number) for number in range(24)])
    assert run("cat", url).stdout_bytes == whole
    assert run("cat", url, "-n", "6").stdout_bytes == tiny.framed([tiny.record(number) for number in range(6)])


def test_cat_writes_json_lines(url: str) -> None:
    """One object a line, in the order of the records."""
    lines = run("cat", url, "--format", "jsonl", "-n", "3").stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"x": number, "name": f"sample {number}"} for number in range(3)]


def test_verify_says_that_a_dataset_is_whole(url: str) -> None:
    """What was read is counted."""
    result = run("verify", url)
    assert result.exit_code == 0
    assert result.stdout.startswith("whole: 24 records in 6 blocks of 2 shards, ")


def test_verify_names_damage_and_exits_5(url: str) -> None:
    """Each problem is a line with its place."""
    path = Path(url, "shard-000001.tfrecord.zst")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    result = run("verify", url)
    assert result.exit_code == 5
    assert "CorruptFrame: shard-000001.tfrecord.zst, block 0, byte 0: " in result.stdout
    facts = json.loads(run("verify", url, "--json").stdout)
    assert not facts["ok"]
    assert {problem["kind"] for problem in facts["problems"]} == {"CorruptFrame"}


def test_cat_of_damage_exits_5(url: str) -> None:
    """No unverified byte is written as if it were good."""
    path = Path(url, "shard-000000.tfrecord.zst")
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    result = run("cat", url)
    assert (result.exit_code, result.stdout_bytes) == (5, b"")
    assert result.stderr.startswith(f"error: {url}/shard-000000.tfrecord.zst, block 0, ")
    assert f"`datafeed verify {url}`" in result.stderr


def test_safe_escapes_what_is_not_printable() -> None:
    """Names of files that are no UTF-8 arrive as surrogates, and show as the bytes that they are."""
    assert safe("plain ünïcode 名 🙂") == "plain ünïcode 名 🙂"
    assert safe(b"a\xff\n\t".decode("utf-8", "surrogateescape")) == "a\\xff\\n\\t"
    assert safe("\x7f\x85\ud800") == "\\x7f\\x85\\ud800"


def test_show_shortens_long_values() -> None:
    """A line stays a line."""
    assert show("x" * 100) == f'"{"x" * 60}"... (100 characters)'
    assert show(np.arange(20)) == "int64[20] [0, 1, 2, 3, 4, 5, 6, 7, ...]"
    assert show(b"") == "0 bytes"
    assert show(None) == "missing"


def test_to_json_keeps_what_json_can_hold() -> None:
    """Numbers stay numbers, whatever their width."""
    assert to_json({"a": np.uint64(2**64 - 1), "b": np.array([[True]]), "c": (1, None)}) == {
        "a": 2**64 - 1,
        "b": [[True]],
        "c": [1, None],
    }
