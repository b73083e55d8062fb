"""Test reading images with COCO's annotations."""

from __future__ import annotations

import copy
import gzip
import io
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pictures import encoded
from source_contract import Row, SourceContract, rows_of

from datafeed.converters.coco import read_coco
from datafeed.converters.image_folder import ImageFolder
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Stamp
from datafeed.errors import BadItem, SourceError

INSTANCES: dict[str, Any] = {
    "info": {"year": 2017},
    "annotations": [
        {"id": 7, "image_id": 42, "bbox": [1, 2, 3.5, 4], "area": 14, "category_id": 90, "iscrowd": 0},
        {"id": 8, "image_id": 9, "bbox": [0, 0, 1, 1], "area": 0.5, "category_id": 3, "iscrowd": 1},
        {"id": 9, "image_id": 42, "bbox": [5, 6, 7, 8], "area": 56, "category_id": 3, "iscrowd": 0},
    ],
    "images": [
        {"id": 42, "file_name": "b.jpg", "width": 999, "license": 1},
        {"id": 9, "file_name": "a.jpg"},
        {"id": 1, "file_name": "c.jpg"},
    ],
    "categories": [{"id": 90, "name": "toothbrush"}, {"id": 3, "name": "car", "supercategory": "vehicle"}],
}


def source(folder: Path, labels: str = "coco.json") -> ImageFolder:
    """Open a folder with its annotations, in the order of the names."""
    return ImageFolder(str(folder), SourceOptions(shuffle=False, labels=str(folder / labels)))


def write(folder: Path, found: dict[str, Any]) -> ImageFolder:
    """Write three images and annotations."""
    for name in "abc":
        (folder / f"{name}.jpg").write_bytes(encoded())
    (folder / "coco.json").write_text(json.dumps(found))
    return source(folder)


def changed(**lists: list[tuple[int, dict[str, Any] | None]]) -> dict[str, Any]:
    """Return the annotations with fields of some items changed; None takes an item's place, a field of None leaves."""
    found = copy.deepcopy(INSTANCES)
    for name, changes in lists.items():
        for number, fields in changes:
            item = {**found[name][number], **fields} if fields is not None else None
            found[name][number] = item and {key: value for key, value in item.items() if value is not None}
    return found


def read(found: ImageFolder) -> tuple[list[Row], list[str]]:
    """Read what annotations say of all samples, and the bad items."""
    bad: list[BadItem] = []
    features = found.schema().features
    chunks = [chunk for unit in found.units() for chunk in found.read(unit, bad.append)]
    rows = [row for chunk in chunks for row in rows_of(features, chunk)]
    own = ("image", "path", "width", "height")
    return [{name: row[name] for name in row if name not in own} for row in rows], [str(item) for item in bad]


ROWS: list[Row] = [
    {"image_id": 9, "boxes": [[0, 0, 1, 1]], "areas": [0.5], "categories": [0], "iscrowd": [1]},
    {
        "image_id": 42,
        "boxes": [[1, 2, 3.5, 4], [5, 6, 7, 8]],
        "areas": [14, 56],
        "categories": [1, 0],
        "iscrowd": [0, 0],
    },
    {"image_id": 1, "boxes": [], "areas": [], "categories": [], "iscrowd": []},
]


