"""Write parquet files that pyarrow and Hugging Face's datasets read.

Columns go into Arrow's arrays as they are. A feature that may be missing is nullable; fixed shapes become lists of a
fixed size, ragged ones lists. Integers that stand for times become what they were, classes and images what datasets
calls them, in the metadata under its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from datafeed.columns import Array, Column, Offsets
from datafeed.converters.block_runs import BlockRun
from datafeed.converters.export_form import Exported, Facts, Output, Shard, SinkFile, refuse
from datafeed.errors import MissingExtra, SchemaError
from datafeed.schema import Feature, Schema

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_NBYTES = 64 * 2**20
_LARGEST = 2**31 - 1  # of Arrow's usual offsets
_TIMES = {
    "date32[day]": "int32",
    "time32[ms]": "int32",
    **{f"{kind}[{unit}]": "int64" for kind in ("time64", "timestamp", "duration") for unit in ("us", "ns")},
    "timestamp[ms]": "int64",
    "duration[ms]": "int64",
    "duration[s]": "int64",
}


@dataclass(frozen=True)
class ParquetForm:
    """Write a file per shard, in row groups of about 64 MB.

    Args:
        exported: What is exported.
    """

    exported: Exported

    def __post_init__(self) -> None:
        try:
            import pyarrow.parquet  # noqa: F401  (asked for before anything is written)
        except ImportError as exc:
            raise MissingExtra("pyarrow", "parquet", "to write parquet") from exc
        fitting = [feature for feature in self.schema if 0 not in feature.shape]
        for feature in self.schema:
            if feature not in fitting:
                raise refuse("parquet", feature, f"lists of size 0 (shape {feature.shape})", fitting)

    @property
    def schema(self) -> Schema:
        """The features that are wanted."""
        return self.exported.schema

    def versions(self) -> Mapping[str, str]:
        """Return the version of pyarrow."""
        import pyarrow as pa

        return {"pyarrow": pa.__version__}

    def write(self, out: Output, shard: Shard, runs: Iterator[BlockRun]) -> Facts:
        """Write one file."""
        import pyarrow as pa
        from pyarrow import parquet

        schema = arrow_schema(self.schema)
        packing = {feature.name: "none" if feature.is_image else "zstd" for feature in self.schema}
        flat = {_leaf(field): packing[field.name] for field in schema}
        options = {"compression": flat, "use_dictionary": _repeating(self.schema)}
        with (
            out.file(f"{shard.stem}.parquet") as sink,
            SinkFile(sink) as file,
            parquet.ParquetWriter(file, schema, **options) as writer,
        ):
            for batches in _groups(self._batches(runs, schema)):
                table = pa.Table.from_batches(batches)
                writer.write_table(table, row_group_size=max(len(table), 1))
        return ()

    def _batches(self, runs: Iterator[BlockRun], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for run in runs:
            arrays = [
                array_of(feature, run.columns[feature.name], schema.field(feature.name).type) for feature in self.schema
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write nothing: each file says what it holds."""


def _leaf(field: pa.Field) -> str:
    """Return the path of what a column's values lie in, as parquet calls it."""
    from pyarrow import types

    path, kind = str(field.name), field.type
    while types.is_nested(kind):
        inner = kind.field(0)
        path += f".{inner.name}" if types.is_struct(kind) else ".list.element"
        kind = inner.type
    return path


def _repeating(schema: Schema) -> list[str]:
    return [feature.name for feature in schema if feature.classes or (feature.dtype == "utf8" and not feature.shape)]


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    held: list[pa.RecordBatch] = []
    nbytes = 0
    for batch in batches:
        held.append(batch)
        nbytes += batch.nbytes
        if nbytes >= GROUP_NBYTES:
            yield held
            held, nbytes = [], 0
    if held:
        yield held


def arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of features, with the metadata that Hugging Face's datasets reads."""
    import pyarrow as pa

    told: dict[str, object] = {}
    for feature in schema:
        if feature.classes and not feature.shape and feature.dtype == "int64":
            told[feature.name] = {"names": list(feature.classes), "_type": "ClassLabel"}
        elif _is_file(feature):
            told[feature.name] = {"_type": "Image"}
    # datasets takes what is told of a column only where it is nullable.
    fields = [pa.field(one.name, _type(one), nullable=one.optional or one.name in told) for one in schema]
    metadata = {"huggingface": json.dumps({"info": {"features": told}})} if told else None
    return pa.schema(fields, metadata)


