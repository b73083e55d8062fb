"""Test reading images with a table of labels."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import fsspec
import pytest
from pictures import encoded
from source_contract import Row, SourceContract, rows_of

from datafeed.converters.image_folder import ImageFolder
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, EmptySource, SourceError


def images(folder: Path, *names: str) -> Path:
    """Write images of one size; return their folder."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(encoded())
    return folder


def source(folder: Path | str, labels: Path | str, **asked: object) -> ImageFolder:
    """Open a folder with its label file, in its own order."""
    return ImageFolder(str(folder), SourceOptions(shuffle=False, labels=str(labels), **asked))  # type: ignore[arg-type]  # some of its fields


def read(found: ImageFolder) -> tuple[list[Row], list[str]]:
    """Read all samples, without what every image has, and the bad items."""
    bad: list[BadItem] = []
    features = found.schema().features
    chunks = [chunk for unit in found.units() for chunk in found.read(unit, bad.append)]
    rows = [row for chunk in chunks for row in rows_of(features, chunk)]
    for row in rows:
        assert (row.pop("width"), row.pop("height"), row.pop("image")) == (7, 5, encoded())
    return rows, [str(item) for item in bad]


class TestLabels(SourceContract):
    """Hold a folder with a csv of labels to what every source promises."""

    def open(self, path: Path) -> ImageFolder:
        """Name the label file in the folder."""
        return source(path, path / "labels.csv")

    def write(self, folder: Path) -> list[Row]:
        """Write images at two depths, one of them without a row, and a table in another order."""
        (folder / "a").mkdir()
        images(folder, "a/1.jpg", "2.jpg", "3.jpg", "4.jpg")
        (folder / "labels.csv").write_text("score,filename,class\n1.5,2.jpg,b\n,a/1.jpg,a\n2,3.jpg,b\n")
        both = {"image": encoded(), "width": 7, "height": 5}
        self.rows = [
            {**both, "path": "2.jpg", "score": 1.5, "class": 1},
            {**both, "path": "3.jpg", "score": 2.0, "class": 1},
            {**both, "path": "a/1.jpg", "score": None, "class": 0},
        ]
        return [_ordered(row) for row in self.rows]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Name an image that is not there."""
        with (folder / "labels.csv").open("a") as table:
            table.write("3,gone.jpg,a\n")
        return "labels.csv:5", "names no image: 'gone.jpg'", [_ordered(row) for row in self.rows]


def _ordered(row: Row) -> Row:
    return {name: row[name] for name in ("image", "path", "width", "height", "score", "class")}


def test_images_without_a_row_are_left_out_and_noted(tmp_path: Path) -> None:
    """With how many there are, and the first of them."""
    images(tmp_path, *(f"{number}.jpg" for number in range(9)))
    (tmp_path / "x.csv").write_text("file,y\n0.jpg,1\ngone,2\n")
    found = source(tmp_path, tmp_path / "x.csv")
    rows, bad = read(found)
    assert rows == [{"path": "0.jpg", "y": 1}]
    assert bad == [f"{tmp_path}/x.csv:3: names no image: 'gone'"]
    left, lost = found.notes()[-2:]
    assert left == (
        f"8 images left out that {tmp_path}/x.csv does not name: 1.jpg, 2.jpg, 3.jpg, 4.jpg, 5.jpg and 3 more"
    )
    assert lost == f"1 row of {tmp_path}/x.csv left out, as bad items tell"


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("labels.csv", "imgs/a/1.jpg"),
        ("labels.csv", "imgs/a/1"),
        ("labels.csv", "a/1.jpg"),
        ("labels.csv", "./a//1.jpg"),
        ("meta/labels.csv", "../imgs/a/1.jpg"),
        ("imgs/a/labels.csv", "1.jpg"),
        ("imgs/a/labels.csv", "1"),
    ],
)
def test_names_are_relative_to_the_folder_or_to_the_label_file(tmp_path: Path, place: str, name: str) -> None:
    """With or without a suffix; behind a URL, too."""
    images(tmp_path / "imgs", "a/1.jpg", "a/2.jpg")
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text(f"image_name,y\n{name},5\n")
    for root in (str(tmp_path), _copied(tmp_path)):
        rows, bad = read(source(f"{root}/imgs", f"{root}/{place}"))
        assert (rows, bad) == ([{"path": "a/1.jpg", "y": 5}], [])


def _copied(folder: Path) -> str:
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    for path in folder.rglob("*.*"):
        fs.pipe(f"/copy/{path.relative_to(folder)}", path.read_bytes())
    return "memory://copy"


def test_the_naming_column_is_the_one_whose_values_are_files(tmp_path: Path) -> None:
    """One with a usual name before others, text before integers: a label is no file's name by chance."""
    images(tmp_path, "1.jpg", "2.jpg")
    table = tmp_path / "t.tsv"
    table.write_text("file\tid\tthumb\nnone\t1\tx\nnone\t2\ty\n")
    assert read(source(tmp_path, table))[0] == [
        {"path": "1.jpg", "file": "none", "thumb": "x"},
        {"path": "2.jpg", "file": "none", "thumb": "y"},
    ]
    table.write_text("label\tpicture\n1\t2.jpg\n2\tgone.jpg\n")
    assert read(source(tmp_path, table))[0] == [{"path": "2.jpg", "label": 1}]
    table.write_text("id\tfile_name\ttext\n1\t2.jpg\t1.jpg\n2\tgone.jpg\t2.jpg\n")
    assert read(source(tmp_path, table))[0] == [{"path": "2.jpg", "id": 1, "text": "1.jpg"}]


