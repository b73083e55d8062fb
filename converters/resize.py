"""Bring the images of a source to a smaller size.

An image whose shorter side is larger than asked is decoded, brought to that size by area, and encoded again in its own
form: JPEG and WebP with the quality asked, PNG as PNG, with its transparency and depth. What is small enough already is
kept byte for byte. As EXIF is lost, a JPEG is turned as it asks first. Of an animation the first picture is taken.

COCO's boxes, areas and polygons are brought to the new size with their image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from datafeed.columns import Column, end_to_end, take_rows
from datafeed.converters.coco_scaled import check_scalable, scaled
from datafeed.converters.over import Over
from datafeed.converters.picture import Codec, Picture
from datafeed.converters.source import Chunk, OnBad, Source, Unit
from datafeed.errors import BadItem, ConfigError
from datafeed.schema import Schema


@dataclass(frozen=True)
class Resized(Over):
    """Offer the samples of a source with smaller images.

    Args:
        inner: The source, its features by its own names: width and height are an image's, boxes COCO's.
        size: Pixels of an image's shorter side; smaller images are kept.
        quality: Of JPEG and WebP, 1 to 100.

    Raises:
        ConfigError: A number is out of bounds.
    """

    inner: Source
    size: int
    quality: int = 90

    def __post_init__(self) -> None:
        for name, value, most in (("resize", self.size, 65535), ("quality", self.quality, 100)):
            if not 1 <= value <= most:
                raise ConfigError(f"{name} must be 1 to {most}, found {value!r}")

    def schema(self) -> Schema:
        """Return the source's schema.

        Raises:
            ConfigError: No feature is an image, or one is a list of them.
            MissingExtra: simplejpeg or OpenCV is missing.
            SourceError: The source cannot be read, or it is empty.
        """
        schema = self.inner.schema()
        images = [feature for feature in schema if feature.is_image]
        if not images:
            names = ", ".join(feature.name for feature in schema)
            raise ConfigError(f"resize: no feature is an image; there are {names}")
        lists = [feature.name for feature in images if feature.shape]
        if lists:
            raise ConfigError(f"resize: {lists[0]!r} is a list of images, which cannot be resized: leave it out")
        Codec(self.quality)
        return schema

    def units(self) -> Sequence[Unit]:
        """List the source's units."""
        self._images  # noqa: B018  (known and pickled, it spares each worker the listing)
        return self.inner.units()

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit of the source; an image that cannot be decoded makes a bad item."""
        codec = Codec(self.quality)
        for chunk in self.inner.read(unit, on_bad):
            found = _Resizing(self, chunk, self._images)
            found.take(codec, on_bad)
            if found.rows:
                yield found.chunk()

    @cached_property
    def _images(self) -> list[str]:
        """The names of the features that are images; pickled once they are known."""
        return [feature.name for feature in self.schema() if feature.is_image]

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        own = {"resize": self.size, "quality": self.quality, "codec": Codec(self.quality).versions}
        return {**self.inner.options(), **own}


class _Resizing:
    """Resize the images of a chunk."""

    def __init__(self, asked: Resized, chunk: Chunk, images: Sequence[str]) -> None:
        self._size = asked.size
        self._chunk = chunk
        self._pictures: dict[str, list[Picture | None]] = {name: [] for name in images}
        self._sized = images[0] if len(images) == 1 else ""
        self._coco = asked.kind == "images" and "boxes" in chunk.columns and "image_id" in chunk.columns
        self.rows: list[int] = []

    def take(self, codec: Codec, on_bad: OnBad) -> None:
        """Resize the images of each row; rows with one that cannot be are left out."""
        for row in range(self._chunk.rows):
            try:
                made = [self._picture(name, row, codec) for name in self._pictures]
            except BadItem as exc:
                on_bad(exc)
                continue
            self.rows.append(row)
            for pictures, picture in zip(self._pictures.values(), made, strict=True):
                pictures.append(picture)

    def _picture(self, name: str, row: int, codec: Codec) -> Picture | None:
        column = self._chunk.columns[name]
        if column.present is not None and not column.present[row]:
            return None
        assert column.offsets is not None
        data = column.values[column.offsets[row] : column.offsets[row + 1]].tobytes()
        try:
            picture = codec.resize(data, self._size)
            if self._coco and picture.after != picture.before:
                check_scalable(self._chunk.columns, row, turned=picture.turned)
        except ValueError as exc:
            raise BadItem(self._chunk.where(row), str(exc), data) from exc
        return picture

    def chunk(self) -> Chunk:
        """Return the rows that are left."""
        rows, chunk = self.rows, self._chunk
        chosen = np.array(rows, np.int64)
        rest = {name: column for name, column in chunk.columns.items() if name not in self._pictures}
        if len(rows) < chunk.rows:
            rest = {name: take_rows(column, chosen) for name, column in rest.items()}
        for name, pictures in self._pictures.items():
            present = chunk.columns[name].present
            values = end_to_end([b"" if picture is None else picture.data for picture in pictures])
            rest[name] = Column(*values, present=None if present is None else present[chosen])
        if self._sized:
            rest |= self._told(rest, self._pictures[self._sized])
        return Chunk({name: rest[name] for name in chunk.columns}, len(rows), where=lambda row: chunk.where(rows[row]))

    def _told(self, columns: dict[str, Column], pictures: Sequence[Picture | None]) -> dict[str, Column]:
        """Return the columns that tell of the one image and change with its size."""
        changed = [
            (row, picture) for row, picture in enumerate(pictures) if picture and picture.after != picture.before
        ]
        if not changed:
            return {}
        places = np.array([row for row, _ in changed])
        told = {}
        for axis, name in enumerate(("width", "height")):
            column = columns.get(name)
            if column is not None and column.offsets is None and column.values.ndim == 1:
                values = column.values.copy()
                values[places] = [picture.after[axis] for _, picture in changed]
                told[name] = column._replace(values=values)
        if self._coco:
            scales = np.ones((len(pictures), 2))
            scales[places] = [picture.scale for _, picture in changed]
            told |= scaled(columns, scales)
        return told