class TestCoco(SourceContract):
    """Hold a folder with boxes to what every source promises."""

    def open(self, path: Path) -> ImageFolder:
        """Name the annotations in the folder."""
        return source(path)

    def write(self, folder: Path) -> list[Row]:
        """Write three images, one without boxes."""
        write(folder, INSTANCES)
        return _rows("abc", ROWS)

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Let a box belong to no image."""
        write(folder, changed(annotations=[(1, {"image_id": 5})]))
        left = {"image_id": 9, "boxes": [], "areas": [], "categories": [], "iscrowd": []}
        return r"coco.json: annotations[1]", "no image has the id 5", _rows("abc", [left, *ROWS[1:]])


def _rows(names: str, told: list[Row]) -> list[Row]:
    floats = [
        {**row, "boxes": [list(map(float, box)) for box in row["boxes"]], "areas": list(map(float, row["areas"]))}  # type: ignore[attr-defined, call-overload]  # lists of the rows above
        for row in told
    ]
    return [
        {"image": encoded(), "path": f"{name}.jpg", "width": 7, "height": 5, **row}
        for name, row in zip(names, floats, strict=True)
    ]


def test_categories_are_numbered_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """The classes are their names; the image's own size is kept."""
    schema = write(tmp_path, INSTANCES).schema()
    assert schema["categories"].classes == ("car", "toothbrush")
    assert (schema["boxes"].dtype, schema["boxes"].shape) == ("float32", (None, 4))
    assert schema["iscrowd"].dtype == "uint8"


def test_segmentations_are_kept_as_text(tmp_path: Path) -> None:
    """One JSON list an image, with null for a box without one; areas and crowds are left out where none has them."""
    polygons, packed = [[1.25, 2, 3, 4, 5, 6]], {"counts": "ab\\é", "size": [5, 7]}
    bare: dict[str, Any] = {"area": None, "iscrowd": None}
    found = changed(
        annotations=[(0, {**bare, "segmentation": polygons}), (1, {**bare, "segmentation": packed}), (2, bare)]
    )
    annotated = write(tmp_path, found)
    assert list(annotated.schema())[-1].media == "json"
    rows, bad = read(annotated)
    assert not bad
    assert [json.loads(str(row["segmentations"])) for row in rows] == [[packed], [polygons, None], []]
    assert set(rows[0]) == {"image_id", "boxes", "categories", "segmentations"}


def test_captions_are_lists_of_text(tmp_path: Path) -> None:
    """In the order of the file; packed files are unpacked."""
    captions = [
        {"id": 1, "image_id": 9, "caption": "ein Weg"},
        {"id": 2, "image_id": 42, "caption": "é"},
        {"id": 3, "image_id": 9, "caption": ""},
    ]
    write(tmp_path, INSTANCES)
    data = json.dumps({"images": INSTANCES["images"], "annotations": captions}, indent=1).encode()
    (tmp_path / "captions.json.gz").write_bytes(gzip.compress(data))
    rows, bad = read(source(tmp_path, "captions.json.gz"))
    assert rows == [
        {"image_id": 9, "captions": ["ein Weg", ""]},
        {"image_id": 42, "captions": ["é"]},
        {"image_id": 1, "captions": []},
    ]
    assert not bad


