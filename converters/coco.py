"""Read COCO's annotations of images: boxes, areas, categories, segmentations, captions.

Categories are numbered 0, 1, ... in the order of their ids. What belongs to one image keeps the order of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import BinaryIO

from datafeed.columns import Column
from datafeed.converters.annotations import Annotations, Fault
from datafeed.converters.coco_columns import Boxes, Captions, Owners
from datafeed.converters.json_items import json_items
from datafeed.converters.names import shown
from datafeed.converters.source import Stamp
from datafeed.errors import SourceError
from datafeed.schema import Feature

_USED = frozenset({"id", "image_id", "bbox", "area", "category_id", "iscrowd", "segmentation", "caption"})
_LARGEST = 3.4028234663852886e38  # of float32


def read_coco(file: Stamp, digest: str, data: BinaryIO) -> Annotations:
    """Read a file of annotations, once.

    Args:
        file: The file.
        digest: The SHA-256 of its bytes.
        data: Its bytes, unpacked.

    Raises:
        SourceError: It is no COCO file, or its ids contradict each other.
    """
    coco = _Coco(shown(file.path))
    takers: dict[str, Callable[[int, object], None]] = {
        "images": coco.image,
        "annotations": coco.annotation,
        "categories": coco.category,
    }
    seen = set()
    try:
        for name, number, item in json_items(data):
            if name in takers and number >= 0:
                seen.add(name)
                takers[name](number, item)
    except ValueError as exc:
        raise SourceError(f"{shown(file.path)} is no COCO file: {exc}") from exc
    for wanted in ("images", "annotations"):
        if wanted not in seen:
            raise SourceError(f"{shown(file.path)} is no COCO file: expected a list {wanted!r} with items, found none")
    features, columns = coco.told()
    left_out = ", ".join(sorted(coco.other))
    notes = (f"{shown(file.path)}: left out of its annotations: {left_out}",) if left_out else ()
    numbers = coco.images.numbers
    return Annotations(
        file,
        digest,
        features,
        columns,
        coco.names,
        where=lambda row: coco.place("images", numbers[row]),
        faults=coco.faults,
        notes=notes,
    )


class _Coco:
    """Gather the items of the lists; an annotation may stand before its image."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.faults: list[Fault] = []
        self.other: set[str] = set()
        self.names: list[str] = []
        self.images = Owners()
        self._annotations = Owners()
        self._categories: dict[int, str] = {}
        self._boxes = Boxes()
        self._captions = Captions()

    def place(self, name: str, number: int) -> str:
        """Say where an item stands."""
        return f"{self._path}: {name}[{number}]"

    def image(self, number: int, item: object) -> None:
        """Take an item of `images`."""
        found = item if isinstance(item, dict) else {}
        if not _is_id(found.get("id")) or not isinstance(found.get("file_name"), str):
            reason = f"expected an integer 'id' and a 'file_name', found {_brief(item)}"
            self.faults.append((self.place("images", number), reason))
            return
        self.images.add(number, found["id"])
        self.names.append(found["file_name"])

    def category(self, number: int, item: object) -> None:
        """Take an item of `categories`."""
        found = item if isinstance(item, dict) else {}
        where = self.place("categories", number)
        if not _is_id(found.get("id")) or not isinstance(found.get("name"), str):
            raise SourceError(f"{where}: expected an integer 'id' and a 'name', found {_brief(item)}")
        if found["id"] in self._categories:
            raise SourceError(f"{where}: the id {found['id']} stands there twice: give each category its own")
        self._categories[found["id"]] = found["name"]

    def annotation(self, number: int, item: object) -> None:
        """Take an item of `annotations`."""
        found = item if isinstance(item, dict) else {}
        reason = _fault(found)
        if reason:
            self.faults.append((self.place("annotations", number), f"{reason}, found {_brief(item)}"))
            return
        if _is_id(found.get("id")):
            self._annotations.add(number, found["id"])
        self.other |= found.keys() - _USED
        if "caption" in found:
            self._captions.add(number, found)
        else:
            self._boxes.add(number, found)

    def told(self) -> tuple[tuple[Feature, ...], dict[str, Column]]:
        """Return the features of an image and their columns.

        Raises:
            SourceError: Ids stand there twice, or some annotations lack what others have.
        """
        for what, owners in (("images", self.images), ("annotations", self._annotations)):
            twice = owners.twice()
            if twice is not None:
                raise SourceError(f"{self._path}: two {what} have the id {twice}: give each its own")
        told = [self.images.column("image_id")]
        for gathered in (self._boxes, self._captions):
            if not len(gathered.of.numbers):
                continue
            lacking = gathered.lacking()
            if lacking:
                where = self.place("annotations", lacking[1])
                raise SourceError(f"{where}: expected {lacking[0]!r}, which other annotations have, found none")
            more, lost = gathered.columns(self.images, self._categories)
            told += more
            self.faults += [(self.place("annotations", number), reason) for number, reason in lost]
        return tuple(feature for feature, _ in told), {feature.name: column for feature, column in told}


def _is_id(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _brief(item: object) -> str:
    return f"{json.dumps(item):.100}"


def _fault(found: Mapping[str, object]) -> str:
    """Return why an annotation cannot be used; nothing where it can."""
    if not _is_id(found.get("image_id")):
        return "expected an integer 'image_id'"
    if "caption" in found:
        return "" if isinstance(found["caption"], str) else "expected a 'caption' of text"
    return _box_fault(found)


def _box_fault(found: Mapping[str, object]) -> str:
    box = found.get("bbox")
    if not _is_id(found.get("category_id")):
        return "expected an integer 'category_id'"
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        return "expected a 'bbox' of 4 numbers"
    if "area" in found and not _is_number(found["area"]):
        return "expected a number as 'area'"
    if "iscrowd" in found and found["iscrowd"] not in (0, 1):
        return "expected 0 or 1 as 'iscrowd'"
    return ""


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST  # type: ignore[arg-type]  # just checked
