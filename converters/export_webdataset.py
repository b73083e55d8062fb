"""Write WebDataset tars: the members KEY.ENDING of one sample follow each other.

A sample's key is its feature that `convert --key` named, or the `key` of a dataset that came from tars, else its
number. Names that could lead out of the tar, or would be cut elsewhere, are changed; one that came before in its tar
gets the number of the record behind it.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from datafeed.columns import Column
from datafeed.converters.block_runs import BlockRun
from datafeed.converters.export_form import Counted, Exported, Facts, Output, Shard, refuse
from datafeed.infer import image_media
from datafeed.schema import INTEGER, Feature, Schema

_KEY = "key"
_ENDING = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_ODD = re.compile(r"[\x00-\x1f\x7f\\]")
_ZEROS = bytes(tarfile.BLOCKSIZE)
_WRITE_NBYTES = 1 << 20
_BLANK = tarfile.TarInfo("").tobuf(tarfile.PAX_FORMAT)
_BLANK_SUM = int(_BLANK[148:154], 8) - sum(_BLANK[124:135])
_KNOWN = {
    "cls": {"cls", "cls2", "class", "count", "id", "index", "inx"},
    "txt": {"txt", "text", "transcript"},
    "json": {"json", "jsn"},
    "jpg": {"jpg", "jpeg", "png", "webp"},
    "npy": {"npy"},
}

_Value = Callable[[int], bytes]


@dataclass(frozen=True)
class WebDatasetForm:
    """Write a tar per shard.

    Args:
        exported: What is exported.
    """

    exported: Exported

    def __post_init__(self) -> None:
        fitting = [feature for feature in self._members if feature.numeric or not feature.shape]
        for feature in self._members:
            if feature not in fitting:
                raise refuse("webdataset", feature, f"lists of {feature.dtype}", fitting)

    @property
    def _key(self) -> Feature | None:
        """The feature that names samples."""
        options = self.exported.provenance.get("options")
        name = options.get("key") if isinstance(options, Mapping) else None
        for one in (name, _KEY):
            if one in self.exported.all:
                feature = self.exported.all[str(one)]
                if not feature.shape and not feature.optional and (feature.dtype in {"utf8", "bytes", *INTEGER}):
                    return feature
        return None

    @property
    def _members(self) -> list[Feature]:
        """The features that become members: all but a text `key`, which is in their names."""
        return [
            one for one in self.exported.schema if not (one == self._key and (one.name, one.dtype) == (_KEY, "utf8"))
        ]

    @property
    def schema(self) -> Schema:
        """The features that are wanted, and the key."""
        key = self._key
        more = [key] if key is not None and key.name not in self.exported.schema else []
        return Schema([*self.exported.schema, *more])

    def versions(self) -> Mapping[str, str]:
        """Return nothing: the format is fixed."""
        return {}

    def write(self, out: Output, shard: Shard, runs: Iterator[BlockRun]) -> Facts:
        """Write one tar."""
        endings = self._endings()
        seen: set[str] = set()
        with out.file(f"{shard.stem}.tar") as sink:
            tar = _Tar(sink)
            for run in runs:
                values = [(one, run.columns[one.name], _value(one, run.columns[one.name])) for one in self._members]
                keys = self._keys(run)
                for row in range(run.rows):
                    key = next(keys)
                    if key in seen:
                        key = f"{key}-{run.start + row:09d}"
                    seen.add(key)
                    there = [
                        (one, value(row))
                        for one, column, value in values
                        if column.present is None or column.present[row]
                    ]
                    if not there:
                        raise run.refused(row, "", "it has no member: a tar cannot hold it")
                    for feature, data in there:
                        tar.add(f"{key}.{_ending(endings[feature.name], feature, data)}", data)
            tar.finish()
        return ()

    def _keys(self, run: BlockRun) -> Iterator[str]:
        key = self._key
        if key is None:
            yield from (f"{number:09d}" for number in range(run.start, run.start + run.rows))
            return
        value = _value(key, run.columns[key.name])
        for row in range(run.rows):
            yield safe_key(value(row).decode("utf-8", "backslashreplace")) or f"{run.start + row:09d}"

    def _endings(self) -> dict[str, str]:
        """Return the ending of each member: the usual one where one feature alone has it, else NAME.ENDING."""
        usual = {one.name: _usual(one) for one in self._members}
        own = {one.name for one in self._members if self._is_ending(one, usual[one.name])}
        counts = Counter(ending for name, ending in usual.items() if name not in own)
        endings = {}
        for name, ending in usual.items():
            alone = counts[ending] == 1 and ending not in own and name not in own
            endings[name] = name if name in own else ending if alone else f"{_plain(name)}.{ending}"
        twice = [name for name, ending in endings.items() if list(endings.values()).count(ending) > 1]
        return {
            name: f"{_plain(name)}{place}.{usual[name]}" if name in twice else ending
            for place, (name, ending) in enumerate(endings.items())
        }

    def _is_ending(self, feature: Feature, usual: str) -> bool:
        if not _ENDING.fullmatch(feature.name):
            return False
        if self.exported.provenance.get("kind") == "webdataset" or usual == "bin":
            return True
        return feature.name.rpartition(".")[2] in _KNOWN[usual]

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write nothing: each tar stands for itself."""