def test_lines_of_json_keep_their_types(tmp_path: Path) -> None:
    """Lists are ragged, missing values missing, packed files unpacked; also where the name ends in .json."""
    images(tmp_path, "1.jpg", "2.jpg")
    lines = [{"image": "2.jpg", "tags": ["x", "y"], "at": [1, 2, 3]}, {"image": "1.jpg", "tags": [], "s": "é"}]
    data = "\n".join(map(json.dumps, lines)).encode()
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(data))
    (tmp_path / "a.json").write_bytes(data)
    for name in ("a.jsonl.gz", "a.json"):
        assert read(source(tmp_path, tmp_path / name)) == (
            [
                {"path": "1.jpg", "tags": [], "at": None, "s": "é"},
                {"path": "2.jpg", "tags": ["x", "y"], "at": [1, 2, 3], "s": None},
            ],
            [],
        )


def test_a_text_label_becomes_numbers_with_classes(tmp_path: Path) -> None:
    """Of the columns label and class; an empty one is missing; others stay text, integers stay as they are."""
    images(tmp_path / "cat", "1.jpg", "2.jpg", "3.jpg")
    (tmp_path / "t.csv").write_text("name,label,category\ncat/1.jpg,tiger,x\ncat/2.jpg,lion,y\ncat/3.jpg,,x\n")
    found = source(tmp_path, tmp_path / "t.csv")
    assert found.schema()["label"].classes == ("lion", "tiger")
    assert [(row["label"], row["category"]) for row in read(found)[0]] == [(1, "x"), (0, "y"), (None, "x")]
    (tmp_path / "t.csv").write_text("name,label\ncat/1.jpg,7\n")
    found = source(tmp_path, tmp_path / "t.csv")
    assert found.schema()["label"].classes == ()
    assert read(found)[0] == [{"path": "cat/1.jpg", "label": 7}]


def test_columns_that_an_image_has_itself_are_left_out_and_noted(tmp_path: Path) -> None:
    """What is stored is the image's own size, not what the table says of it."""
    images(tmp_path, "1.jpg")
    (tmp_path / "t.csv").write_text("image,width,height,y\n1.jpg,999,999,3\n")
    found = source(tmp_path, tmp_path / "t.csv")
    assert read(found)[0] == [{"path": "1.jpg", "y": 3}]
    assert any("as each image has its own: width, height" in note for note in found.notes())


def test_rows_that_cannot_be_kept_are_bad_items(tmp_path: Path) -> None:
    """Two of one image, a name that means two, a line that cannot be parsed; reported once, before any image."""
    images(tmp_path, "1.jpg", "2.jpg", "2.png")
    (tmp_path / "t.csv").write_text("file,y\n1.jpg,1\n1,2\n2,3\nx\n")
    rows, bad = read(source(tmp_path, tmp_path / "t.csv"))
    assert rows == [{"path": "1.jpg", "y": 1}]
    assert [item.partition("t.csv:")[2] for item in bad] == [
        "5: expected 2 cells as in the header, found 1",
        f"3: names '1', as {tmp_path}/t.csv:2 does: expected one row an image",
        "4: names several images: '2', which lacks a suffix",
    ]


def test_a_table_that_names_no_image_is_refused(tmp_path: Path) -> None:
    """The error shows what its columns hold."""
    images(tmp_path, "1.jpg")
    (tmp_path / "t.csv").write_text("file,y\ngone.jpg,5\n")
    with pytest.raises(SourceError, match=r"column of file names, .* found file \('gone.jpg'\), y \('5'\)"):
        source(tmp_path, tmp_path / "t.csv").schema()
    (tmp_path / "t.csv").write_text("file,y\n")
    with pytest.raises(EmptySource, match="no file has a row"):
        source(tmp_path, tmp_path / "t.csv").schema()
    with pytest.raises(SourceError, match=r"cannot look at .*none\.csv"):
        source(tmp_path, tmp_path / "none.csv").units()


def test_other_labels_are_another_conversion(tmp_path: Path) -> None:
    """The provenance tells a label file that changed, though no file's size did."""
    images(tmp_path, "1.jpg")
    options = []
    for label in (1, 2):
        (tmp_path / "t.csv").write_text(f"file,y\n1.jpg,{label}\n")
        options.append(source(tmp_path, tmp_path / "t.csv").options())
    assert options[0] != options[1]
    assert options[0]["shuffle"] is False
