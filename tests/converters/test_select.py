"""Test choosing and renaming features."""

from __future__ import annotations

from pathlib import Path

import pytest

from datafeed.converters.convert import ConvertOptions, convert
from datafeed.dataset import Dataset
from datafeed.errors import ConfigError


@pytest.fixture
def rows(tmp_path: Path) -> str:
    """Write a csv file."""
    (tmp_path / "t.csv").write_text(
        "id,name,score,hole\n" + "".join(f"{i},n{i},{i}.5,{'' if i else 1}\n" for i in range(9))
    )
    return str(tmp_path / "t.csv")


def test_columns_are_chosen_in_the_order_asked_and_renamed(rows: str, tmp_path: Path) -> None:
    """Values stay with their samples; the choice stands in the provenance."""
    options = ConvertOptions(columns=("score", "id"), rename={"score": "y"}, key="id")
    convert(rows, tmp_path / "out", options)
    dataset = Dataset(tmp_path / "out")
    assert [feature.name for feature in dataset.schema] == ["y", "id"]
    assert dataset[3:5]["y"].tolist() == [3.5, 4.5]
    assert dataset[3:5]["id"].tolist() == [3, 4]
    found = dataset.manifest.header.provenance["options"]
    assert isinstance(found, dict)
    assert {name: found[name] for name in ("columns", "rename", "key")} == {
        "columns": ["score", "id"],
        "rename": {"score": "y"},
        "key": "id",
    }


def test_two_names_may_be_exchanged(rows: str, tmp_path: Path) -> None:
    """All at once, not one after the other."""
    convert(rows, tmp_path / "out", ConvertOptions(rename={"id": "score", "score": "id"}))
    assert Dataset(tmp_path / "out")[2]["id"] == 2.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ConvertOptions(columns=("id", "gone")), "columns: no feature 'gone'; there are id, name"),
        (ConvertOptions(rename={"gone": "x"}), "rename: no feature 'gone'"),
        (ConvertOptions(rename={"id": "name"}), "two features would be named 'name'"),
        (ConvertOptions(rename={"id": ""}), "rename: expected a new name of 'id', found none"),
        (ConvertOptions(columns=("id", "id")), "two features would be named 'id'"),
        (ConvertOptions(key="gone"), "key: no feature 'gone'"),
        (ConvertOptions(key="score"), "key: 'score' must be one text or integer"),
        (ConvertOptions(key="hole"), "key: 'hole' must be .* that no sample lacks"),
        (ConvertOptions(key="name", columns=("id",)), "key: no feature 'name'; there are id"),
    ],
)
def test_what_cannot_be_is_refused_by_name(rows: str, tmp_path: Path, options: ConvertOptions, message: str) -> None:
    """With what there is."""
    with pytest.raises(ConfigError, match=message):
        convert(rows, tmp_path / "out", options)
