"""Read a folder of encoded images.

Folders of the first level that hold images at any depth are classes: `root/class/.../name.jpg`. Their sorted names are
the label's classes, one without images among them. Images that lie in the folder itself have no label.

The kind of an image is told by its content: a PNG named .jpg is kept. As telling the kinds apart beforehand would mean
to open every file, the schema says "image" and not "image/jpeg". Images are checked, not decoded: grey, CMYK, 16-bit,
animated and rotated ones are kept as they are.

With a file of labels, folders are no classes. Each image is what that file says of it, and those that it does not name
are left out.

Images with a label are shuffled when they are listed, unless the options say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from datafeed.columns import Column, end_to_end
from datafeed.converters.annotated import Annotated, annotate
from datafeed.converters.annotations import Faults, Noted
from datafeed.converters.class_listing import Listing, listed_by_class
from datafeed.converters.file_items import read_items
from datafeed.converters.file_units import labels_of, members, names_of
from datafeed.converters.image_header import image_size
from datafeed.converters.names import escape, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Unit, Where
from datafeed.schema import Schema, stored

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class ImageFolder:
    """Offer the images of folders: `image`, `label` where there are classes, `path`, `width`, `height`, and its labels.

    Args:
        path: A folder; or a file or a pattern, for images without a class; a path or URL, or several.
        asked: How to read it; `shuffle`, `seed`, `labels` count here, and what the file of labels heeds.
    """

    kind: ClassVar[str] = "images"
    path: Where
    asked: SourceOptions
    _kept: list[Listing | Annotated] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.asked)

    def _listing(self) -> Listing | Annotated:
        if not self._kept:
            files, labels = self.asked.files, self.asked.labels
            if labels is None:
                self._kept.append(listed_by_class(files, self.path, SUFFIXES, "image"))
            else:
                found = listed_by_class(files, self.path, SUFFIXES, "image", labels="elsewhere")
                self._kept.append(annotate(found, labels, self.asked))
        return self._kept[0]

    def schema(self) -> Schema:
        """Return what every sample holds."""
        listing = self._listing()
        classes = listing.classes if isinstance(listing, Listing) else ()
        return Schema(
            [
                stored("image", "bytes", media="image"),
                *([stored("label", "int64", classes=classes)] if classes else []),
                stored("path", "utf8"),
                stored("width", "int32"),
                stored("height", "int32"),
                *(listing.features if isinstance(listing, Annotated) else ()),
            ]
        )

    def units(self) -> Sequence[Unit]:
        """List runs of files, about 8 MB each."""
        return self._listing().units("images", self.asked)

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read the files of a unit as one chunk.

        Raises:
            SourceChanged: A file has another size than it was listed with.
            BadItem: Whatever `on_bad` raises.
        """
        if isinstance(unit.detail, Faults):
            unit.detail.report(on_bad)
            return
        images: list[bytes] = []
        sizes: list[tuple[int, int]] = []
        rows: list[int] = []
        for row, data, size in read_items(self.asked.files, unit.files, image_size, on_bad):
            rows.append(row)
            images.append(data)
            sizes.append(size)
        if not rows:
            return
        names, labels = names_of(unit), labels_of(unit)
        shape = np.array(sizes, np.int32)
        columns = {"image": Column(*end_to_end(images))}
        if labels is not None:
            columns["label"] = Column(labels[rows])
        columns["path"] = Column(*end_to_end([escape(names[row]).encode() for row in rows]))
        columns["width"] = Column(np.ascontiguousarray(shape[:, 0]))
        columns["height"] = Column(np.ascontiguousarray(shape[:, 1]))
        known = members(unit).more
        if isinstance(known, Noted):
            columns |= known.of(rows)
        yield Chunk(columns, len(rows), where=lambda row: shown(unit.files[rows[row]].path))

    def notes(self) -> Sequence[str]:
        """Say what was passed over or looks odd."""
        return self._listing().notes

    def options(self) -> dict[str, object]:
        """Return the order, and a digest of the files' names."""
        return self._listing().options(self.asked)
