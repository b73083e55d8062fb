"""Test reading a folder of images."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pictures import encoded
from source_contract import Row, SourceContract, rows_of

from datafeed.converters.image_folder import ImageFolder
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, EmptySource, SourceChanged, SourceError

KEPT = SourceOptions(shuffle=False)


def put(path: Path, data: bytes) -> bytes:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data


def read(source: ImageFolder) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    bad: list[BadItem] = []
    features = source.schema().features
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append)]
    return [row for chunk in chunks for row in rows_of(features, chunk)], bad


def paths(folder: Path, options: SourceOptions = KEPT) -> list[object]:
    """Read the paths of a source's samples."""
    return [row["path"] for row in read(ImageFolder(str(folder), options))[0]]


class TestImageFolder(SourceContract):
    """Hold a labelled folder, in its own order, to what every source promises."""

    def open(self, path: Path) -> ImageFolder:
        """Keep the order of the names."""
        return ImageFolder(str(path), KEPT)

    def write(self, folder: Path) -> list[Row]:
        """Write two classes with images and one without."""
        (folder / "b").mkdir()
        rows = []
        for number, name in enumerate(("a/1/3.webp", "a/2.png", "c/0.JPG", "c/1.jpeg")):
            data = encoded(os.path.splitext(name)[1].lower(), 7 + number, 5)
            put(folder / name, data)
            label = {"a": 0, "c": 2}[name[0]]
            rows.append({"image": data, "label": label, "path": name, "width": 7 + number, "height": 5})
        self.rows = rows
        return rows

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Cut off the end of an image."""
        path = folder / "a" / "1" / "3.webp"
        path.write_bytes(path.read_bytes()[:-9])
        return "a/1/3.webp", "truncated WebP", self.rows[1:]


def test_schema_names_the_classes_when_folders_hold_images(tmp_path: Path) -> None:
    """A class without images keeps its number, and is noted."""
    put(tmp_path / "cat" / "0.jpg", encoded())
    put(tmp_path / "dog" / "0.jpg", encoded())
    (tmp_path / "bird").mkdir()
    source = ImageFolder(str(tmp_path), KEPT)
    assert source.schema()["label"].classes == ("bird", "cat", "dog")
    assert source.schema()["image"].media == "image"
    assert source.notes() == ("bird: a class without images",)


def test_a_flat_folder_has_no_label(tmp_path: Path) -> None:
    """Images in the folder itself are in the order of their names, shuffled or not; so are those of a pattern."""
    for name in "cab":
        put(tmp_path / f"{name}.jpg", encoded())
    assert "label" not in ImageFolder(str(tmp_path), KEPT).schema()
    assert paths(tmp_path, SourceOptions()) == ["a.jpg", "b.jpg", "c.jpg"]
    assert paths(tmp_path / "[ab].jpg") == ["a.jpg", "b.jpg"]
    assert paths(tmp_path / "b.jpg") == ["b.jpg"]


def test_images_beside_class_folders_are_refused(tmp_path: Path) -> None:
    """They would have no label; the error says how many there are."""
    put(tmp_path / "cat" / "0.jpg", encoded())
    put(tmp_path / "stray.jpg", encoded())
    with pytest.raises(SourceError, match=r"beside them \(1, such as 'stray.jpg'\)"):
        ImageFolder(str(tmp_path), KEPT).units()


def test_a_folder_without_images_raises(tmp_path: Path) -> None:
    """The error says what is there instead."""
    put(tmp_path / "notes.txt", b"hello")
    with pytest.raises(EmptySource, match=r"1 x '.txt'"):
        ImageFolder(str(tmp_path), KEPT).schema()


def test_labelled_images_are_shuffled_by_the_seed(tmp_path: Path) -> None:
    """The same seed gives the same order, another one another, and labels stay with their images."""
    for label in range(4):
        for number in range(25):
            put(tmp_path / str(label) / f"{number:02}.png", encoded(".png", 1, 1))
    kept = paths(tmp_path)
    shuffled = [paths(tmp_path, SourceOptions(seed=seed)) for seed in (0, 0, 1)]
    assert kept == sorted(map(str, kept))
    assert shuffled[0] == shuffled[1] != shuffled[2]
    assert shuffled[0] != kept
    assert all(sorted(map(str, order)) == kept for order in shuffled)
    rows, _ = read(ImageFolder(str(tmp_path), SourceOptions()))
    assert all(str(row["path"]).startswith(f"{row['label']}/") for row in rows)
    first = [row["label"] for row in rows[:20]]
    assert len(set(first)) == 4


def test_units_are_cut_by_size(tmp_path: Path) -> None:
    """A unit holds 8 MB or one file."""
    data = encoded()
    for number in range(5):
        put(tmp_path / f"{number}.jpg", data + bytes(3_000_000))
    put(tmp_path / "5.jpg", data + bytes(9_000_000))
    units = ImageFolder(str(tmp_path), KEPT).units()
    assert [len(unit.files) for unit in units] == [2, 2, 1, 1]
    assert [unit.nbytes // 10**6 for unit in units] == [6, 6, 3, 9]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"),
        (bytes(50), "50 zero bytes"),
        (b"<html>no</html>", "beginning with b'<html>no</ht'"),
        (encoded()[:-40], "truncated JPEG"),
        (encoded()[:60], "truncated JPEG"),
        (encoded(".png")[:-1], "truncated PNG"),
    ],
)
def test_a_file_that_is_no_whole_image_is_a_bad_item(tmp_path: Path, data: bytes, reason: str) -> None:
    """The item carries what was found, for quarantine."""
    put(tmp_path / "a.jpg", data)
    put(tmp_path / "b.jpg", encoded())
    rows, bad = read(ImageFolder(str(tmp_path), KEPT))
    assert [row["path"] for row in rows] == ["b.jpg"]
    assert reason in bad[0].reason
    assert bad[0].data == data


def test_a_png_named_jpg_is_kept(tmp_path: Path) -> None:
    """The content tells the kind."""
    data = put(tmp_path / "a.jpg", encoded(".png"))
    assert read(ImageFolder(str(tmp_path), KEPT))[0][0]["image"] == data


def test_a_file_that_cannot_be_read_is_a_bad_item(tmp_path: Path) -> None:
    """One that went since it was listed, as any user can make it; it has no bytes."""
    put(tmp_path / "a.jpg", encoded())
    source = ImageFolder(str(tmp_path), KEPT)
    units = source.units()
    (tmp_path / "a.jpg").unlink()
    bad: list[BadItem] = []
    assert list(source.read(units[0], bad.append)) == []
    assert bad[0].reason == "cannot be read: No such file or directory"
    assert bad[0].data is None


@pytest.mark.parametrize("change", [-1, 1])
def test_a_file_of_another_size_than_listed_raises(tmp_path: Path, change: int) -> None:
    """It is not taken for a truncated image."""
    path = tmp_path / "a.jpg"
    data = put(path, encoded())
    source = ImageFolder(str(tmp_path), KEPT)
    units = source.units()
    path.write_bytes((data + b"x")[: len(data) + change])
    with pytest.raises(SourceChanged, match=f"listed with {len(data):,} bytes"):
        list(source.read(units[0], print))


def test_other_files_are_counted_and_hidden_ones_are_not(tmp_path: Path) -> None:
    """A person sees what was passed over."""
    put(tmp_path / "a.jpg", encoded())
    put(tmp_path / "b.txt", b"")
    put(tmp_path / "README", b"")
    put(tmp_path / ".hidden.jpg", b"")
    put(tmp_path / ".cache" / "c.jpg", b"")
    (tmp_path / "gone.jpg").symlink_to("nowhere")
    (tmp_path / "self.jpg").symlink_to("self.jpg")
    source = ImageFolder(str(tmp_path), KEPT)
    assert paths(tmp_path) == ["a.jpg"]
    assert source.notes()[0] == "2 files passed over that are no images: 1 x '.txt', 1 x 'no suffix'"
    assert "self.jpg: a link that leads nowhere" in source.notes()[1]
    assert "gone.jpg, " in source.notes()[1]


def test_each_folder_is_entered_once_when_links_lead_back(tmp_path: Path) -> None:
    """A loop ends, and is noted."""
    put(tmp_path / "a" / "0.jpg", encoded())
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a")
    source = ImageFolder(str(tmp_path), KEPT)
    assert paths(tmp_path) == ["a/0.jpg"]
    assert any("reached before" in note for note in source.notes())


def test_names_of_splits_are_noted(tmp_path: Path) -> None:
    """A folder of splits would make them classes."""
    put(tmp_path / "train" / "0.jpg", encoded())
    put(tmp_path / "val" / "0.jpg", encoded())
    assert "convert each folder by itself" in ImageFolder(str(tmp_path), KEPT).notes()[0]


def test_f91_names_with_dots_are_whole(tmp_path: Path) -> None:
    """Only the last dot begins a suffix, in any part of a path."""
    names = ["22.05.png", "a/22.0/1.1.png", "Track 2.0 (Clean Version).png", "train.v1/0001.png", "größe/日本.png"]
    for name in names:
        put(tmp_path / "c.1" / name, encoded(".png"))
    assert paths(tmp_path) == sorted(f"c.1/{name}" for name in names)


def test_f56_odd_names_are_kept_and_escaped(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 become escapes in the path, newlines stay there, and messages have neither."""
    names = [b"bad\xff.jpg", b"new\nline.jpg", "long ü".encode() * 33 + b".jpg"]
    for name in names:
        with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
            file.write(encoded() if name[0] == ord("l") else b"")
    rows, bad = read(ImageFolder(str(tmp_path), KEPT))
    assert [row["path"] for row in rows] == [names[2].decode()]
    assert bad[0].where == f"{tmp_path}/bad\\xff.jpg"
    assert bad[1].where == repr(f"{tmp_path}/new\nline.jpg")


def test_f56_colliding_names_are_noted(tmp_path: Path) -> None:
    """Names that differ in case alone cannot be exported to every file system."""
    put(tmp_path / "a" / "x.jpg", encoded())
    put(tmp_path / "a" / "X.JPG", encoded())
    source = ImageFolder(str(tmp_path), KEPT)
    assert len(paths(tmp_path)) == 2
    assert "differ in upper and lower case alone" in source.notes()[0]
