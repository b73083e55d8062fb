"""Test `datafeed map`, `datafeed sources` and what `convert` and they share."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner, Result

from datafeed.cli import main
from datafeed.converters.kinds import KINDS
from datafeed.dataset import Dataset


def run(*args: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, list(map(str, args)), prog_name="datafeed")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write csv files and a module of functions, and go there."""
    for part in range(3):
        lines = [f"{i},n{i}\n" for i in range(part * 100, part * 100 + 100)]
        (tmp_path / f"part-{part}.csv").write_text("x,name\n" + "".join(lines))
    (tmp_path / "mine.py").write_text(
        "def even(sample):\n    return sample if sample['x'] % 2 == 0 else None\n"
        "import os\ndef size(path):\n    return {'size': os.path.getsize(path)}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def test_several_sources_are_one_data_set(folder: Path) -> None:
    """Named one by one, by braces, by a function's inputs."""
    assert run("convert", "part-2.csv", "part-{0..1}.csv", "out").exit_code == 0
    assert Dataset(folder / "out")[0]["x"] == 200
    assert len(Dataset(folder / "out")) == 300
    assert run("convert", "part-*.csv", "sizes", "--fn", "mine:size").exit_code == 0
    assert len(Dataset(folder / "sizes")) == 3


def test_map_runs_a_function_over_samples(folder: Path) -> None:
    """And takes what shapes every dataset."""
    run("convert", "part-*.csv", "out")
    result = run("map", "out", "even", "--fn", "mine:even", "--rename", "x=number", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["records"] == 150
    assert Dataset(folder / "even")[1]["number"] == 2
    plan = run("map", "out", "next", "--columns", "name", "--dry-run", "--json")
    assert [feature["name"] for feature in json.loads(plan.stdout)["schema"]] == ["name"]


def test_merge_says_when_it_had_nothing_to_do(folder: Path) -> None:
    """As convert and export do."""
    run("convert", "part-0.csv", "a")
    run("convert", "part-1.csv", "b")
    first, again = run("merge", "a", "b", folder / "m"), run("merge", "a", "b", folder / "m")
    assert "200 in 2 shards" in first.output
    assert "complete before" not in first.output
    assert "complete before: nothing was done" in again.output


def test_each_part_of_a_split_is_reported(folder: Path) -> None:
    """By its place, and as JSON; so are the plans."""
    args = ("convert", "part-*.csv", "out", "--split", "val=0.2", "--seed", 3)
    assert [part in run(*args, "--dry-run").stdout for part in ("out/train, nothing", "out/val, nothing")] == [True] * 2
    result = run(*args)
    assert ["out/train" in result.stdout, "out/val" in result.stdout] == [True, True]
    again = json.loads(run(*args, "--json").stdout)
    assert again["records"] == 300
    assert again["parts"]["val"]["records"] == len(Dataset(folder / "out" / "val"))


def test_images_are_brought_to_a_size(folder: Path) -> None:
    """Of their shorter side."""
    (folder / "in" / "cat").mkdir(parents=True)
    (folder / "in" / "cat" / "a.png").write_bytes(cv2.imencode(".png", np.zeros((60, 80, 3), np.uint8))[1].tobytes())
    assert run("convert", "in", "out", "--resize", 30, "--quality", 80).exit_code == 0
    sample = Dataset(folder / "out")[0]
    assert (sample["width"], sample["height"]) == (40, 30)
    assert run("map", "out", "less", "--resize", 15).exit_code == 0
    assert Dataset(folder / "less")[0]["width"] == 20


def test_shuffle_takes_a_seed(folder: Path) -> None:
    """Of any source."""
    run("convert", "part-*.csv", "out", "--shuffle", 5)
    found = Dataset(folder / "out")[:]["x"].tolist()
    assert sorted(found) == list(range(300))
    assert found != sorted(found)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--fn", "mine:gone"), "cannot import 'mine:gone'"),
        (("--fn", "gone"), "expected module:function"),
        (("--columns", "x,y"), "columns: no feature 'y'; there are x, name"),
        (("--rename", "x"), "expected OLD=NEW"),
        (("--split", "0.1"), "expected NAME=SHARE"),
        (("--seq-len", "8"), "seq_len (--seq-len) has no effect on csv: leave it out; it is for text, litdata"),
        (("--labels", "x.csv"), "labels (--labels) has no effect on csv"),
        (("--int64-lists",), "int64_lists (--int64-lists) has no effect on csv"),
        (("--from", "jsonl", "--tokenizer", "t.json"), "tokenizer (--tokenizer) has no effect on jsonl"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, args: tuple[str, ...], message: str) -> None:
    """In a line, with exit code 2."""
    result = run("convert", "part-*.csv", folder / "out", *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_sources_lists_every_kind() -> None:
    """With what tells it, its options, and the extra that it needs."""
    text = run("sources").stdout
    facts = json.loads(run("sources", "--json").stdout)
    assert list(facts) == list(KINDS)
    for name, kind in KINDS.items():
        assert re.search(rf"^{name} +{re.escape(kind.what)}$", text, flags=re.MULTILINE)
        assert facts[name]["extra"] == kind.extra
    assert "needs datafeed-torch[hdf5]" in text
    assert "options --tokenizer, --seq-len" in text


def test_every_option_of_a_kind_is_one_of_convert() -> None:
    """And every kind's class can be imported."""
    help_text = run("convert", "--help").stdout
    for kind in KINDS.values():
        for option in kind.options:
            assert f"  {option}" in help_text, option
