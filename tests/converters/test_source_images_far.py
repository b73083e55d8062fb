"""Test reading images from several places, and behind URLs."""

from __future__ import annotations

import zipfile
from pathlib import Path

import fsspec
from pictures import encoded
from source_contract import Row, rows_of

from datafeed.converters.image_folder import ImageFolder
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Where
from datafeed.errors import BadItem

TREE = {f"{label}/{number}.jpg": encoded(seed=number) for label in ("ant", "bee") for number in range(5)}


def in_memory(files: dict[str, bytes]) -> str:
    """Write files to memory; return their folder's URL."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pipe({f"/photos/{name}": data for name, data in files.items()})
    return "memory://photos"


def read(path: Where, **asked: object) -> tuple[list[Row], list[str]]:
    """Read all of a source, with where its samples come from, and its bad items."""
    source = ImageFolder(path, SourceOptions(**asked))  # type: ignore[arg-type]  # some of its fields
    bad: list[BadItem] = []
    features = source.schema().features
    rows: list[Row] = []
    for unit in source.units():
        for chunk in source.read(unit, bad.append):
            rows += [{**row, "where": chunk.where(i)} for i, row in enumerate(rows_of(features, chunk))]
    return rows, [f"{item.where}: {item.reason}" for item in bad]


def test_images_are_the_same_wherever_they_lie(tmp_path: Path) -> None:
    """In a folder, in memory, in an archive: the same samples in the same shuffled order."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for name, data in TREE.items():
            (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "photos" / name).write_bytes(data)
            archive.writestr(name, data)
    local, bad = read(str(tmp_path / "photos"), seed=3)
    assert not bad
    assert [row["path"] for row in local] != sorted(TREE)
    assert {str(row["path"]): row["image"] for row in local} == TREE
    assert [row["label"] for row in local] == [int(str(row["path"]).startswith("bee")) for row in local]
    first = local[0]["path"]
    archive_url = f"zip://::{tmp_path}/x.zip"
    for url, where in (
        (in_memory(TREE), f"memory://photos/{first}"),
        (archive_url, f"zip://{first}::{tmp_path}/x.zip"),
    ):
        there, bad = read(url, seed=3)
        assert not bad
        assert there[0]["where"] == where
        assert [{**row, "where": ""} for row in there] == [{**row, "where": ""} for row in local]


def test_images_of_several_places_make_one_source(tmp_path: Path) -> None:
    """A folder and a URL; their classes are united, and one unit reads from both."""
    for name in ("bee/x.jpg", "cat/y.jpg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(encoded())
    rows, bad = read((str(tmp_path), in_memory(TREE)), shuffle=False)
    assert not bad
    paths = [row["path"] for row in rows]
    assert paths == sorted([*TREE, "bee/x.jpg", "cat/y.jpg"])
    assert [row["label"] for row in rows] == [0] * 5 + [1] * 6 + [2]


def test_a_damaged_file_behind_a_url_is_a_bad_item() -> None:
    """So is one that is gone when it is read."""
    url = in_memory({**TREE, "bee/bad.jpg": b"no image"})
    source = ImageFolder(url, SourceOptions(shuffle=False))
    (unit,) = source.units()
    fsspec.filesystem("memory").rm("/photos/ant/0.jpg")
    bad: list[BadItem] = []
    (chunk,) = source.read(unit, bad.append)
    assert chunk.rows == 9
    assert [item.where for item in bad] == [f"{url}/ant/0.jpg", f"{url}/bee/bad.jpg"]
    assert "cannot be read" in bad[0].reason
