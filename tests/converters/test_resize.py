"""Test bringing images to a smaller size."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import simplejpeg
from pictures import encoded
from source_contract import Row, SourceContract, rows_of

from datafeed.columns import Column, end_to_end
from datafeed.converters.image_folder import ImageFolder
from datafeed.converters.image_header import image_size
from datafeed.converters.options import SourceOptions
from datafeed.converters.resize import Resized
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.errors import BadItem, ConfigError
from datafeed.schema import Schema, stored

KEPT = SourceOptions(shuffle=False)
Pixels = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def smooth(width: int, height: int) -> Pixels:
    """Return an image that loses little when it is encoded: red grows to the right, green down."""
    x, y = np.meshgrid(np.linspace(0, 250, width), np.linspace(0, 250, height))
    return np.stack([np.full_like(x, 60), y, x], 2).astype(np.uint8)


def with_exif(jpeg: bytes, turn: int) -> bytes:
    """Return a JPEG with an EXIF orientation."""
    tiff = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + turn.to_bytes(2, "big") + bytes(6)
    segment = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment + jpeg[2:]


def resized(tmp_path: Path, data: bytes, size: int, suffix: str = ".jpg", quality: int = 90) -> Row:
    """Resize one image."""
    (tmp_path / f"x{suffix}").write_bytes(data)
    rows, bad = read(Resized(ImageFolder(str(tmp_path / f"x{suffix}"), KEPT), size, quality))
    assert not bad
    return rows[0]


def read(source: Resized) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    bad: list[BadItem] = []
    features = source.schema().features
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append)]
    return [row for chunk in chunks for row in rows_of(features, chunk)], bad


def pixels_of(row: Row, flags: int = cv2.IMREAD_COLOR) -> Pixels:
    """Decode a row's image, and check that its size is told."""
    data = row["image"]
    assert isinstance(data, bytes)
    found = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    assert found.shape[:2] == (row["height"], row["width"])
    return found  # type: ignore[no-any-return]  # of cv2, which has no types


