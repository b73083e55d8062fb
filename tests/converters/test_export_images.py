"""Test the export to a folder of image files, read by our own source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import forms
import pytest
from numbered import Numbered, digests
from pictures import encoded
from round_trip import rows_of_source

from datafeed.columns import Column, end_to_end
from datafeed.converters.convert import ConvertOptions, convert
from datafeed.converters.export import ExportOptions, export
from datafeed.converters.export_images import is_safe
from datafeed.converters.source import Chunk, OnBad, Unit
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema, stored

IMAGE = stored("image", "bytes", media="image")
HOSTILE = ("../x.jpg", "/x.jpg", "a/../../x.jpg", "a\0.jpg", "a\n.jpg", ".x.jpg", "a\\b.jpg", "", "a" * 300 + ".jpg")


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Return a folder of images in classes, some in folders below, one named by another kind."""
    for number in range(12):
        folder = tmp_path / "raw" / f"class {number % 2}" / ("deep" if number % 3 == 0 else "")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(encoded(".png" if number == 5 else ".jpg", seed=number))
    return tmp_path / "raw"


def test_a_folder_of_images_comes_back(raw: Path, tmp_path: Path) -> None:
    """Classes, folders, names and bytes are what they were, from several shards."""
    convert(str(raw), str(tmp_path / "in"), ConvertOptions(workers=1, shard_size=1000, block_size=500))
    export(tmp_path / "in", tmp_path / "out", "images")
    before = {path.relative_to(raw): path.read_bytes() for path in raw.rglob("*.jpg")}
    assert {path.relative_to(tmp_path / "out"): path.read_bytes() for path in tmp_path.glob("out/**/*.jpg")} == before
    assert sorted(rows_of_source(tmp_path / "out")) == sorted(rows_of_source(raw))
    assert not (tmp_path / "out" / "metadata.jsonl").exists()


def test_other_features_are_told_in_the_metadata(tmp_path: Path) -> None:
    """A line for each file in order, with lists, and null for what is missing; the class by its name."""
    schema = Schema(
        [
            IMAGE,
            stored("label", "int64", classes=("a", "../b")),
            stored("x", "float32", (2,)),
            stored("note", "utf8", optional=True),
        ]
    )
    url = forms.write(tmp_path / "in", schema, 6, make=_value)
    export(url, tmp_path / "out", "images")
    lines = list(map(json.loads, (tmp_path / "out" / "metadata.jsonl").read_text().splitlines()))
    assert [line["file_name"] for line in lines[:2]] == ["a/record-000000000.jpg", "class-1/record-000000001.png"]
    assert [line["label"] for line in lines] == ["a", "../b"] * 3
    assert [line["x"] for line in lines] == [forms.value(schema["x"], number).tolist() for number in range(6)]
    assert [line["note"] is None for line in lines] == [number % 3 == 1 for number in range(6)]
    for number, line in enumerate(lines):
        assert (tmp_path / "out" / line["file_name"]).read_bytes() == _value(IMAGE, number)


def _value(feature: Feature, number: int) -> object:
    if feature.is_image:
        return encoded(".png" if number % 2 else ".jpg", seed=number)
    return number % 2 if feature.classes else forms.value(feature, number)


@pytest.mark.parametrize("path", HOSTILE)
def test_paths_that_lead_out_are_not_taken(path: str) -> None:
    """They, and names that we give, are no names of files."""
    assert not is_safe(path)
    assert is_safe("a/b c.JPG")
    assert not is_safe("a/record-000000001.jpg")


@dataclass(frozen=True)
class _Hostile(Numbered):
    """Offer images as a folder of them does, under the paths above."""

    kind: ClassVar[str] = "images"

    def schema(self) -> Schema:
        return Schema([IMAGE, stored("path", "utf8")])

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:  # noqa: ARG002  (there is one unit, all good)
        images = [encoded(seed=number) for number in range(self.rows)]
        paths = [HOSTILE[number % len(HOSTILE)].encode() for number in range(self.rows)]
        columns = {"image": Column(*end_to_end(images)), "path": Column(*end_to_end(paths))}
        yield Chunk(columns, self.rows, where=str)


def test_nothing_is_written_outside(tmp_path: Path) -> None:
    """Images of such paths are called by their numbers."""
    convert(_Hostile(len(HOSTILE)), str(tmp_path / "in"), ConvertOptions(workers=1))
    export(tmp_path / "in", tmp_path / "a" / "b" / "out", "images")
    written = sorted(path.relative_to(tmp_path / "a") for path in tmp_path.rglob("*.jpg"))
    assert written == [Path(f"b/out/record-{number:09d}.jpg") for number in range(len(HOSTILE))]


def test_rerun_writes_what_was_removed(raw: Path, tmp_path: Path) -> None:
    """A stopped export goes on, and a shard of which a file is gone is written again."""
    convert(str(raw), str(tmp_path / "in"), ConvertOptions(workers=1, shard_size=1000, block_size=500))
    export(tmp_path / "in", tmp_path / "whole", "images")
    out = tmp_path / "out"

    def stop(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(tmp_path / "in", out, "images", on_progress=stop)
    next(iter(sorted(out.rglob("*.jpg")))).unlink()
    export(tmp_path / "in", out, "images")
    assert digests(out) == digests(tmp_path / "whole")
    assert len(list(out.rglob("*.jpg"))) == 12


def test_what_it_cannot_hold_is_refused(tmp_path: Path) -> None:
    """No image, several, and bytes beside it, each with the columns to choose."""
    schema = Schema([IMAGE, stored("second", "bytes", media="image"), stored("raw", "bytes"), stored("id", "int64")])
    url = forms.write(tmp_path / "in", schema, 2, make=lambda one, i: i if one.name == "id" else b"no image")
    for columns, text in (
        ((), r"'second': images cannot hold a second image beside 'image': choose others with --columns image,id"),
        (("image", "raw"), r"'raw': images cannot hold bytes beside the image: choose others with --columns image,"),
        (("id",), r"needs a feature that is an image"),
        (("image",), r"block 0, record 0: it is no JPEG, PNG or WebP"),
    ):
        with pytest.raises(SchemaError, match=text):
            export(url, tmp_path / "out", "images", ExportOptions(columns=columns))
