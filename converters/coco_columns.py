"""Gather COCO's annotations in arrays, and turn them into columns by image."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from datafeed.columns import Array, Column, Offsets, offsets_of
from datafeed.schema import Feature, stored

Told = tuple[Feature, Column]
Lost = list[tuple[int, str]]
Numbers = npt.NDArray[np.int64]

_NONE = -1
_as_text = json.JSONEncoder(separators=(",", ":")).encode


class Owners:
    """Hold the ids of images, or of whatever else annotations belong to."""

    def __init__(self) -> None:
        self.numbers = array("q")
        self._ids = array("q")

    def add(self, number: int, own: int) -> None:
        """Take one, the number of its item in its list beside its id."""
        self.numbers.append(number)
        self._ids.append(own)

    @property
    def ids(self) -> Numbers:
        """int64 (n,)."""
        return np.frombuffer(self._ids, np.int64)

    def twice(self) -> int | None:
        """Return an id that stands there twice."""
        ids = np.sort(self.ids)
        again = ids[1:][ids[1:] == ids[:-1]]
        return int(again[0]) if len(again) else None

    def column(self, name: str) -> Told:
        """Return the ids as a feature."""
        return stored(name, "int64"), Column(self.ids)

    def find(self, wanted: Numbers) -> Numbers:
        """Return the row of each id; -1 where there is none."""
        return _find(self.ids, wanted)


def _find(ids: Numbers, wanted: Numbers) -> Numbers:
    if not len(ids):
        return np.full(len(wanted), _NONE, np.int64)
    order = np.argsort(ids)
    rows = order[np.minimum(np.searchsorted(ids, wanted, sorter=order), len(ids) - 1)]
    return np.where(ids[rows] == wanted, rows, _NONE)


class _Texts:
    """Hold texts end to end."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._offsets = array("q", [0])

    def add(self, text: str) -> None:
        self._data += text.encode("utf-8", "replace")
        self._offsets.append(len(self._data))

    def __getitem__(self, number: int) -> bytes:
        return bytes(self._data[self._offsets[number] : self._offsets[number + 1]])


class Captions:
    """Gather captions."""

    def __init__(self) -> None:
        self.of = Owners()
        self._texts = _Texts()

    def add(self, number: int, found: Mapping[str, Any]) -> None:
        """Take an annotation."""
        self.of.add(number, found["image_id"])
        self._texts.add(found["caption"])

    def lacking(self) -> None:
        """Say nothing: every caption is one."""

    def columns(self, images: Owners, _: Mapping[int, str]) -> tuple[list[Told], Lost]:
        """Return the columns by image, and the annotations that name none."""
        rows = images.find(self.of.ids)
        chosen, offsets = _by_image(rows, len(images.ids))
        texts = [self._texts[number] for number in chosen.tolist()]
        column = Column(np.frombuffer(b"".join(texts), np.uint8), offsets, offsets_of(list(map(len, texts))))
        return [(stored("captions", "utf8", (None,)), column)], _lost(self.of, rows, rows, rows)


class Boxes:
    """Gather boxes, with what belongs to each."""

    def __init__(self) -> None:
        self.of = Owners()
        self._boxes = array("d")
        self._areas = array("d")
        self._crowds = array("b")
        self._categories = array("q")
        self._segmentations = _Texts()
        self._has: dict[str, array[int]] = {"area": array("b"), "iscrowd": array("b"), "segmentation": array("b")}

    def add(self, number: int, found: Mapping[str, Any]) -> None:
        """Take an annotation."""
        self.of.add(number, found["image_id"])
        self._boxes.extend(found["bbox"])
        self._areas.append(found.get("area", 0))
        self._crowds.append(found.get("iscrowd", 0))
        self._categories.append(found["category_id"])
        self._segmentations.add(_as_text(found.get("segmentation")))
        for name, has in self._has.items():
            has.append(name in found)

    def lacking(self) -> tuple[str, int] | None:
        """Return what an annotation lacks that others have, and its number; None where none does."""
        for name in ("area", "iscrowd"):
            has = np.frombuffer(self._has[name], np.bool_)
            if has.any() and not has.all():
                return name, self.of.numbers[int(np.argmin(has))]
        return None

    def columns(self, images: Owners, categories: Mapping[int, str]) -> tuple[list[Told], Lost]:
        """Return the columns by image, and the annotations that name no image or no category."""
        ids = np.array(sorted(categories), np.int64)
        wanted = np.frombuffer(self._categories, np.int64)
        kinds, rows = _find(ids, wanted), images.find(self.of.ids)
        lost = _lost(self.of, rows, kinds, wanted)
        chosen, offsets = _by_image(np.where(kinds < 0, _NONE, rows), len(images.ids))
        boxes = np.frombuffer(self._boxes).astype(np.float32).reshape(-1, 4)
        areas = np.frombuffer(self._areas).astype(np.float32)
        crowds = np.frombuffer(self._crowds, np.uint8)
        told = [(stored("boxes", "float32", (None, 4)), Column(boxes[chosen], offsets))]
        if any(self._has["area"]):
            told.append((stored("areas", "float32", (None,)), Column(areas[chosen], offsets)))
        names = [categories[number] for number in ids.tolist()]
        told.append((stored("categories", "int64", (None,), classes=names), Column(kinds[chosen], offsets)))
        if any(self._has["iscrowd"]):
            told.append((stored("iscrowd", "uint8", (None,)), Column(crowds[chosen], offsets)))
        if any(self._has["segmentation"]):
            told.append((stored("segmentations", "utf8", media="json"), self._lists(chosen, offsets)))
        return told, lost

    def _lists(self, chosen: Numbers, offsets: Offsets) -> Column:
        """Return the segmentations of each image as the text of one JSON list."""
        numbers, bounds = chosen.tolist(), offsets.tolist()
        texts = [
            b"[%s]" % b",".join([self._segmentations[number] for number in numbers[start:end]])
            for start, end in pairwise(bounds)
        ]
        values: Array = np.frombuffer(b"".join(texts), np.uint8)
        return Column(values, offsets_of(list(map(len, texts))))


def _by_image(rows: Numbers, images: int) -> tuple[Numbers, Offsets]:
    """Return the annotations that have an image, by image, and where those of each begin."""
    known = np.flatnonzero(rows >= 0)
    chosen = known[np.argsort(rows[known], kind="stable")]
    return chosen, offsets_of(np.bincount(rows[known], minlength=images))


def _lost(of: Owners, rows: Numbers, kinds: Numbers, wanted: Numbers) -> Lost:
    """Return the numbers of annotations that cannot be kept, each with the reason."""
    ids = of.ids
    return [
        (
            of.numbers[place],
            f"no image has the id {ids[place]}" if rows[place] < 0 else f"no category has the id {wanted[place]}",
        )
        for place in np.flatnonzero((rows < 0) | (kinds < 0)).tolist()
    ]