class TestResized(SourceContract):
    """Hold a resized folder to what every source promises."""

    def open(self, path: Path) -> Resized:
        """Resize to 10 pixels."""
        return Resized(ImageFolder(str(path), KEPT), 10)

    def write(self, folder: Path) -> list[Row]:
        """Write images that are small enough, and one that is not."""
        rows: list[Row] = []
        for name, data in (
            ("a/1.jpg", encoded()),
            ("a/2.png", encoded(".png", 10, 99)),
            ("b/3.png", encoded(".png", 20, 30)),
        ):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
            width, height = image_size(data)
            rows.append({"image": data, "label": int(name[0] == "b"), "path": name, "width": width, "height": height})
        small = cv2.resize(cv2.imdecode(np.frombuffer(data, np.uint8), 1), (10, 15), interpolation=cv2.INTER_AREA)
        rows[2] |= {"image": bytes(cv2.imencode(".png", small)[1]), "width": 10, "height": 15}
        self.rows = rows
        return rows

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Damage what only decoding shows."""
        data = bytearray(encoded(".jpg", 64, 64))
        scan = data.index(b"\xff\xda") + 20
        data[scan : scan + 200] = b"\xff\xd0" * 100
        (folder / "a" / "1.jpg").write_bytes(data)
        return "a/1.jpg", "expected an image that decodes", self.rows[1:]


@pytest.mark.parametrize(
    ("width", "height", "now"), [(400, 300, (133, 100)), (300, 1201, (100, 400)), (100, 200, (100, 200))]
)
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp"])
def test_the_shorter_side_becomes_the_size(
    tmp_path: Path, suffix: str, width: int, height: int, now: tuple[int, int]
) -> None:
    """The other follows; the picture is the same, in its own form; one small enough is kept byte for byte."""
    data = bytes(cv2.imencode(suffix, smooth(width, height))[1])
    row = resized(tmp_path, data, 100, suffix)
    assert (row["width"], row["height"]) == now
    assert (row["image"] == data) == (now == (width, height))
    assert isinstance(row["image"], bytes)
    assert row["image"][:4] in (data[:4], b"\xff\xd8\xff\xe0")
    difference = np.abs(pixels_of(row).astype(int) - smooth(*now).astype(int))
    assert difference.max() < 16
    assert difference.mean() < 3


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_jpeg_is_turned_as_exif_asks(tmp_path: Path, turn: int) -> None:
    """As the loader turns it: EXIF is lost; one that is kept keeps its EXIF, and its stored size."""
    data = with_exif(bytes(cv2.imencode(".jpg", smooth(90, 60))[1]), turn)
    wanted = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    row = resized(tmp_path, data, 30)
    assert (row["width"], row["height"]) == ((45, 30) if turn < 5 else (30, 45))
    found = pixels_of(row)
    expected = cv2.resize(wanted, (found.shape[1], found.shape[0]), interpolation=cv2.INTER_AREA)
    assert np.abs(found.astype(int) - expected).mean() < 3
    row = resized(tmp_path, data, 60)
    assert (row["image"], row["width"], row["height"]) == (data, 90, 60)


def test_grey_and_transparent_images_stay_so(tmp_path: Path) -> None:
    """A grey JPEG stays grey, a PNG keeps transparency and 16 bits; CMYK becomes colours."""
    grey = bytes(cv2.imencode(".jpg", smooth(40, 40)[:, :, 2])[1])
    row = resized(tmp_path, grey, 20)
    assert pixels_of(row, cv2.IMREAD_UNCHANGED).shape == (20, 20)
    clear = np.dstack([smooth(40, 40), np.full((40, 40), 77, np.uint8)])
    row = resized(tmp_path, bytes(cv2.imencode(".png", clear)[1]), 20, ".png")
    assert (pixels_of(row, cv2.IMREAD_UNCHANGED)[:, :, 3] == 77).all()
    deep = np.full((40, 40), 40_001, np.uint16)
    row = resized(tmp_path, bytes(cv2.imencode(".png", deep)[1]), 20, ".png")
    assert (pixels_of(row, cv2.IMREAD_UNCHANGED) == 40_001).all()
    ink = simplejpeg.encode_jpeg(np.dstack([smooth(40, 40), smooth(40, 40)[:, :, 0]]), colorspace="CMYK")
    assert pixels_of(resized(tmp_path, ink, 20)).shape == (20, 20, 3)
    (tmp_path / "x.jpg").write_bytes(ink[:-20] + b"\xff\xd9")
    _, bad = read(Resized(ImageFolder(str(tmp_path / "x.jpg"), KEPT), 20))
    assert "expected an image that decodes" in bad[0].reason


def test_quality_counts_for_jpeg_and_webp(tmp_path: Path) -> None:
    """A higher one takes more bytes."""
    for suffix in (".jpg", ".webp"):
        data = encoded(suffix, 200, 200)
        sizes = [len(str(resized(tmp_path, data, 100, suffix, quality)["image"])) for quality in (10, 50, 95)]
        assert sizes == sorted(sizes)
        assert sizes[0] < sizes[2] / 2


@pytest.mark.parametrize(
    ("size", "quality", "reason"), [(0, 90, "resize"), (70_000, 90, "resize"), (9, 0, "quality"), (9, 101, "quality")]
)
def test_numbers_out_of_bounds_are_refused(size: int, quality: int, reason: str) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigError, match=f"{reason} must be 1 to"):
        Resized(ImageFolder("gone", KEPT), size, quality)


def test_a_worker_lists_nothing(tmp_path: Path) -> None:
    """A copy of a source that was listed knows its images, and reads units without listing it again."""
    (tmp_path / "x.png").write_bytes(encoded(".png", 30, 40))
    source = Resized(ImageFolder(str(tmp_path), KEPT), 15)
    units = source.units()
    copy = pickle.loads(pickle.dumps(source))  # noqa: S301  (its own)
    (chunk,) = copy.read(units[0], print)
    assert chunk.columns["height"].values.tolist() == [20]
    assert copy.inner._kept == []


def test_options_tell_what_shapes_the_bytes(tmp_path: Path) -> None:
    """With the versions of the libraries that encode."""
    (tmp_path / "x.jpg").write_bytes(encoded())
    inner = ImageFolder(str(tmp_path), KEPT)
    options = Resized(inner, 5, 80).options()
    assert {**options, "codec": None} == {**inner.options(), "resize": 5, "quality": 80, "codec": None}
    assert options["codec"] == f"simplejpeg {simplejpeg.__version__}, OpenCV {cv2.__version__}"


def coco(folder: Path, picture: bytes, *segmentations: object) -> Resized:
    """Write an image of two boxes, and one without."""
    (folder / "a.jpg").write_bytes(picture)
    (folder / "b.jpg").write_bytes(encoded())
    boxes = [[0, 30, 60, 15], [30, 15, 3, 9]]
    found = {
        "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}],
        "annotations": [
            {"image_id": 1, "bbox": box, "area": 90, "category_id": 1, "segmentation": segmentation}
            for box, segmentation in zip(boxes, segmentations, strict=True)
        ],
        "categories": [{"id": 1, "name": "x"}],
    }
    (folder / "coco.json").write_text(json.dumps(found))
    return Resized(ImageFolder(str(folder), SourceOptions(shuffle=False, labels=str(folder / "coco.json"))), 20)


def test_boxes_areas_and_polygons_follow_their_image(tmp_path: Path) -> None:
    """Those of an image that is kept stay."""
    source = coco(tmp_path, bytes(cv2.imencode(".jpg", smooth(90, 60))[1]), [[3, 30, 90, 60, 1, 1]], None)
    rows, bad = read(source)
    assert not bad
    assert (rows[0]["width"], rows[0]["height"], rows[1]["width"]) == (30, 20, 7)
    assert rows[0]["boxes"] == [[0, 10, 20, 5], [10, 5, 1, 3]]
    assert rows[0]["areas"] == [10, 10]
    assert json.loads(str(rows[0]["segmentations"])) == [[[1, 10, 30, 20, 0.33, 0.33]], None]
    assert rows[1]["boxes"] == []


def test_annotations_that_cannot_follow_make_a_bad_item(tmp_path: Path) -> None:
    """A mask of run lengths, or boxes of an image that is turned; neither is kept with wrong places."""
    picture = bytes(cv2.imencode(".jpg", smooth(90, 60))[1])
    rows, bad = read(coco(tmp_path, picture, {"counts": "x", "size": [60, 90]}, None))
    assert ([row["path"] for row in rows], len(bad)) == (["b.jpg"], 1)
    assert "no list of polygons" in bad[0].reason
    rows, bad = read(coco(tmp_path, with_exif(picture, 6), None, None))
    assert ([row["path"] for row in rows], len(bad)) == (["b.jpg"], 1)
    assert "its EXIF orientation turns it" in bad[0].reason


@dataclass(frozen=True)
class Pairs:
    """Offer two images a sample, the second of which may be missing."""

    features: tuple[Any, ...]
    first: bytes = encoded(".png", 30, 40)
    kind: str = "pairs"
    asked: SourceOptions = KEPT

    def schema(self) -> Schema:
        """Return the features."""
        return Schema(self.features)

    def units(self) -> Sequence[Unit]:
        """List one unit."""
        return [Unit("one", 1)]

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:  # noqa: ARG002  (nothing is bad)
        """Give two samples, whose width is not an image's."""
        large, small = encoded(".png", 30, 40), encoded(".png", 3, 4)
        left = Column(*end_to_end([self.first, small]))
        right = Column(*end_to_end([b"", large]), present=np.array([False, True]))
        yield Chunk({"left": left, "right": right, "width": Column(np.array([1, 2]))}, 2)

    def options(self) -> dict[str, object]:
        """Return nothing."""
        return {}

    def notes(self) -> Sequence[str]:
        """Say nothing."""
        return []


def test_every_image_of_a_sample_is_resized() -> None:
    """A missing one stays missing; with several, no size is told of one."""
    image = stored("left", "bytes", media="image/png")
    both = (image, stored("right", "bytes", media="image/png", optional=True), stored("width", "int64"))
    rows, bad = read(Resized(Pairs(both), 15))
    assert not bad
    sizes = [[image_size(row[name]) if row[name] else None for name in ("left", "right")] for row in rows]  # type: ignore[arg-type]  # bytes
    assert sizes == [[(15, 20), None], [(3, 4), (15, 20)]]
    assert [row["width"] for row in rows] == [1, 2]
    rows, bad = read(Resized(Pairs(both, b"no image"), 15))
    assert (len(bad), [row["width"] for row in rows], bool(rows[0]["right"])) == (1, [2], True)


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ((stored("x", "int64"),), "no feature is an image; there are x"),
        ((stored("x", "bytes", (None,), media="image"),), "'x' is a list of images"),
    ],
)
def test_what_has_no_image_to_resize_is_refused(features: tuple[Any, ...], reason: str) -> None:
    """An option that is given has an effect."""
    with pytest.raises(ConfigError, match=reason):
        Resized(Pairs(features), 9).schema()
