"""Read a table of labels beside images: csv, tsv or JSON lines with a column of file names."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from datafeed.columns import Column, join_columns, offsets_of
from datafeed.converters import csv, jsonl
from datafeed.converters.annotations import OWN, Annotations, Fault
from datafeed.converters.name_lookup import NameLookup
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, Stamp
from datafeed.errors import BadItem, SourceError
from datafeed.schema import Feature, stored
from datafeed.sizes import some

_USUAL = ("file", "filename", "file_name", "image", "path", "name")
_CLASSES = ("label", "class")
_TRIED = 1000


def read_table(file: Stamp, digest: str, asked: SourceOptions, lookup: NameLookup) -> Annotations:
    """Read a table.

    The column of file names is the one that names most images: among those with a usual name that name any, else among
    those of text, else among those of integers.

    Args:
        file: The label file; JSON lines unless it ends as a csv file does.
        digest: The SHA-256 of its bytes.
        asked: How it is read.
        lookup: Finds the images.

    Raises:
        SourceError: It cannot be read, or no column names images.
    """
    source: csv.Csv | jsonl.JsonLines = jsonl.JsonLines(file.path, asked)
    if file.path.partition("::")[0].lower().endswith(csv.SUFFIXES):
        source = csv.Csv(file.path, asked)
    features = source.schema().features
    bad: list[BadItem] = []
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append) if chunk.rows]
    columns = {feature.name: join_columns([chunk.columns[feature.name] for chunk in chunks]) for feature in features}
    naming = _naming(file.path, [feature for feature in features if _may_name(feature)], columns, lookup)
    kept = [feature for feature in features if feature.name not in (naming.name, *OWN)]
    out = [feature.name for feature in features if feature.name in OWN and feature is not naming]
    told = {feature.name: _classified(feature, columns[feature.name]) for feature in kept}
    faults: list[Fault] = [(item.where, item.reason) for item in bad]
    notes = [f"{shown(file.path)}: columns left out, as each image has its own: {', '.join(out)}"] if out else []
    return Annotations(
        file,
        digest,
        tuple(feature for feature, _ in told.values()),
        {name: column for name, (_, column) in told.items()},
        list(_texts(naming, columns[naming.name])),
        _where(chunks),
        faults,
        tuple(notes),
    )


def _where(chunks: Sequence[Chunk]) -> Callable[[int], str]:
    starts = offsets_of([chunk.rows for chunk in chunks]).tolist()

    def where(row: int) -> str:
        number = bisect.bisect_right(starts, row) - 1
        return chunks[number].where(row - starts[number])

    return where


def _may_name(feature: Feature) -> bool:
    return feature.shape == () and (feature.dtype == "int64" or (feature.dtype == "utf8" and not feature.media))


def _naming(path: str, features: Sequence[Feature], columns: dict[str, Column], lookup: NameLookup) -> Feature:
    """Return the column that names most images: of those with a usual name, else of text, else of integers."""
    counts = {feature.name: _found(feature, columns[feature.name], lookup) for feature in features}
    if not any(counts.values()):
        tried = [f"{feature.name} ({_first(feature, columns[feature.name])!r:.60})" for feature in features]
        raise SourceError(
            f"{shown(path)}: expected a column of file names, relative to the images' folder or to this file, with or "
            f"without a suffix; found {some(tried) if tried else 'none of text'}"
        )
    return max(
        (feature for feature in features if counts[feature.name]),
        key=lambda feature: (feature.name.lower() in _USUAL, not feature.numeric, counts[feature.name]),
    )


def _found(feature: Feature, column: Column, lookup: NameLookup) -> int:
    """Count the images that some values, spread over a column, name."""
    texts = list(_texts(feature, column))
    return len({lookup.find(text) for text in texts[:: max(len(texts) // _TRIED, 1)]} - {-1})


def _first(feature: Feature, column: Column) -> str:
    return next(_texts(feature, column))


def _texts(feature: Feature, column: Column) -> Iterator[str]:
    """Yield the values of a column of text or integers; empty where one is missing."""
    if feature.numeric:
        present = np.ones(len(column.values), np.bool_) if column.present is None else column.present
        return (str(value) if there else "" for value, there in zip(column.values.tolist(), present, strict=True))
    assert column.offsets is not None
    data, offsets = column.values.tobytes(), column.offsets.tolist()
    return (data[start:end].decode() for start, end in pairwise(offsets))


def _classified(feature: Feature, column: Column) -> tuple[Feature, Column]:
    """Return a text column of labels as the numbers of its sorted values, empty ones missing; others as they are."""
    if feature.name not in _CLASSES or feature.dtype != "utf8" or feature.shape or feature.media:
        return feature, column
    texts = list(_texts(feature, column))
    classes = sorted({*texts} - {""})
    numbers = {name: number for number, name in enumerate(classes)} | {"": 0}
    present = np.array([bool(text) for text in texts])
    labels = np.array([numbers[text] for text in texts], np.int64)
    optional = not present.all()
    return stored(feature.name, "int64", classes=classes, optional=bool(optional)), Column(
        labels, present=present if optional else None
    )
