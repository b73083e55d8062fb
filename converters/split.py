"""Split a source into parts, such as train and val."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from datafeed.columns import Column, Mask, take_rows
from datafeed.converters.encode import read_chunks
from datafeed.converters.over import Over
from datafeed.converters.source import Chunk, OnBad, Source, Unit
from datafeed.errors import BadItem, ConfigError, SourceError
from datafeed.schema import Feature
from datafeed.splitmix import feistel

FOLDER = "folder"
_COLUMN = "column:"
_REST = "train"
_MOST = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_STEPS = 2**32


def parse_split(text: str) -> Mapping[str, float] | str:
    """Read what a person says of a split.

    Args:
        text: "val=0.1,test=0.05", where what is left is "train"; "folder"; or "column:NAME".

    Returns:
        The shares by name, which add up to 1; or "folder" or "column:NAME" as it is.

    Raises:
        ConfigError: It is none of these.
    """
    if text == FOLDER or (text.startswith(_COLUMN) and len(text) > len(_COLUMN)):
        return text
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, equals, share = part.strip().partition("=")
        if not equals or not _NAME.fullmatch(name) or name in shares:
            raise ConfigError(f"split: expected NAME=SHARE, folder or column:NAME, found {part!r}")
        shares[name] = _share(name, share)
    rest = 1 - sum(shares.values())
    if rest < -1e-9 or (rest > 1e-9 and _REST in shares):
        raise ConfigError(f"split: {text!r} adds up to {1 - rest:g}: expected 1, or less where {_REST!r} is not named")
    return {_REST: rest, **shares} if rest > 1e-9 else shares


def _share(name: str, text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 < share <= 1:
        raise ConfigError(f"split: expected a share above 0 and up to 1 for {name!r}, found {text!r}")
    return share


@dataclass(frozen=True)
class Part(Over):
    """Offer the samples of a source that belong to one part of a split.

    Args:
        inner: The source.
        name: The part.
        chooser: Which rows belong to it.
    """

    inner: Source
    name: str
    chooser: ByShare | ByValue

    def units(self) -> Sequence[Unit]:
        """List the source's units, their sizes as the part's share of them."""
        share = self.chooser.share
        return [replace(unit, nbytes=max(round(unit.nbytes * share), 1)) for unit in self.inner.units()]

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit, leaving out what belongs to other parts; bad items are reported in each part."""
        before = 0
        for chunk in self.inner.read(unit, on_bad):
            chosen = np.flatnonzero(self.chooser.mask(unit, before, chunk))
            before += chunk.rows
            if len(chosen):
                columns = {name: take_rows(column, chosen) for name, column in chunk.columns.items()}
                yield Chunk(columns, len(chosen), where=_within(chunk, chosen.tolist()))

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {**self.inner.options(), "part": self.name, **self.chooser.options()}


def _within(chunk: Chunk, rows: list[int]) -> Callable[[int], str]:
    return lambda row: chunk.where(rows[row])


@dataclass(frozen=True, slots=True)
class ByShare:
    """Choose rows by chance: each by a number drawn from the seed, its unit's name and its place in the unit.

    Args:
        low: Rows whose number, from 0 to 1, is not under this.
        high: And under this.
        seed: Chooses the numbers.
    """

    low: float
    high: float
    seed: int

    @property
    def share(self) -> float:
        """About what share of the rows it chooses."""
        return self.high - self.low

    def mask(self, unit: Unit, before: int, chunk: Chunk) -> Mask:
        """Return which rows of a chunk it chooses; `before` counts those of the unit that came earlier."""
        key = int.from_bytes(sha256(f"{self.seed} {unit.name}".encode("utf-8", "surrogateescape")).digest()[:8])
        places = np.arange(before, before + chunk.rows, dtype=np.uint64)
        drawn = feistel(places, _STEPS, key) / _STEPS
        return (drawn >= self.low) & (drawn < self.high)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"share": [self.low, self.high], "seed": self.seed}


@dataclass(frozen=True, slots=True)
class ByValue:
    """Choose the rows in which a feature has a value.

    Args:
        feature: The feature.
        value: The value.
        share: About what share of the rows it chooses.
    """

    feature: Feature
    value: str | int
    share: float

    def mask(self, unit: Unit, before: int, chunk: Chunk) -> Mask:  # noqa: ARG002  (as ByShare has it)
        """Return which rows of a chunk it chooses."""
        values = _values(self.feature, chunk.columns[self.feature.name])
        return np.fromiter((value == self.value for value in values), np.bool_, len(values))

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"column": self.feature.name, "value": self.value}


def _values(feature: Feature, column: Column) -> list[str | int | None]:
    if feature.numeric:
        found: list[str | int | None] = column.values.tolist()
    else:
        assert column.offsets is not None
        data, ends = column.values.tobytes(), column.offsets.tolist()
        found = [data[start:end].decode() for start, end in itertools.pairwise(ends)]
    if column.present is not None:
        found = [value if there else None for value, there in zip(found, column.present.tolist(), strict=True)]
    return found


def parts(source: Source, split: Mapping[str, float] | str, seed: int) -> dict[str, Source]:
    """Return the parts of a source by name.

    Args:
        source: The source.
        split: What `parse_split` returned, other than "folder".
        seed: Of shares.

    Raises:
        ConfigError: The column cannot name parts.
        SourceError: It has too many values, or a sample lacks it.
    """
    if isinstance(split, str):
        return _by_column(source, split.removeprefix(_COLUMN))
    made: dict[str, Source] = {}
    low = 0.0
    for number, (name, share) in enumerate(split.items(), 1):
        high = 1.0 if number == len(split) else low + share
        made[name] = Part(source, name, ByShare(low, high, seed))
        low = high
    return made


def _by_column(source: Source, name: str) -> dict[str, Source]:
    """Return a part for each value of a column; all of the source is read once to find them."""
    features = {feature.name: feature for feature in source.schema()}
    if name not in features:
        raise ConfigError(f"split: no feature {name!r}; there are {', '.join(features)}")
    feature = features[name]
    if feature.shape or not (feature.dtype == "utf8" or (feature.numeric and feature.numpy_dtype.kind in "iub")):
        raise ConfigError(f"split: {name!r} must be one text or integer, found {feature.to_json()}")
    counts = _count_values(source, feature)
    total = sum(counts.values())
    named: dict[str, Source] = {}
    for value in sorted(counts, key=str):
        part = feature.classes[value] if feature.classes and isinstance(value, int) else str(value)
        if not _NAME.fullmatch(part) or part in named:
            raise SourceError(f"split: the value {value!r} of {name!r} is no name of a folder: rename it")
        named[part] = Part(source, part, ByValue(feature, value, counts[value] / total))
    return named


def _count_values(source: Source, feature: Feature) -> dict[str | int, int]:
    counts: dict[str | int, int] = {}
    for chunk in read_chunks(source, source.units(), _ignore):
        for row, value in enumerate(_values(feature, chunk.columns[feature.name])):
            if value is None:
                raise SourceError(f"split: {chunk.where(row)} has no {feature.name!r}: fill it")
            counts[value] = counts.get(value, 0) + 1
        if len(counts) > _MOST:
            raise SourceError(f"split: {feature.name!r} has more than {_MOST} values: expected one a part")
    return counts


def _ignore(_: BadItem) -> None:
    """Pass over bad items: each part's conversion will meet them."""
