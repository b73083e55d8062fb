"""Write MosaicML Streaming's MDS shards, and their index.json.

A shard of the dataset becomes shards of at most 64 MB raw, not packed, with their SHA-256 in the index. Booleans become
uint8, as MDS has none; the names of classes are left to the record of the export.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from datafeed.columns import Column
from datafeed.converters.block_runs import BlockRun
from datafeed.converters.export_form import Exported, Facts, Output, Shard, refuse
from datafeed.schema import Feature, Schema

SIZE_LIMIT = 2**26
_VERSION = 2
_HASH = "sha256"
_MEDIA = {"image/jpeg": "jpeg", "image/png": "png"}

_Part = Callable[[int], bytes]
"""Gives the bytes of a row."""


@dataclass(frozen=True)
class MdsForm:
    """Write one shard after the other as MDS has it.

    Args:
        exported: What is exported.
    """

    exported: Exported

    def __post_init__(self) -> None:
        fitting = [feature for feature in self.schema if not _lack(feature)]
        for feature in self.schema:
            if feature not in fitting:
                raise refuse("mds", feature, _lack(feature), fitting)

    @property
    def schema(self) -> Schema:
        """The features that are wanted."""
        return self.exported.schema

    def versions(self) -> Mapping[str, str]:
        """Return nothing: the format is fixed."""
        return {}

    @property
    def _config(self) -> dict[str, object]:
        return {
            "column_encodings": [_encoding(feature) for feature in self.schema],
            "column_names": [feature.name for feature in self.schema],
            "column_sizes": [_nbytes(feature) for feature in self.schema],
            "compression": None,
            "format": "mds",
            "hashes": [_HASH],
            "size_limit": SIZE_LIMIT,
            "version": _VERSION,
        }

    def write(self, out: Output, shard: Shard, runs: Iterator[BlockRun]) -> Facts:
        """Write the files of one shard; the facts are their entries in the index."""
        config = json.dumps(self._config, sort_keys=True).encode()
        facts: list[Mapping[str, object]] = []
        for samples in _groups(self._samples(runs), len(config)):
            name = f"{shard.stem}-{len(facts):05d}.mds"
            offsets = np.cumsum([8 + 4 * len(samples) + len(config), *map(len, samples)])
            head = np.array([len(samples), *offsets], "<u4").tobytes() + config
            digest = hashlib.sha256(head)
            with out.file(name) as sink:
                sink.write(head)
                for sample in samples:
                    sink.write(sample)
                    digest.update(sample)
            raw = {"basename": name, "bytes": int(offsets[-1]), "hashes": {_HASH: digest.hexdigest()}}
            facts.append({"raw_data": raw, "samples": len(samples)})
        return facts

    def _samples(self, runs: Iterator[BlockRun]) -> Iterator[bytes]:
        for run in runs:
            parts = [(_part(feature, run.columns[feature.name]), _nbytes(feature)) for feature in self.schema]
            for row in range(run.rows):
                values = [(part(row), fixed) for part, fixed in parts]
                sizes = np.array([len(value) for value, fixed in values if fixed is None], "<u4")
                yield b"".join([sizes.tobytes(), *(value for value, _ in values)])

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write index.json."""
        shards = [{**self._config, **fact, "zip_data": None} for found in facts for fact in found]
        with out.file("index.json") as sink:
            sink.write(json.dumps({"shards": shards, "version": _VERSION}, sort_keys=True).encode())


def _groups(samples: Iterator[bytes], before: int) -> Iterator[list[bytes]]:
    """Yield as many samples as fit into a file, one at least."""
    held: list[bytes] = []
    nbytes = before + 8
    for sample in samples:
        if held and nbytes + len(sample) + 4 > SIZE_LIMIT:
            yield held
            held, nbytes = [], before + 8
        held.append(sample)
        nbytes += len(sample) + 4
    if held:
        yield held


def _lack(feature: Feature) -> str:
    """Return why MDS has no encoding for a feature; empty where it has."""
    if feature.optional:
        return "what may be missing"
    if not feature.numeric and feature.shape:
        return f"lists of {feature.dtype}"
    return f"arrays of nothing (shape {feature.shape})" if 0 in feature.shape else ""


def _encoding(feature: Feature) -> str:
    if not feature.numeric:
        return _MEDIA.get(feature.media, "bytes") if feature.dtype == "bytes" else _text(feature)
    dtype = "uint8" if feature.dtype == "bool" else feature.dtype
    if not feature.shape:
        return dtype
    return f"ndarray:{dtype}" if feature.ragged else f"ndarray:{dtype}:{','.join(map(str, feature.row_shape))}"


def _text(feature: Feature) -> str:
    return "json" if feature.media == "json" else "str"


def _nbytes(feature: Feature) -> int | None:
    """Return the size of a feature's values; None where they differ."""
    if not feature.numeric or feature.ragged:
        return None
    return feature.row_items * feature.numpy_dtype.itemsize


def _part(feature: Feature, column: Column) -> _Part:
    """Return what gives the bytes of each row of a column."""
    if column.offsets is None:
        size = feature.row_items * feature.numpy_dtype.itemsize
        data = column.values.tobytes()
        return lambda row: data[row * size : (row + 1) * size]
    bounds = list(pairwise(column.offsets.tolist()))
    if not feature.numeric:
        text = column.values.tobytes()
        return lambda row: text[slice(*bounds[row])]
    return lambda row: _array(column.values[slice(*bounds[row])])


def _array(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    """Return an array with its shape before it: 4 times the rank plus log2 of the bytes of a dimension, then those."""
    largest = max(values.shape)
    code = next(code for code in range(4) if largest < 1 << (8 << code))
    shape = np.array(values.shape, f"<u{1 << code}").tobytes()
    return bytes([len(values.shape) << 2 | code]) + shape + values.tobytes()
