"""Write a folder of image files, those of a class in its folder, as datasets' imagefolder and torchvision read them.

Files are called as they were where an image folder was the source, else by their number. What an image file does not
hold is in metadata.jsonl, a line for each file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from datafeed.columns import Column
from datafeed.converters.block_runs import BlockRun
from datafeed.converters.export_form import Exported, Facts, Output, Shard, refuse
from datafeed.errors import SchemaError
from datafeed.infer import image_media
from datafeed.schema import INTEGER, Feature, Schema

_METADATA = "metadata.jsonl"
_MOST_NBYTES = 200
_ODD = re.compile(r"[\x00-\x1f\x7f\\]")
_OURS = re.compile(r"record-\d+\..*")
_CLASS = re.compile(r"class-\d+")
_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")

_Value = Callable[[int], object]


@dataclass(frozen=True)
class ImagesForm:
    """Write a file per image.

    Args:
        exported: What is exported.
    """

    exported: Exported

    def __post_init__(self) -> None:
        images = [one for one in self.exported.schema if one.is_image and not one.shape]
        if not images:
            raise SchemaError("images needs a feature that is an image: add one with --columns, or export --to parquet")
        if len(images) > 1:
            raise refuse("images", images[1], f"a second image beside {images[0].name!r}", self._fitting(images[0]))
        for feature in self._told:
            if lack := _lack(feature):
                raise refuse("images", feature, lack, self._fitting(images[0]))

    def _fitting(self, image: Feature) -> list[Feature]:
        return [one for one in self.exported.schema if one == image or not (one.is_image or _lack(one))]

    @property
    def _image(self) -> Feature:
        return next(one for one in self.exported.schema if one.is_image and not one.shape)

    @property
    def _label(self) -> Feature | None:
        """The feature that gives the classes."""
        found = [one for one in self.exported.schema if one.name == "label" and one.classes and not one.shape]
        return found[0] if found and found[0].dtype in INTEGER else None

    @property
    def _path(self) -> Feature | None:
        """The feature that names the files: each is there once, as they came from one folder."""
        if self.exported.provenance.get("kind") != "images" or self.exported.appended:
            return None
        found = [one for one in self.exported.all if (one.name, one.dtype, one.shape) == ("path", "utf8", ())]
        return found[0] if found else None

    @property
    def _told(self) -> list[Feature]:
        """The features that neither the images nor their names hold."""
        held = {self._image.name, *(("path", "width", "height") if self._path else ())}
        held |= {"label"} if self._label else set()
        return [one for one in self.exported.schema if one.name not in held]

    @property
    def schema(self) -> Schema:
        """The features that are wanted, and the path."""
        path = self._path
        more = [path] if path is not None and path.name not in self.exported.schema else []
        return Schema([*self.exported.schema, *more])

    def versions(self) -> Mapping[str, str]:
        """Return nothing: images are written as they are."""
        return {}

    def write(self, out: Output, shard: Shard, runs: Iterator[BlockRun]) -> Facts:  # noqa: ARG002  (files have own names)
        """Write the images of one shard; the facts are the lines of their metadata."""
        facts: list[Mapping[str, object]] = []
        for run in runs:
            values = {one.name: _value(one, run.columns[one.name]) for one in self.schema}
            for row in range(run.rows):
                data = values[self._image.name](row)
                kind = image_media(data[:16]) if isinstance(data, bytes) else ""
                if not isinstance(data, bytes) or not kind:
                    raise run.refused(row, self._image.name, "it is no JPEG, PNG or WebP: images cannot hold it")
                ending = kind.removeprefix("image/").replace("jpeg", "jpg")
                name = self._name(values, row, f"record-{run.start + row:09d}.{ending}")
                if name in out.files:
                    raise run.refused(row, "path", f"another image is called {name!r}, too: export --to parquet")
                with out.file(name) as sink:
                    sink.write(data)
                facts.append({"name": name, "line": self._line(run, values, row, name)})
        return facts

    def _name(self, values: Mapping[str, _Value], row: int, number: str) -> str:
        label, folder = self._label, ""
        if label is not None:
            folder = _folder(label, values["label"](row))
        name = str(values["path"](row)) if self._path else ""
        if is_safe(name) and name.startswith(folder):
            return name
        return folder + number

    def _line(self, run: BlockRun, values: Mapping[str, _Value], row: int, name: str) -> str:
        if not self._told:
            return ""
        told = {"file_name": name}
        label = self._label
        number = values["label"](row) if label else None
        if label and isinstance(number, int) and 0 <= number < len(label.classes):
            told["label"] = label.classes[number]
        try:
            return json.dumps(told | {one.name: values[one.name](row) for one in self._told}, allow_nan=False)
        except ValueError:
            raise run.refused(row, "", f"a number is not finite: {_METADATA} cannot hold it") from None

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write the metadata, where there is some.

        Raises:
            SchemaError: Two images of different shards have one name.
        """
        seen: set[str] = set()
        if not self._told:
            for fact in facts:
                _check(fact, seen)
            return
        with out.file(_METADATA) as sink:
            for fact in facts:
                _check(fact, seen)
                sink.write("".join(f"{one['line']}\n" for one in fact).encode())


def is_safe(path: str) -> bool:
    """Tell whether a path is one of an image file that stays below a folder, and not a name that we give."""
    parts = path.split("/")
    if not path.lower().endswith(_SUFFIXES) or _OURS.fullmatch(parts[-1]):
        return False
    return all(map(_is_plain, parts)) and len(path.encode()) <= 4 * _MOST_NBYTES


def _is_plain(part: str) -> bool:
    return (
        bool(part) and not part.startswith((".", "__")) and not _ODD.search(part) and len(part.encode()) <= _MOST_NBYTES
    )


def _folder(label: Feature, number: object) -> str:
    """Return the folder of a class, with its slash; empty for none."""
    if not isinstance(number, int) or not 0 <= number < len(label.classes):
        return ""
    name = label.classes[number]
    plain = _is_plain(name) and "/" not in name and not _CLASS.fullmatch(name)
    return f"{name}/" if plain else f"class-{number}/"


def _check(facts: Facts, seen: set[str]) -> None:
    for fact in facts:
        name = str(fact["name"])
        if name in seen:
            raise SchemaError(f"two images are called {name!r}: export --to parquet", feature="path")
        seen.add(name)


def _lack(feature: Feature) -> str:
    """Return why the metadata cannot hold a feature; empty where it can."""
    if feature.dtype == "bytes":
        return "bytes beside the image"
    return "a feature of this name" if feature.name == "file_name" else ""


def _value(feature: Feature, column: Column) -> _Value:
    """Return what gives the value of a row: None where it is missing."""
    found = _present(feature, column)
    present = column.present
    return found if present is None else lambda row: found(row) if present[row] else None


def _present(feature: Feature, column: Column) -> _Value:
    values, offsets, inner = column.values, column.offsets, column.inner
    if offsets is None:
        return lambda row: values[row].tolist()
    if feature.numeric:
        return lambda row: values[offsets[row] : offsets[row + 1]].tolist()
    if inner is None:
        return lambda row: _text(feature, values[offsets[row] : offsets[row + 1]].tobytes())
    return lambda row: [
        _text(feature, values[inner[i] : inner[i + 1]].tobytes()) for i in range(offsets[row], offsets[row + 1])
    ]


def _text(feature: Feature, data: bytes) -> bytes | str:
    return data.decode() if feature.dtype == "utf8" else data
