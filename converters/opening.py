"""Open what is to be converted."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import cast

from datafeed.converters import remote
from datafeed.converters.callables import Fn
from datafeed.converters.destination import check_apart, storage_of
from datafeed.converters.detect import open_source
from datafeed.converters.function import Called
from datafeed.converters.listing import Walk
from datafeed.converters.names import base_name, shown
from datafeed.converters.resize import Resized
from datafeed.converters.select import Selected
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.shuffle import Shuffled
from datafeed.converters.source import Source, Where, each
from datafeed.converters.split import FOLDER, parse_split, parts
from datafeed.errors import ConfigError, SourceError
from datafeed.schema import Schema
from datafeed.storage import local_path, masked

RawData = str | os.PathLike[str] | Sequence[object] | Source
"""A path, URL or pattern, several of them, a source that is open already, or the inputs of a function."""


def open_parts(
    raw: RawData, dest: str | os.PathLike[str], options: ConvertOptions, fn: Fn | None, schema: Schema | None
) -> dict[str, tuple[Source, str]]:
    """Return the sources of a conversion, each with what a person calls it, by the name of its part of a split.

    Args:
        raw: The raw data.
        dest: The destination.
        options: How to convert.
        fn: What makes samples of each file or input; None where a source does.
        schema: What `fn` makes; None to draw it from the first.

    Returns:
        The sources; one named "" where nothing is split.

    Raises:
        ConfigError: Options exclude each other, or source and destination are not apart.
        SourceError: The source cannot be read, or it is empty.
    """
    split = None if options.split is None else parse_split(options.split)
    if split == FOLDER:
        folders = _folders(raw, options)
        return {
            name: (shaped(_opened(path, dest, options, fn, schema), options), name) for name, path in folders.items()
        }
    source, name = _opened(raw, dest, options, fn, schema), _name(raw)
    if split is None:
        return {"": (shaped(source, options), name)}
    return {part: (found, name) for part, found in parts(shaped(source, options), split, options.seed).items()}


def _opened(
    raw: RawData, dest: str | os.PathLike[str], options: ConvertOptions, fn: Fn | None, schema: Schema | None
) -> Source:
    if schema is not None and fn is None:
        raise ConfigError("a schema is given, but no function whose samples it describes")
    asked = options.source_options()
    if fn is not None and not isinstance(raw, (str, os.PathLike)):
        return Called(cast("Sequence[object]", raw), fn, asked, schema)
    where = _where(raw)
    if where is None:
        return cast("Source", raw)
    for path in each(where):
        check_apart(path, os.fspath(dest))
    if fn is not None:
        return Called(asked.files.listed(where, ("",)), fn, asked, schema)
    return open_source(where, options.kind, asked)


def _where(raw: RawData) -> Where | None:
    """Return the paths and URLs; None for an open source."""
    if isinstance(raw, (str, os.PathLike)):
        return _path(os.fspath(raw))
    if not isinstance(raw, Sequence):
        return None
    if not raw or not all(isinstance(path, (str, os.PathLike)) for path in raw):
        raise ConfigError(f"expected paths or URLs, found {raw!r:.100}: other inputs need a function, fn=")
    return tuple(_path(os.fspath(path)) for path in cast("Sequence[str]", raw))


def _path(path: str) -> str:
    name = local_path(path)
    return path if name is None else name


def _name(raw: RawData) -> str:
    """Return what a person called the raw data, for the dataset's provenance."""
    if isinstance(raw, (str, os.PathLike)):
        return masked(_path(os.fspath(raw)))
    if not isinstance(raw, Sequence):
        return raw.kind
    if all(isinstance(path, (str, os.PathLike)) for path in raw[:_NAMED]):
        more = f" and {len(raw) - _NAMED} more" if len(raw) > _NAMED else ""
        return ", ".join(masked(os.fspath(path)) for path in cast("Sequence[str]", raw[:_NAMED])) + more
    return f"{len(raw)} inputs"


_NAMED = 20


def shaped(source: Source, options: ConvertOptions) -> Source:
    """Return a source with what is asked of every kind: shuffled, resized, some features, other names."""
    if options.shuffle_all and not source.options().get("shuffle"):
        source = Shuffled(source, options.seed)
    if options.resize is not None:
        source = Resized(source, options.resize, options.quality)
    if options.columns or options.rename or options.key is not None:
        source = Selected(source, tuple(options.columns), options.rename, options.key)
    return source


def _folders(raw: RawData, options: ConvertOptions) -> Mapping[str, str]:
    """Return the folders of the source's folder, by their names."""
    path = _where(raw)
    if not isinstance(path, str):
        raise ConfigError("split: expected one folder as the source to split by its folders")
    far = local_path(path) is None
    found = remote.folders(path, options.storage_options or {}) if far else Walk().folder(path)[1]
    if not found:
        raise SourceError(f"split: no folder in {shown(path)}: expected such as train and val")
    return {base_name(folder): folder for folder in found}


def one(found: Mapping[str, tuple[Source, str]]) -> tuple[Source, str]:
    """Return the only source.

    Raises:
        ConfigError: The data is split.
    """
    if "" not in found:
        raise ConfigError(f"split: there is a plan for each of {', '.join(found)}: ask `plans`")
    return found[""]


def for_dest(options: ConvertOptions, dest: str | os.PathLike[str], raw: RawData) -> Mapping[str, object] | None:
    """Return the storage options of the destination: those of the source count only where it is a URL, too."""
    if options.storage_options is None:  # a function's inputs may be many: they are looked at where it matters
        return options.dest_options
    listed = raw if isinstance(raw, Sequence) and not isinstance(raw, str) else [raw]
    sources = [os.fspath(path) for path in listed if isinstance(path, (str, os.PathLike))]
    return storage_of(sources, os.fspath(dest), options.storage_options, options.dest_options)[1]