def _is_file(feature: Feature) -> bool:
    return feature.is_image and not feature.shape


def _type(feature: Feature) -> pa.DataType:
    import pyarrow as pa

    if _is_file(feature):
        return pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    kind = _scalar(feature)
    for place, size in reversed(list(enumerate(feature.shape))):
        kind = pa.list_(kind) if size is None and place == 0 else pa.list_(kind, size)
    return kind


def _scalar(feature: Feature) -> pa.DataType:
    import pyarrow as pa

    if not feature.numeric:
        return pa.string() if feature.dtype == "utf8" else pa.binary()
    kind, _, zone = feature.media.partition(", tz=")
    plain = f"{kind}]" if zone else kind
    if feature.shape or _TIMES.get(plain) != feature.dtype:
        return pa.from_numpy_dtype(feature.numpy_dtype)
    name, _, unit = plain.removesuffix("]").partition("[")
    if name == "timestamp":
        return pa.timestamp(unit, zone.removesuffix("]") or None)
    if name == "date32":
        return pa.date32()
    return {"time32": pa.time32, "time64": pa.time64, "duration": pa.duration}[name](unit)


def array_of(feature: Feature, column: Column, kind: pa.DataType) -> pa.Array:
    """Return a column as an Arrow array of a type of `arrow_schema`."""
    import pyarrow as pa

    lacks = None if column.present is None or column.present.all() else ~column.present
    if not feature.numeric and not feature.shape:
        assert column.offsets is not None
        if not _is_file(feature):
            return _bytes(kind, column.values, column.offsets, lacks)
        data = _bytes(pa.binary(), column.values, column.offsets, None)
        path = pa.nulls(len(data), pa.string())
        return pa.StructArray.from_arrays([data, path], ["bytes", "path"], mask=_mask(lacks))
    if feature.ragged:
        flat = _flat(feature, column, kind.value_type)
        return pa.ListArray.from_arrays(_offsets(feature, column.offsets), flat, type=kind, mask=_mask(lacks))
    if not feature.shape:
        found = pa.array(column.values, mask=lacks)
        return found if found.type == kind else found.view(kind)
    if feature.numeric:
        flat = _fixed(column.values.reshape(-1), kind.value_type)
    else:
        assert column.offsets is not None
        flat = _flat(feature, column, kind.value_type)
        if lacks is not None:
            flat = flat.take(
                pa.array(
                    np.repeat(column.offsets[:-1], kind.list_size) + np.tile(np.arange(kind.list_size), len(lacks)),
                    mask=np.repeat(lacks, kind.list_size),
                )
            )
    return pa.FixedSizeListArray.from_arrays(flat, type=kind, mask=_mask(lacks))


def _mask(lacks: npt.NDArray[np.bool_] | None) -> pa.Array:
    import pyarrow as pa

    return None if lacks is None else pa.array(lacks)


def _flat(feature: Feature, column: Column, kind: pa.DataType) -> pa.Array:
    """Return what lies in the lists of a column."""
    if feature.numeric:
        return _fixed(column.values.reshape(-1), kind)
    assert column.inner is not None
    return _bytes(kind, column.values, column.inner, None)


def _fixed(values: Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa
    from pyarrow import types

    if types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(_fixed(values, kind.value_type), type=kind)
    return pa.array(values)


def _bytes(kind: pa.DataType, values: Array, offsets: Offsets, lacks: npt.NDArray[np.bool_] | None) -> pa.Array:
    import pyarrow as pa

    if offsets[-1] > _LARGEST:
        raise SchemaError(f"some MB of records hold {offsets[-1]} bytes: parquet takes 2 GiB at once")
    valid = None if lacks is None else pa.array(~lacks).buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def _offsets(feature: Feature, offsets: Offsets | None) -> pa.Array:
    import pyarrow as pa

    assert offsets is not None
    if offsets[-1] > _LARGEST:
        raise SchemaError("some MB of records hold over 2**31 items: parquet takes fewer at once", feature=feature.name)
    return pa.array(offsets.astype(np.int32))
