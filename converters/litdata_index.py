"""Read what the index of LitData chunks says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from datafeed.converters.item_units import ItemFile
from datafeed.converters.names import shown
from datafeed.converters.shard_index import Index, count, mapping, sequence
from datafeed.converters.whole_file import Facts
from datafeed.errors import SourceError

Level = Literal["", "chunk", "batch", "sample"]
"""What is packed by itself: nothing, the file, runs of items, or each item."""

_GROWTH = 3  # about what zstd saves, where the index does not say how large a chunk is unpacked
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Config:
    """Say what all chunks of a data set hold.

    Args:
        columns: The name and the format of each leaf of an item.
        level: What is packed with zstd.
        tokens: Whether a chunk is one run of token ids.
        types: What the index says of the types of rows; nothing where it does not.
    """

    columns: tuple[tuple[str, str], ...]
    level: Level
    tokens: bool
    types: str


@dataclass(frozen=True, slots=True)
class Chunks:
    """Hold what an index says.

    Args:
        config: What the chunks hold.
        found: Their files.
        sizes: How many token ids each holds; 0 where it does not say.
    """

    config: Config
    found: tuple[ItemFile, ...]
    sizes: tuple[int, ...]


def chunks_of(index: Index) -> Chunks:
    """Return what an index says of its chunks.

    Raises:
        SourceError: It is no index of chunks, names files elsewhere, or says what is not read.
    """
    try:
        config = _config(mapping(index.says["config"]))
        entries = [mapping(entry) for entry in sequence(index.says["chunks"])]
        found = tuple(_file(index, entry, config.level) for entry in entries)
        return Chunks(config, found, tuple(count(entry.get("dim") or 0) for entry in entries))
    except SourceError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as exc:
        raise SourceError(
            f"{shown(index.file.path)}: no index of LitData chunks that are read: {_reason(exc)}"
        ) from exc


def _reason(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)


def _config(config: Mapping[str, object]) -> Config:
    if config.get("encryption"):
        raise ValueError("they are encrypted: decrypt them with LitData first")
    loader = config.get("item_loader") or "PyTreeLoader"
    if loader not in {"PyTreeLoader", "TokensLoader"}:
        advice = (
            "convert its parquet files themselves"
            if loader == "ParquetLoader"
            else "expected PyTreeLoader or TokensLoader"
        )
        raise ValueError(f"they were written for the item loader {loader!r}: {advice}")
    formats = [str(name) for name in sequence(config["data_format"])]
    tokens = loader == "TokensLoader"
    names = ["tokens"] if tokens else list(_names(config["data_spec"]))
    if len(names) != len(formats) or not names:
        raise ValueError(f"its data_spec has {len(names)} leaves, its data_format {len(formats)}")
    return Config(
        tuple(zip(names, formats, strict=True)), _level(config), tokens, json.dumps(config.get("types"), sort_keys=True)
    )


def _level(config: Mapping[str, object]) -> Level:
    packed = config.get("compression")
    if not packed:
        return ""
    if str(packed).partition(":")[0] != "zstd":
        raise ValueError(f"they are packed with {packed!r}, expected zstd")
    level = config.get("compression_level") or "chunk"
    if level not in {"chunk", "batch", "sample"}:
        raise ValueError(f"its compression_level is {level!r}, expected chunk, batch or sample")
    return level


def _names(spec: object) -> Iterator[str]:
    """Yield a name for each leaf of a tree as torch's pytree writes it: keys and numbers, joined by dots."""
    version, root = sequence(json.loads(str(spec)))
    if version != 1:
        raise ValueError(f"its data_spec is of version {version!r}, expected 1")
    if mapping(root)["type"] is None:
        yield "value"
    else:
        yield from _walk(mapping(root), (), 0)


def _walk(node: Mapping[str, object], above: tuple[str, ...], depth: int) -> Iterator[str]:
    kind = node["type"]
    if kind is None:
        yield ".".join(above)
        return
    children = [mapping(child) for child in sequence(node["children_spec"])]
    if kind in {"builtins.list", "builtins.tuple", "collections.deque"}:
        keys = [str(number) for number in range(len(children))]
    elif kind in {"builtins.dict", "collections.OrderedDict"}:
        keys = [str(key) for key in sequence(json.loads(str(node["context"])))]
    else:
        raise ValueError(f"its items hold a {kind!r}, expected dicts, lists and tuples")
    if depth > _DEEPEST or len(keys) != len(children):
        raise ValueError("its data_spec is no tree that is read")
    for key, child in zip(keys, children, strict=True):
        yield from _walk(child, (*above, key), depth + 1)


def _file(index: Index, entry: Mapping[str, object], level: Level) -> ItemFile:
    file = index.find(entry["filename"])
    nbytes = count(entry["chunk_bytes"])
    fault = ""
    if file is None:
        fault = "its index names it, and it is not there"
    elif level != "chunk" and file.nbytes != nbytes:
        fault = f"its index says {nbytes} bytes, it has {file.nbytes}"
    where = f"{shown(index.file.path)}: {shown(str(entry['filename']))}" if file is None else shown(file.path)
    facts = Facts("zstd" if level == "chunk" else "", nbytes)
    return ItemFile(where, index.file if file is None else file, count(entry["chunk_size"]), facts, fault)


def unpacked_nbytes(config: Config, nbytes: int) -> int:
    """Estimate how large the items of a chunk are."""
    return nbytes * _GROWTH if config.level in {"batch", "sample"} else nbytes
