"""Bring COCO's annotations to the new size of their images."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import numpy as np
import numpy.typing as npt

from datafeed.columns import Column, end_to_end

_TEXT = "segmentations"


def check_scalable(columns: Mapping[str, Column], row: int, *, turned: bool) -> None:
    """Check that the annotations of an image can follow it.

    Args:
        columns: Of the chunk.
        row: The image.
        turned: Whether it is turned, too.

    Raises:
        ValueError: It is turned and has boxes, or a segmentation is no list of polygons.
    """
    offsets = columns["boxes"].offsets
    assert offsets is not None
    if turned and offsets[row] < offsets[row + 1]:
        raise ValueError("its EXIF orientation turns it, and its boxes would not follow: store it upright")
    if _TEXT in columns and not all(map(_is_polygons, json.loads(_text(columns[_TEXT], row)))):
        raise ValueError("a segmentation that is no list of polygons, as of run lengths, cannot be resized")


def _is_polygons(found: object) -> bool:
    if found is None:
        return True
    return isinstance(found, list) and all(
        isinstance(points, list) and all(isinstance(at, (int, float)) for at in points) for points in found
    )


def scaled(columns: Mapping[str, Column], scales: npt.NDArray[np.float64]) -> dict[str, Column]:
    """Return boxes, areas and segmentations in the pixels of resized images.

    Args:
        columns: Of some images.
        scales: (images, 2), new pixels for an old one, across and down.
    """
    boxes = columns["boxes"]
    counts = np.diff(cast("npt.NDArray[np.int64]", boxes.offsets))
    each = np.repeat(scales, counts, axis=0)
    out = {"boxes": boxes._replace(values=(boxes.values * np.tile(each, 2)).astype(np.float32))}
    if "areas" in columns:
        areas = columns["areas"]
        out["areas"] = areas._replace(values=(areas.values * each.prod(1)).astype(np.float32))
    if _TEXT in columns:
        column = columns[_TEXT]
        texts = [_polygons(_text(column, row), across, down) for row, (across, down) in enumerate(scales.tolist())]
        out[_TEXT] = Column(*end_to_end(texts))
    return out


def _text(column: Column, row: int) -> bytes:
    assert column.offsets is not None
    return column.values[column.offsets[row] : column.offsets[row + 1]].tobytes()


def _polygons(text: bytes, across: float, down: float) -> bytes:
    if across == down == 1:
        return text
    found = [
        one and [[round(at * (down if place % 2 else across), 2) for place, at in enumerate(points)] for points in one]
        for one in json.loads(text)
    ]
    return json.dumps(found, separators=(",", ":")).encode()
