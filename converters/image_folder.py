"""Read a folder of encoded images.

Folders of the first level that hold images at any depth are classes: `root/class/.../name.jpg`. Their sorted names are
the label's classes, one without images among them. Images that lie in the folder itself have no label.

The kind of an image is told by its content: a PNG named .jpg is kept. As telling the kinds apart beforehand would mean
to open every file, the schema says "image" and not "image/jpeg". Images are checked, not decoded: grey, CMYK, 16-bit,
animated and rotated ones are kept as they are.

Images with a label are shuffled when they are listed, unless the options say otherwise.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from datafeed.columns import Column, end_to_end
from datafeed.converters.image_header import image_size
from datafeed.converters.image_listing import Listing, list_images
from datafeed.converters.names import escape, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit
from datafeed.errors import BadItem, SourceChanged
from datafeed.framing import LARGEST_NBYTES
from datafeed.order import permutation, sample_key
from datafeed.schema import Schema, stored
from datafeed.sizes import counted

UNIT_NBYTES = 8 * 10**6
_ROW_NBYTES = 200  # about what a record holds beside its image
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class ImageFolder:
    """Offer the images of a folder: `image`, `label` where there are classes, `path`, `width`, `height`.

    Args:
        path: The folder; or a file, or a glob pattern, for images without a class.
        asked: How to read it; `shuffle` and `seed` count here.
    """

    kind: ClassVar[str] = "images"
    path: str
    asked: SourceOptions
    _kept: list[Listing] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.asked)

    def _listing(self) -> Listing:
        if not self._kept:
            self._kept.append(list_images(self.path))
        return self._kept[0]

    def schema(self) -> Schema:
        """Return what every sample holds."""
        listing = self._listing()
        label = [stored("label", "int64", classes=listing.classes)] if listing.labels is not None else []
        return Schema(
            [
                stored("image", "bytes", media="image"),
                *label,
                stored("path", "utf8"),
                stored("width", "int32"),
                stored("height", "int32"),
            ]
        )

    def units(self) -> Sequence[Unit]:
        """List runs of files, about 8 MB each."""
        listing = self._listing()
        files, labels = listing.files, listing.labels
        if labels is not None and self.asked.shuffle:
            order = permutation(len(files), sample_key(self.asked.seed, 0, 0)).tolist()
            files, labels = [files[i] for i in order], [labels[i] for i in order]
        return [
            Unit(f"images {start}-{end - 1}", nbytes, tuple(files[start:end]), labels and tuple(labels[start:end]))
            for start, end, nbytes in _runs(files)
        ]

    def _prefix(self) -> str:
        """Return what every file's path begins with, and its name in the dataset lacks."""
        if os.path.isdir(self.path):
            return os.path.join(self.path, "")
        return "".join(_WILD.split(self.path)[0].rpartition("/")[:2])

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read the files of a unit as one chunk.

        Raises:
            SourceChanged: A file has another size than it was listed with.
            BadItem: Whatever `on_bad` raises.
        """
        images: list[bytes] = []
        sizes: list[tuple[int, int]] = []
        rows: list[int] = []
        for i, file in enumerate(unit.files):
            image = _image(file, on_bad)
            if image is not None:
                rows.append(i)
                images.append(image[0])
                sizes.append(image[1])
        if not rows:
            return
        paths = [unit.files[i].path for i in rows]
        start = len(self._prefix())
        shape = np.array(sizes, np.int32)
        columns = {"image": Column(*end_to_end(images))}
        if unit.detail is not None:
            assert isinstance(unit.detail, tuple)
            columns["label"] = Column(np.array(unit.detail, np.int64)[rows])
        columns["path"] = Column(*end_to_end([escape(path[start:]).encode() for path in paths]))
        columns["width"] = Column(np.ascontiguousarray(shape[:, 0]))
        columns["height"] = Column(np.ascontiguousarray(shape[:, 1]))
        yield Chunk(columns, len(rows), where=lambda row: shown(paths[row]))

    def notes(self) -> Sequence[str]:
        """Say what was passed over or looks odd."""
        return self._listing().notes

    def options(self) -> dict[str, object]:
        """Return the order, and a digest of the files' names."""
        listing = self._listing()
        digest = hashlib.sha256()
        start = len(self._prefix())
        for file in listing.files:
            digest.update(os.fsencode(file.path[start:]) + b"\0")
        options: dict[str, object] = {"names": digest.hexdigest()}
        if listing.labels is not None:
            options["shuffle"] = self.asked.shuffle
        if options.get("shuffle"):
            options["seed"] = self.asked.seed
        return options


def _runs(files: Sequence[Stamp]) -> Iterator[tuple[int, int, int]]:
    """Cut files into runs of `UNIT_NBYTES` or less, at least one file each."""
    start = nbytes = 0
    for i, file in enumerate(files):
        size = file.nbytes + _ROW_NBYTES
        if nbytes + size > UNIT_NBYTES and i > start:
            yield start, i, nbytes
            start, nbytes = i, 0
        nbytes += size
    yield start, len(files), nbytes


def _image(file: Stamp, on_bad: OnBad) -> tuple[bytes, tuple[int, int]] | None:
    if file.nbytes > LARGEST_NBYTES:
        on_bad(BadItem(shown(file.path), f"expected at most {LARGEST_NBYTES:,} bytes, found {file.nbytes:,}"))
        return None
    try:
        data = _read(file)
    except OSError as exc:
        on_bad(BadItem(shown(file.path), f"cannot be read: {exc.strerror}"))
        return None
    try:
        return data, image_size(data)
    except ValueError as exc:
        on_bad(BadItem(shown(file.path), str(exc), data))
        return None


def _read(file: Stamp) -> bytes:
    """Read a whole file; one byte more is asked for, so that growth is seen."""
    handle = os.open(file.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(handle, file.nbytes + 1)
        while len(data) < file.nbytes and (more := os.read(handle, file.nbytes + 1 - len(data))):
            data += more
    finally:
        os.close(handle)
    if len(data) != file.nbytes:
        raise SourceChanged(
            f"{shown(file.path)} changed while it was converted: listed with {counted(file.nbytes, 'byte')}, "
            f"found {len(data):,}{' or more' if len(data) > file.nbytes else ''}: "
            "let nothing write to the source, then convert it anew"
        )
    return data
