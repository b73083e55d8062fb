"""Write NumPy's .npy files, one for each feature of a shard; a dataset of one shard has one for each feature.

A file is named by its feature and the shard's number, which makes those of one feature parts of one array.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from datafeed.converters.block_runs import BlockRun
from datafeed.converters.export_form import Exported, Facts, Output, Shard, refuse
from datafeed.schema import Feature, Schema

_PLAIN = re.compile(r"[^\W\d][\w .-]*")
_TRIMMED = "-_. "  # at the ends of what names an array of several parts (`array_names`)


@dataclass(frozen=True)
class NpyForm:
    """Write numbers of fixed shape.

    Args:
        exported: What is exported.
    """

    exported: Exported

    def __post_init__(self) -> None:
        alike = Counter(_without_digits(feature) for feature in self.schema)
        lacks = [self._lack(feature, alike[_without_digits(feature)]) for feature in self.schema]
        fitting = [feature for feature, lack in zip(self.schema, lacks, strict=True) if not lack]
        for feature, lack in zip(self.schema, lacks, strict=True):
            if lack:
                raise refuse("npy", feature, lack, fitting)

    def _lack(self, feature: Feature, alike: int) -> str:
        """Return why a feature has no array; empty where it has."""
        if not feature.numeric or feature.ragged:
            return "what differs in size" if feature.numeric else feature.dtype
        if feature.optional:
            return "what may be missing"
        if 0 in feature.shape:
            return f"rows of nothing (shape {feature.shape})"
        name = feature.name
        if not _PLAIN.fullmatch(name) or name[-1] in _TRIMMED:
            return "a feature whose name is no file's name"
        if self.exported.several and (name[0] in _TRIMMED or name != _without_digits(feature)):
            return "a feature whose name begins with _ or has digits, as digits number the shards' files"
        return "features whose names differ in digits alone, as such files are parts of one array" if alike > 1 else ""

    @property
    def schema(self) -> Schema:
        """The features that are wanted."""
        return self.exported.schema

    def versions(self) -> Mapping[str, str]:
        """Return nothing: the format is fixed."""
        return {}

    def write(self, out: Output, shard: Shard, runs: Iterator[BlockRun]) -> Facts:
        """Write the files of one shard, all at once."""
        number = f"-{shard.number:06d}" if self.exported.several else ""
        with ExitStack() as stack:
            sinks = {
                feature.name: stack.enter_context(out.file(f"{feature.name}{number}.npy")) for feature in self.schema
            }
            for feature in self.schema:
                sinks[feature.name].write(_header(feature, shard.records))
            for run in runs:
                for feature in self.schema:
                    sinks[feature.name].write(np.ascontiguousarray(run.columns[feature.name].values).data)
        return ()

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write nothing: each file says what it holds."""


def _without_digits(feature: Feature) -> str:
    return re.sub(r"\d+", "", feature.name)


def _header(feature: Feature, rows: int) -> bytes:
    head = io.BytesIO()
    described = {
        "descr": np.lib.format.dtype_to_descr(feature.numpy_dtype),
        "fortran_order": False,
        "shape": (rows, *feature.row_shape),
    }
    np.lib.format.write_array_header_1_0(head, described)
    return head.getvalue()
