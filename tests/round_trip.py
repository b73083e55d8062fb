"""Read the samples of a dataset and of what was exported of it, to compare them."""

from __future__ import annotations

from pathlib import Path

from source_contract import rows_of

from datafeed.converters.again import Again
from datafeed.converters.detect import open_source
from datafeed.converters.encode import read_chunks
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Source
from datafeed.errors import BadItem


def rows_of_dataset(url: str) -> list[str]:
    """Return one text per sample of a dataset, equal for NaN."""
    return _rows(Again(url, SourceOptions()))


def rows_of_source(path: Path, kind: str | None = None, without: tuple[str, ...] = ()) -> list[str]:
    """Return one text per sample of raw data, in the order of its files, without some features."""
    return _rows(open_source(str(path), kind, SourceOptions(shuffle=False)), without)


def _rows(source: Source, without: tuple[str, ...] = ()) -> list[str]:
    features = source.schema().features
    chunks = read_chunks(source, source.units(), _refuse)
    rows = (row for chunk in chunks for row in rows_of(features, chunk))
    return [repr(sorted(item for item in row.items() if item[0] not in without)) for row in rows]


def _refuse(item: BadItem) -> None:
    raise item