@pytest.mark.parametrize(
    ("found", "where", "reason"),
    [
        (changed(annotations=[(1, {"image_id": None})]), "annotations[1]", "expected an integer 'image_id', found {"),
        (changed(annotations=[(1, {"category_id": 4})]), "annotations[1]", "no category has the id 4"),
        (changed(annotations=[(1, {"category_id": True})]), "annotations[1]", "expected an integer 'category_id'"),
        (changed(annotations=[(1, {"bbox": [1, 2, 3]})]), "annotations[1]", "expected a 'bbox' of 4 numbers"),
        (changed(annotations=[(1, {"bbox": [1, 2, 3, 1e39]})]), "annotations[1]", "expected a 'bbox' of 4 numbers"),
        (changed(annotations=[(1, {"bbox": [1, 2, 3, 10**400]})]), "annotations[1]", "expected a 'bbox' of 4 numbers"),
        (changed(annotations=[(1, {"area": "1"})]), "annotations[1]", "expected a number as 'area'"),
        (changed(annotations=[(1, {"iscrowd": 2})]), "annotations[1]", "expected 0 or 1 as 'iscrowd'"),
        (changed(annotations=[(1, {"iscrowd": [1]})]), "annotations[1]", "expected 0 or 1 as 'iscrowd'"),
        (changed(annotations=[(1, {"caption": 1})]), "annotations[1]", "expected a 'caption' of text"),
        (changed(annotations=[(1, None)]), "annotations[1]", "found null"),
        (changed(images=[(2, {"file_name": "gone.jpg"})]), "images[2]", "names no image: 'gone.jpg'"),
        (changed(images=[(2, {"file_name": "a.jpg"})]), "images[2]", "names 'a.jpg', as"),
        (changed(images=[(2, {"id": "1"})]), "images[2]", "expected an integer 'id' and a 'file_name', found"),
    ],
)
def test_an_item_that_cannot_be_used_is_a_bad_item(
    tmp_path: Path, found: dict[str, Any], where: str, reason: str
) -> None:
    """With its place in the file; the rest is kept."""
    rows, bad = read(write(tmp_path, found))
    assert len(bad) == 1
    assert bad[0].startswith(f"{tmp_path}/coco.json: {where}: ")
    assert reason in bad[0]
    assert len(rows) == (2 if where == "images[2]" else 3)
    assert rows[1] == ROWS[1]
    assert rows[0] == ({**ROWS[2], "image_id": 9} if where == "annotations[1]" else ROWS[0])


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (changed(images=[(2, {"id": 9})]), "two images have the id 9"),
        (changed(annotations=[(2, {"id": 7})]), "two annotations have the id 7"),
        (changed(categories=[(1, {"id": 90})]), r"categories\[1\]: the id 90 stands there twice"),
        (changed(categories=[(1, {"name": None})]), r"categories\[1\]: expected an integer 'id' and a 'name', found"),
        (
            changed(annotations=[(2, {"area": None})]),
            r"annotations\[2\]: expected 'area', which other annotations have",
        ),
        ({**INSTANCES, "annotations": []}, "expected a list 'annotations' with items, found none"),
        ({"annotations": INSTANCES["annotations"], "images": {}}, "expected a list 'images' with items, found none"),
    ],
)
def test_annotations_that_contradict_themselves_are_refused(tmp_path: Path, found: dict[str, Any], reason: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(SourceError, match=reason):
        write(tmp_path, found).schema()


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    """With the place where it ends; also where the packing ends first."""
    write(tmp_path, INSTANCES)
    data = json.dumps(INSTANCES).encode()
    (tmp_path / "cut.json").write_bytes(data[:-40])
    with pytest.raises(SourceError, match=r"cut\.json is no COCO file: character \d+"):
        source(tmp_path, "cut.json").schema()
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(SourceError, match=r"cut\.json\.gz cannot be read: .*ended"):
        source(tmp_path, "cut.json.gz").schema()


def test_what_is_left_out_is_noted(tmp_path: Path) -> None:
    """Such as keypoints."""
    found = write(tmp_path, changed(annotations=[(0, {"keypoints": [1, 2, 2], "num_keypoints": 1})]))
    assert any("left out of its annotations: keypoints, num_keypoints" in note for note in found.notes())


def test_a_unit_carries_the_annotations_of_its_own_images(tmp_path: Path) -> None:
    """As arrays, and no others."""
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(2000)]
    boxes = [{"image_id": n, "bbox": [n, 1, 2, 3], "category_id": 1} for n in range(2000) for _ in range(20)]
    found = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "x"}]}
    told = read_coco(Stamp("x.json", 0, 0), "", io.BytesIO(json.dumps(found).encode()))
    assert told.columns["boxes"].values.shape == (40_000, 4)
    for number in range(3):
        (tmp_path / f"{number}.jpg").write_bytes(encoded() + bytes(5_000_000))
    (tmp_path / "coco.json").write_text(json.dumps({**found, "images": images[:3], "annotations": boxes[:60]}))
    units = source(tmp_path).units()
    assert len(units) == 3
    assert len(pickle.dumps(units[1])) < 2500
