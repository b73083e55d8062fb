"""Test splitting a source into parts."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from datafeed.converters.convert import ConvertOptions, convert, plan, plans
from datafeed.converters.split import parse_split
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError, EmptySource, SourceError


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """Write two csv files of 1,500 rows."""
    for part in range(2):
        lines = [f"{i},{'val' if i % 5 == 0 else 'train'},{i % 3}\n" for i in range(part * 1500, part * 1500 + 1500)]
        (tmp_path / f"{part}.csv").write_text("id,use,fold\n" + "".join(lines))
    return str(tmp_path / "*.csv")


def ids(path: Path) -> list[int]:
    """Return the ids of a dataset."""
    return list(Dataset(path)[:]["id"].tolist())


def test_shares_are_drawn_by_the_seed(rows: str, tmp_path: Path) -> None:
    """Each sample is in one part, in the source's order; the parts are about as large as asked."""
    report = convert(rows, tmp_path / "a", ConvertOptions(split="val=0.1,test=0.2", seed=4))
    found = {part: ids(tmp_path / "a" / part) for part in ("train", "val", "test")}
    assert sorted(itertools.chain.from_iterable(found.values())) == list(range(3000))
    assert all(part == sorted(part) for part in found.values())
    assert (len(found["val"]), len(found["test"])) == (pytest.approx(300, abs=60), pytest.approx(600, abs=90))
    assert {part: one.records for part, one in report.parts.items()} == {part: len(of) for part, of in found.items()}
    assert report.records == 3000
    convert(rows, tmp_path / "b", ConvertOptions(split="val=0.1,test=0.2", seed=5))
    assert ids(tmp_path / "b" / "val") != found["val"]


def test_a_column_names_the_parts(rows: str, tmp_path: Path) -> None:
    """Text or integers, one dataset for each value."""
    convert(rows, tmp_path / "use", ConvertOptions(split="column:use"))
    assert ids(tmp_path / "use" / "val") == list(range(0, 3000, 5))
    convert(rows, tmp_path / "fold", ConvertOptions(split="column:fold", columns=("id", "fold")))
    assert [ids(tmp_path / "fold" / str(fold))[:2] for fold in range(3)] == [[0, 3], [1, 4], [2, 5]]


def test_folders_are_the_parts(tmp_path: Path) -> None:
    """Each is a source of its own."""
    for part, count in (("train", 3), ("val", 2)):
        (tmp_path / "in" / part).mkdir(parents=True)
        (tmp_path / "in" / part / "a.jsonl").write_text('{"id": 1}\n' * count)
    report = convert(tmp_path / "in", tmp_path / "out", ConvertOptions(split="folder"))
    assert {part: one.records for part, one in report.parts.items()} == {"train": 3, "val": 2}
    with pytest.raises(SourceError, match="no folder in"):
        convert(tmp_path / "in" / "val", tmp_path / "x", ConvertOptions(split="folder"))


def test_a_rerun_leaves_complete_parts_and_makes_the_rest(rows: str, tmp_path: Path) -> None:
    """Each part is a dataset that is committed by itself."""
    options = ConvertOptions(split="val=0.5")
    convert(rows, tmp_path / "out", options)
    before = ids(tmp_path / "out" / "val")
    for file in (tmp_path / "out" / "val").iterdir():
        file.unlink()
    report = convert(rows, tmp_path / "out", options)
    assert (report.parts["train"].ran_on, report.parts["val"].ran_on) == ("nothing", "inline")
    assert ids(tmp_path / "out" / "val") == before


def test_there_is_a_plan_for_each_part(rows: str, tmp_path: Path) -> None:
    """Its size is the part's share; `plan` is for what is not split."""
    found = plans(rows, tmp_path / "out", ConvertOptions(split="val=0.1"))
    assert list(found) == ["train", "val"]
    whole = plan(rows, tmp_path / "out")
    assert found["val"].records == pytest.approx(whole.records / 10, rel=0.3)
    with pytest.raises(ConfigError, match="a plan for each of train, val"):
        plan(rows, tmp_path / "out", ConvertOptions(split="val=0.1"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("val", "expected NAME=SHARE"),
        ("val=x", "expected a share above 0"),
        ("val=0", "expected a share above 0"),
        ("val=nan", "expected a share above 0"),
        ("val=1.5", "expected a share above 0"),
        ("a=0.7,b=0.7", "adds up to 1.4"),
        ("train=0.5,val=0.1", "adds up to 0.6"),
        ("../up=0.5", "expected NAME=SHARE"),
        ("a=0.1,a=0.2", "expected NAME=SHARE"),
        ("column:", "expected NAME=SHARE"),
    ],
)
def test_what_is_no_split_is_refused(text: str, message: str) -> None:
    """When the options are made."""
    with pytest.raises(ConfigError, match=message):
        ConvertOptions(split=text)


def test_shares_that_add_up_leave_no_rest() -> None:
    """In spite of binary fractions."""
    assert parse_split("a=0.1,b=0.2,c=0.7") == {"a": 0.1, "b": 0.2, "c": 0.7}
    assert parse_split("val=0.25") == {"train": 0.75, "val": 0.25}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"p": "a"}\n{"x": 1}\n', r":2 has no 'p'"),
        ('{"p": "../a"}\n', "is no name of a folder"),
        ("".join(f'{{"p": {i}}}\n' for i in range(200)), "more than 100 values"),
    ],
)
def test_a_column_that_names_no_parts_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    """With what is wrong."""
    (tmp_path / "t.jsonl").write_text(lines)
    with pytest.raises(SourceError, match=message):
        convert(tmp_path / "t.jsonl", tmp_path / "out", ConvertOptions(split="column:p"))
    with pytest.raises(ConfigError, match="no feature 'q'"):
        convert(tmp_path / "t.jsonl", tmp_path / "out", ConvertOptions(split="column:q"))


def test_a_part_without_a_sample_is_named_when_the_others_are_made(tmp_path: Path) -> None:
    """A rerun says the same, and leaves them as they are."""
    (tmp_path / "few.jsonl").write_text('{"id": 1}\n' * 30)
    options = ConvertOptions(split="a=0.000001,b=0.5")
    for _ in range(2):
        with pytest.raises(
            EmptySource, match=r"no sample came to a, train, b are complete; .*few.jsonl holds no sample$"
        ):
            convert(tmp_path / "few.jsonl", tmp_path / "out", options)
    assert len(ids(tmp_path / "out" / "train")) + len(ids(tmp_path / "out" / "b")) == 30
