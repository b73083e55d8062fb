"""Read JSON lines: one object a line.

Types come from a first pass over all lines. Of one name's values: all bool -> bool; integers -> int64, or uint64 where
only that holds them; integers with fractions -> float64; strings -> utf8; lists of numbers -> ragged int64 or float64;
lists of strings -> lists of utf8; anything else, integers that no 64 bits hold, and mixtures -> the value's JSON text
(media "json"). Objects are flattened: {"a": {"b": 1}} is the feature "a.b". null and an absent name are missing. NaN
and Infinity are floats. A line that is no object, or has a name twice, is a bad item.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from datafeed.converters.files import Files
from datafeed.converters.lines import line_units, lines_of
from datafeed.converters.names import FirstBad, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.rows import chunk_of
from datafeed.converters.source import Chunk, OnBad, Unit, Where
from datafeed.errors import BadItem, ConfigError, EmptySource
from datafeed.schema import Feature, Schema, stored

SUFFIXES = tuple(f".{name}{packed}" for name in ("jsonl", "ndjson", "json") for packed in ("", ".gz", ".zst"))

_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class JsonLines:
    """Offer the lines of JSON files.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read.
    """

    kind: ClassVar[str] = "jsonl"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_units"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"types": dict(self.asked.types), "int64_lists": self.asked.int64_lists}

    def notes(self) -> Sequence[str]:
        """Say which columns became JSON text."""
        texts = [feature.name for feature in self.schema() if feature.media == "json"]
        return [f"kept as JSON text: {', '.join(texts)}"] if texts else []

    def schema(self) -> Schema:
        """Return what the lines hold, by a first pass over all of them.

        Raises:
            SourceError: A file cannot be read, or holds no line that is an object.
            ConfigError: A type is given for a name that no line has.
        """
        return self._schema

    @cached_property
    def _schema(self) -> Schema:
        kinds: dict[str, _Kind] = {}
        rows = 0
        bad = FirstBad()
        for unit in self.units():
            for _, sample in samples_of(self.asked.files, unit, bad):
                rows += 1
                for name, value in sample.items():
                    kinds.setdefault(name, _Kind()).add(value)
        if not rows:
            raise EmptySource(f"{shown(self.path)}: no line holds a JSON object{bad.ending}")
        unknown = sorted(set(self.asked.types) - set(kinds))
        if unknown:
            raise ConfigError(f"types: no line has the name {unknown[0]!r}; there are {', '.join(sorted(kinds))}")
        return Schema([self._feature(name, kind, rows) for name, kind in kinds.items()])

    def _feature(self, name: str, kind: _Kind, rows: int) -> Feature:
        dtype, shape, media = kind.decide()
        given = self.asked.types.get(name)
        if given is not None:
            dtype, media = given, ""
        optional = kind.present < rows
        return stored(name, dtype, shape, media=media, optional=optional, int64_lists=self.asked.int64_lists)

    def units(self) -> Sequence[Unit]:
        """List byte ranges of plain files, cut at line ends, and compressed files whole.

        Raises:
            SourceError: There is no file, or one cannot be read.
        """
        return self._units

    @cached_property
    def _units(self) -> list[Unit]:
        files = self.asked.files
        found = files.some(self.path, SUFFIXES)
        return [unit for file in found for unit in line_units(files, file)]

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, some thousand lines at a time."""
        schema = self.schema()
        texts = {feature.name for feature in schema if feature.media == "json"}
        lines: list[int] = []
        samples: list[Mapping[str, object]] = []
        for line, found in samples_of(self.asked.files, unit, on_bad):
            sample = {
                name: json.dumps(value) if name in texts and value is not None else value
                for name, value in found.items()
            }
            lines.append(line)
            samples.append(sample)
            if len(samples) == _CHUNK_ROWS:
                yield _chunk(schema, samples, unit, lines, on_bad)
                lines, samples = [], []
        if samples:
            yield _chunk(schema, samples, unit, lines, on_bad)


def _chunk(
    schema: Schema, samples: Sequence[Mapping[str, object]], unit: Unit, lines: Sequence[int], on_bad: OnBad
) -> Chunk:
    path = shown(unit.files[0].path)
    return chunk_of(schema, samples, lambda row: f"{path}:{lines[row]}", on_bad)


class _Kind:
    """Gather what the values of one name are."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.low = self.high = 0
        self.present = 0

    def add(self, value: object) -> None:
        """Take one more value into account."""
        if value is None:
            return
        self.present += 1
        if isinstance(value, list):
            self.seen |= {f"list of {self._scalar(item)}" for item in value} or {"list"}
        else:
            self.seen.add(self._scalar(value))

    def _scalar(self, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            self.low, self.high = min(self.low, value), max(self.high, value)
        return type(value).__name__

    def _integer(self) -> str:
        """Return the dtype that holds all integers seen; nothing where none does."""
        if self.low >= -(2**63) and self.high < 2**63:
            return "int64"
        return "uint64" if self.low >= 0 and self.high < 2**64 else ""

    def decide(self) -> tuple[str, tuple[None, ...], str]:
        """Return dtype, shape and media."""
        seen = {name.removeprefix("list of ") for name in self.seen if name != "list"}
        lists = {name.startswith("list") for name in self.seen}
        shape: tuple[None, ...] = (None,) if lists == {True} else ()
        if len(lists) == 1:
            if not seen:
                return "float64", shape, ""
            if seen == {"str"}:
                return "utf8", shape, ""
            if seen == {"bool"}:
                return "bool", shape, ""
            if seen == {"int"} and self._integer():
                return self._integer(), shape, ""
            if seen <= {"int", "float"} and "float" in seen:
                return "float64", shape, ""
        return "utf8", (), "json"


def samples_of(files: Files, unit: Unit, on_bad: OnBad) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (line number, flat object) of the lines of a unit.

    Args:
        files: What reaches its file.
        unit: What `line_units` made.
        on_bad: What to do with a line that is no object.
    """
    path = shown(unit.files[0].path)
    for line, data in lines_of(files, unit, on_bad):
        if not data.strip():
            continue
        try:
            found = _loads(data)
        except (ValueError, RecursionError) as exc:
            on_bad(BadItem(f"{path}:{line}", f"expected one JSON object: {exc}", data))
            continue
        yield line, found


def _loads(data: bytes) -> dict[str, object]:
    found = json.loads(data.decode(), object_pairs_hook=_unique, parse_float=_finite)
    if not isinstance(found, dict):
        hint = "; a file that is one array must be written as lines first" if isinstance(found, list) else ""
        raise ValueError(f"found {type(found).__name__}{hint}")  # noqa: TRY004  (one error for all that is no object)
    flat: dict[str, object] = {}
    _flatten("", found, flat)
    return flat


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"found {digits:.40}, a number too large for a float64: write it as a string")
    return number


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} stands there twice")
    return found


def _flatten(prefix: str, found: Mapping[str, object], out: dict[str, object]) -> None:
    for name, value in found.items():
        full = prefix + name
        if not full or not _is_text(full):
            raise ValueError(f"the name {full!r} is no name of a feature")
        if full in out:
            raise ValueError(f"the name {full!r} stands there twice")
        if isinstance(value, dict):
            _flatten(f"{full}.", value, out)
        else:
            out[full] = value


def _is_text(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)
