"""Tell what kind of source a path holds.

A kind is told by the ends of file names, then by the first bytes of files whose names say nothing. A folder is looked
at in part: its first `_LOOK_FILES` files.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import islice

from datafeed.converters import csv, image_listing, jsonl, parquet
from datafeed.converters.csv import Csv
from datafeed.converters.image_folder import ImageFolder
from datafeed.converters.jsonl import JsonLines
from datafeed.converters.listing import Walk, list_files, read_head, refuse_zstd
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.parquet import Parquet
from datafeed.converters.record_pieces import is_plain
from datafeed.converters.source import Source
from datafeed.converters.tfrecord import NAMES, TFRecords
from datafeed.errors import ConfigError, EmptySource, SourceError
from datafeed.infer import image_media
from datafeed.packing import packing

KINDS: dict[str, Callable[[str, SourceOptions], Source]] = {
    "images": ImageFolder,
    "parquet": Parquet,
    "csv": Csv,
    "jsonl": JsonLines,
    "tfrecord": TFRecords,
}
_SUFFIXES = {
    "images": image_listing.SUFFIXES,
    "parquet": parquet.SUFFIXES,
    "csv": csv.SUFFIXES,
    "jsonl": jsonl.SUFFIXES,
}
_ZSTD = (".zst", ".zstd")
_LOOK_FILES = 2000
_LOOK_CONTENTS = 20
_HEAD_NBYTES = 4096


def open_source(path: str, kind: str | None, options: SourceOptions) -> Source:
    """Return the source that a path holds.

    Args:
        path: A file, a folder or a glob pattern.
        kind: One of `KINDS`; None to tell it from what is there.
        options: How it is read.

    Returns:
        The source; nothing of it is open.

    Raises:
        ConfigError: There is no such kind.
        SourceNotFound: Nothing is there.
        EmptySource: There is no file.
        SourceError: The kind is unclear, it is a dataset of ours already, or a file is packed with zstd.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"unknown kind of source {kind!r}; there are {', '.join(KINDS)}")
    _refuse_converted(path)
    files = _first_files(path)
    kind = _detect(path, files) if kind is None else kind
    _refuse_zstd(path, files, kind)
    return KINDS[kind](path, options)


def _refuse_converted(path: str) -> None:
    manifest = path if os.path.basename(path) == "dataset.json" else os.path.join(path, "dataset.json")
    if not os.path.isfile(manifest):
        return
    with open(manifest, "rb") as file:
        ours = b'"format":"datafeed"' in file.read()
    if ours:
        raise SourceError(
            f"{shown(path)} is a converted dataset already, says its dataset.json: load it, or convert raw data"
        )


def _first_files(path: str) -> list[str]:
    folder = os.path.isdir(path)
    names = (entry.path for entry in Walk().files(path)) if folder else iter(list_files(path, ()))
    return list(islice(names, _LOOK_FILES))


def _refuse_zstd(path: str, files: list[str], kind: str) -> None:
    """Refuse files packed with zstd: of a folder those named as the kind, elsewhere any."""
    folder = os.path.isdir(path)
    for number, file in enumerate(files):
        looked_at = number < _LOOK_CONTENTS or file.lower().endswith(_ZSTD)
        if looked_at and os.path.isfile(file) and (not folder or _kind_by_name(file) == kind):
            refuse_zstd(file, read_head(file, 4))


def _detect(path: str, files: list[str]) -> str:
    """Return the one kind of the files there."""
    if not files:
        raise EmptySource(f"no file in {shown(path)}: expected {', '.join(KINDS)} files")
    found = Counter(kind for file in files if (kind := _kind_by_name(file)))
    if not found:
        found = Counter(kind for file in files[:_LOOK_CONTENTS] if (kind := _kind_by_content(file)))
    if len(found) == 1:
        return next(iter(found))
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    what = f"{counts} among" if found else "none of a known kind among"
    raise SourceError(
        f"cannot tell what {shown(path)} is: found {what} the {'first ' * (len(files) == _LOOK_FILES)}{len(files)} "
        f"file{'s' * (len(files) > 1)} ({_suffixes(files)}): say it with --from KIND, one of {', '.join(KINDS)}"
    )


def _suffixes(files: list[str]) -> str:
    counts = Counter(os.path.splitext(file)[1] or "no suffix" for file in files)
    return ", ".join(f"{count} x {shown(suffix)}" for suffix, count in counts.most_common(5))


def _kind_by_name(path: str) -> str | None:
    name = os.path.basename(path).lower()
    name = next((name.removesuffix(suffix) for suffix in _ZSTD if name.endswith(suffix)), name)
    kind = next((kind for kind, suffixes in _SUFFIXES.items() if name.endswith(suffixes)), None)
    return "tfrecord" if kind is None and NAMES.search(name) else kind


def _kind_by_content(path: str) -> str | None:
    if not os.path.isfile(path):
        return None
    head = read_head(path, _HEAD_NBYTES)
    if packing(head) == "gzip":
        head = _unpacked(head)
    refuse_zstd(path, head)
    if head[:4] == b"PAR1":
        return "parquet"
    if image_media(head[:16]):
        return "images"
    if is_plain(head):
        return "tfrecord"
    return "jsonl" if re.match(rb'\s*\{\s*["}]', head) else None


def _unpacked(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD_NBYTES)
    except zlib.error:
        return b""