def safe_key(text: str) -> str:
    """Return a key that stays in its tar and has no dot in its last part; unchanged where it is such a one."""
    folders, slash, last = _ODD.sub("_", text).rpartition("/")
    parts = [part if part not in {"", ".", ".."} else "_" for part in folders.split("/")] if slash else []
    last = last.replace(".", "_")
    return "/".join([*parts, last]) if last else ""


def member_header(name: str, size: int) -> bytes:
    """Return a member's header as tarfile makes it, in a twentieth of its time for short plain names."""
    if not name.isascii() or len(name) > tarfile.LENGTH_NAME or size >= 8**11:
        head = tarfile.TarInfo(name)
        head.size = size
        return head.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    first, digits = name.encode(), b"%011o" % size
    checksum = _BLANK_SUM + sum(first) + sum(digits)
    return b"%b%b%b%b%06o%b" % (first, _BLANK[len(first) : 124], digits, _BLANK[135:148], checksum, _BLANK[154:])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", name.lower())


def _usual(feature: Feature) -> str:
    if feature.is_image:
        return "jpg"
    if feature.dtype == "bytes":
        return "bin"
    if feature.dtype == "utf8":
        return "json" if feature.media == "json" else "txt"
    return "cls" if not feature.shape and feature.dtype in INTEGER and feature.dtype != "uint64" else "npy"


def _ending(ending: str, feature: Feature, data: bytes) -> str:
    """Return the ending of a member: that of its image's kind where it is a usual one."""
    if not feature.is_image or feature.name == ending:
        return ending
    kind = image_media(data[:16]).removeprefix("image/").replace("jpeg", "jpg") or "img"
    return f"{ending.removesuffix('jpg')}{kind}"


def _value(feature: Feature, column: Column) -> _Value:
    """Return what gives the bytes of a row's member."""
    if feature.numeric and not feature.shape and _usual(feature) == "cls":
        numbers = column.values.astype(np.int64).tolist()
        return lambda row: b"%d" % numbers[row]
    if column.offsets is None:
        return lambda row: _npy(column.values[row])
    bounds = list(pairwise(column.offsets.tolist()))
    if feature.numeric:
        return lambda row: _npy(column.values[slice(*bounds[row])])
    data = column.values.tobytes()
    return lambda row: data[slice(*bounds[row])]


def _npy(value: object) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(value), version=(1, 0), allow_pickle=False)
    return file.getvalue()


class _Tar:
    """Gather members, which are mostly small, and write them in large pieces.

    Args:
        sink: Where to.
    """

    def __init__(self, sink: Counted) -> None:
        self._sink = sink
        self._parts: list[bytes] = []
        self._nbytes = 0

    def add(self, name: str, data: bytes) -> None:
        """Add a member."""
        head, padding = member_header(name, len(data)), -len(data) % tarfile.BLOCKSIZE
        self._parts += head, data, _ZEROS[:padding]
        self._nbytes += len(head) + len(data) + padding
        if self._nbytes >= _WRITE_NBYTES:
            self._flush()

    def finish(self) -> None:
        """End the tar, at a whole record of it."""
        self._flush()
        self._sink.write(
            bytes(-(self._sink.nbytes + 2 * tarfile.BLOCKSIZE) % tarfile.RECORDSIZE + 2 * tarfile.BLOCKSIZE)
        )

    def _flush(self) -> None:
        self._sink.write(b"".join(self._parts))
        self._parts, self._nbytes = [], 0
