"""Tell what kind of source a path holds.

A kind is told by files that mark a folder, then by the ends of file names, then by the first bytes of files whose names
say nothing. A folder is looked at in part: its first `_LOOK_FILES` files.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from itertools import islice

from datafeed.converters import remote
from datafeed.converters.files import Files
from datafeed.converters.kinds import KINDS
from datafeed.converters.listing import Walk, list_files, refuse_zstd
from datafeed.converters.names import base_name, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.record_pieces import is_plain
from datafeed.converters.source import Source, Where, each
from datafeed.converters.tfrecord import NAMES
from datafeed.converters.unpack import PACKED_ERRORS, unpacked
from datafeed.errors import ConfigError, EmptySource, SourceError
from datafeed.infer import image_media
from datafeed.packing import packing
from datafeed.storage import local_path

_ZSTD = (".zst", ".zstd")
_LOOK_FILES = 2000
_LOOK_CONTENTS = 20
_HEAD_NBYTES = 4096
_MARK_NBYTES = 2**16
_MANIFEST = "dataset.json"
_MANIFEST_NBYTES = 2**30  # its last fields tell whose it is
_OURS = b'"format":"datafeed"'
_UNPACKED_ONLY = ("parquet", "arrow", "tfrecord")


def open_source(path: Where, kind: str | None, options: SourceOptions) -> Source:
    """Return the source that a path holds.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        kind: One of `KINDS`; None for text where there is a tokenizer, else to tell it from what is there.
        options: How it is read.

    Returns:
        The source; nothing of it is open.

    Raises:
        ConfigError: There is no such kind, or an option has no effect on it.
        SourceNotFound: Nothing is there.
        EmptySource: There is no file.
        SourceError: The kind is unclear, it is a dataset of ours already, or a file is packed with zstd.
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"unknown kind of source {kind!r}; there are {', '.join(KINDS)}")
    files = list(islice(_files(path, options), _LOOK_FILES))
    for one in each(path):
        _refuse_converted(one, files, options.files)
    if kind is None:
        kind = _detect(path, files, options.files) if options.tokenizer is None else "text"
    _refuse_idle(kind, options)
    if kind in _UNPACKED_ONLY:
        _refuse_zstd(path, files, kind, options.files)
    return KINDS[kind].open(path, options)


def _refuse_idle(kind: str, options: SourceOptions) -> None:
    """Refuse options that a person gave and that only other kinds heed."""
    plain = SourceOptions()
    for name in _OWN:
        flag = f"--{name.replace('_', '-')}".removesuffix("s") if name == "types" else f"--{name.replace('_', '-')}"
        if getattr(options, name) != getattr(plain, name) and flag not in KINDS[kind].options:
            fitting = ", ".join(other for other, known in KINDS.items() if flag in known.options)
            raise ConfigError(f"{name} ({flag}) has no effect on {kind}: leave it out; it is for {fitting}")


_OWN = ("types", "labels", "tokenizer", "seq_len", "one_document", "separator", "tail", "text", "int64_lists")


def _refuse_converted(path: str, names: list[str], files: Files) -> None:
    """Refuse a dataset of ours, told by the dataset.json that stands in the folder or is named itself."""
    if local_path(path) is None:
        found = min((name for name in names if base_name(name) == _MANIFEST), key=len, default="")
    else:
        found = path if os.path.basename(path) == _MANIFEST else os.path.join(path, _MANIFEST)
        found = found if os.path.isfile(found) else ""
    if found and _OURS in files.head(found, _MANIFEST_NBYTES):
        raise SourceError(
            f"{shown(path)} is a converted dataset already, says its dataset.json: load it, make another of it with "
            "`datafeed map`, or convert raw data"
        )


def _files(path: Where, options: SourceOptions) -> Iterator[str]:
    for one in each(path):
        name = local_path(one)
        if name is None:
            yield from (file.path for file in remote.listed(one, ("",), options.files.storage_options))
        elif os.path.isdir(name):
            yield from (entry.path for entry in Walk().files(name))
        else:
            yield from list_files(name, ())


def _refuse_zstd(path: Where, names: list[str], kind: str, files: Files) -> None:
    """Refuse files packed with zstd: of folders those named as the kind, elsewhere any."""
    folder = any(map(os.path.isdir, each(path)))
    for number, name in enumerate(names):
        looked_at = number < _LOOK_CONTENTS or name.lower().endswith(_ZSTD)
        if looked_at and _is_file(name) and (not folder or _kind_by_name(name) == kind):
            refuse_zstd(name, files.head(name, 4))


def _is_file(name: str) -> bool:
    return local_path(name) is None or os.path.isfile(name)


def _marked(names: list[str], files: Files) -> str | None:
    """Return the kind that a file of the folder tells by its name and what it begins with."""
    for name in names:
        for kind, known in KINDS.items():
            for mark, begins in known.marks:
                if base_name(name) == mark and _is_file(name) and begins in files.head(name, _MARK_NBYTES):
                    return kind
    return None


def _detect(path: Where, names: list[str], files: Files) -> str:
    """Return the one kind of the files there."""
    if not names:
        raise EmptySource(f"no file in {shown(path)}: expected {', '.join(KINDS)} files")
    marked = _marked(names, files)
    if marked:
        return marked
    found = Counter(kind for name in names if (kind := _kind_by_name(name)))
    if not found:
        found = Counter(kind for name in names[:_LOOK_CONTENTS] if (kind := _kind_by_content(name, files)))
    if len(found) == 1:
        return next(iter(found))
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(found.items()))
    what = f"{counts} among" if found else "none of a known kind among"
    raise SourceError(
        f"cannot tell what {shown(path)} is: found {what} the {'first ' * (len(names) == _LOOK_FILES)}{len(names)} "
        f"file{'s' * (len(names) > 1)} ({_suffixes(names)}): say it with --from KIND, one of {', '.join(KINDS)}"
    )


def _suffixes(files: list[str]) -> str:
    counts = Counter(os.path.splitext(file)[1] or "no suffix" for file in files)
    return ", ".join(f"{count} x {shown(suffix)}" for suffix, count in counts.most_common(5))


def _kind_by_name(path: str) -> str | None:
    name = base_name(path).lower()
    bare = next((name.removesuffix(suffix) for suffix in _ZSTD if name.endswith(suffix)), name)
    kind = next((kind for kind, known in KINDS.items() if bare.endswith(known.suffixes)), None)
    return "tfrecord" if kind is None and NAMES.search(bare) else kind


_MAGIC = {
    b"PAR1": "parquet",
    b"ARRO": "arrow",
    b"\xff\xff\xff\xff": "arrow",  # a stream
    b"FEA1": "arrow",
    b"\x93NUM": "numpy",
    b"\x89HDF": "hdf5",
    b"fLaC": "audio",
}


def _kind_by_content(path: str, files: Files) -> str | None:
    if not _is_file(path):
        return None
    head = files.head(path, _HEAD_NBYTES)
    if packing(head) in ("gzip", "zstd"):
        head = _unpacked(head)
    if head[:4] in _MAGIC:
        return _MAGIC[head[:4]]
    if image_media(head[:16]):
        return "images"
    if is_plain(head):
        return "tfrecord"
    if head[257:262] == b"ustar":
        return "webdataset"
    return "jsonl" if re.match(rb'\s*\{\s*["}]', head) else None


def _unpacked(head: bytes) -> bytes:
    with unpacked(BytesIO(head)) as file:
        try:
            return file.read1(_HEAD_NBYTES)
        except PACKED_ERRORS:
            return b""
