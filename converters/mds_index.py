"""Read what the index of MDS shards says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from datafeed.converters.item_units import ItemFile
from datafeed.converters.names import shown
from datafeed.converters.shard_index import Index, count, mapping, sequence
from datafeed.converters.whole_file import HASHES, PACKINGS, Facts
from datafeed.errors import SourceError

_VERSION = 2


@dataclass(frozen=True, slots=True)
class Shard:
    """Hold what an index says of a shard.

    Args:
        found: Its file.
        columns: The names and encodings of its columns.
        unknown: The hashes that the index gives and Python's hashlib lacks.
    """

    found: ItemFile
    columns: tuple[tuple[str, str], ...]
    unknown: tuple[str, ...]


def shards_of(index: Index) -> list[Shard]:
    """Return the shards that an index names.

    Raises:
        SourceError: It is no index of MDS shards, is of another version, or names files elsewhere.
    """
    try:
        if index.says["version"] != _VERSION:
            raise SourceError(f"{shown(index.file.path)}: expected version {_VERSION}, found {index.says['version']!r}")
        return [_shard(index, mapping(entry)) for entry in sequence(index.says["shards"])]
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        if isinstance(exc, SourceError):
            raise
        raise SourceError(f"{shown(index.file.path)} is no index of MDS shards: {type(exc).__name__}: {exc}") from exc


def _shard(index: Index, entry: Mapping[str, object]) -> Shard:
    if entry["format"] != "mds":
        raise SourceError(f"{shown(index.file.path)}: expected shards of format 'mds', found {entry['format']!r}")
    raw = mapping(entry["raw_data"])
    zipped = mapping(entry.get("zip_data") or {})
    packed = ""
    file, told = index.find(raw["basename"]), raw
    if file is None and zipped:
        file, told, packed = index.find(zipped["basename"]), zipped, _packing(index, entry["compression"])
    hashes = {name: str(value) for name, value in mapping(told.get("hashes") or {}).items()}
    known = tuple((name, hashes[name]) for name in sorted(hashes) if name in HASHES)
    fault = ""
    if file is None:
        fault = "its index names it, and it is not there"
    elif file.nbytes != told["bytes"]:
        fault = f"its index says {told['bytes']} bytes, it has {file.nbytes}"
    where = f"{shown(index.file.path)}: {shown(str(told['basename']))}" if file is None else shown(file.path)
    facts = Facts(packed, count(raw["bytes"]), known)
    found = ItemFile(where, index.file if file is None else file, count(entry["samples"]), facts, fault)
    return Shard(found, _columns(entry), tuple(sorted(set(hashes) - HASHES)))


def _packing(index: Index, compression: object) -> str:
    name = str(compression).partition(":")[0]
    if name not in PACKINGS:
        raise SourceError(
            f"{shown(index.file.path)}: shards packed with {name!r} are not read, only {', '.join(PACKINGS)}: unpack "
            "them beside the index, under the names that it gives"
        )
    return name


def _columns(entry: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    names, encodings = sequence(entry["column_names"]), sequence(entry["column_encodings"])
    columns = tuple((str(name), str(encoding)) for name, encoding in zip(names, encodings, strict=True))
    if not columns:
        raise ValueError("a shard has no column")
    return columns
