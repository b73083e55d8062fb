"""Write MosaicML Streaming's MDS shards, and their index.json.

A shard of the dataset becomes shards of at most 64 MB raw, not packed, with their SHA-256 in the index. Booleans become
uint8, as MDS has none; the names of classes are left to the record of the export.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from datafeed.columns import offsets_of
from datafeed.converters.block_runs import BlockRun
from datafeed.converters.export_form import Exported, Facts, Output, Shard, refuse
from datafeed.converters.export_mds_samples import Samples, encoded, fixed_nbytes
from datafeed.schema import Feature, Schema

SIZE_LIMIT = 2**26
_VERSION = 2
_HASH = "sha256"
_MEDIA = {"image/jpeg": "jpeg", "image/png": "png"}


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
            "column_sizes": [fixed_nbytes(feature) for feature in self.schema],
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
        for held in _groups(self._samples(runs), len(config)):
            name = f"{shard.stem}-{len(facts):05d}.mds"
            sizes = np.concatenate([samples.sizes for samples in held])
            offsets = offsets_of(sizes) + 8 + 4 * len(sizes) + len(config)
            head = len(sizes).to_bytes(4, "little") + offsets.astype("<u4").tobytes() + config
            digest = hashlib.sha256(head)
            with out.file(name) as sink:
                sink.write(head)
                for samples in held:
                    sink.write(samples.data.data)
                    digest.update(samples.data.data)
            raw = {"basename": name, "bytes": int(offsets[-1]), "hashes": {_HASH: digest.hexdigest()}}
            facts.append({"raw_data": raw, "samples": len(sizes)})
        return facts

    def _samples(self, runs: Iterator[BlockRun]) -> Iterator[Samples]:
        for run in runs:
            yield encoded(self.schema.features, [run.columns[feature.name] for feature in self.schema], run.rows)

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write index.json."""
        shards = [{**self._config, **fact, "zip_data": None} for found in facts for fact in found]
        with out.file("index.json") as sink:
            sink.write(json.dumps({"shards": shards, "version": _VERSION}, sort_keys=True).encode())


def _groups(runs: Iterator[Samples], before: int) -> Iterator[list[Samples]]:
    """Yield as many samples as fit into a file, one at least."""
    held: list[Samples] = []
    room = SIZE_LIMIT - before - 8
    for run in runs:
        fills = offsets_of(run.sizes + 4)
        low = 0
        while low < len(run.sizes):
            high = int(np.searchsorted(fills, fills[low] + room, "right")) - 1
            if high <= low and held:
                yield held
                held, room = [], SIZE_LIMIT - before - 8
                continue
            high = max(high, low + 1)
            held.append(run.between(low, high))
            room -= int(fills[high] - fills[low])
            low = high
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
