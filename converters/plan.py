"""Plan a conversion: what is read, how it is encoded, what comes of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from datafeed import __version__
from datafeed.converters.sample import Sample, take_sample
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.source import Source, Unit
from datafeed.converters.tasks import Task, cut_tasks
from datafeed.errors import EmptySource, SchemaError
from datafeed.frames import zstd_version
from datafeed.header import DatasetHeader, make_header
from datafeed.schema import Schema
from datafeed.storage import masked


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Say what a conversion will do; it depends on the source and the options alone.

    Args:
        source: Where the samples come from.
        name: What the user called it.
        tasks: The work, in order.
        header: What every shard will say about the dataset; its id names the plan.
        records: The number of records, estimated.
        raw_bytes: Their raw bytes, estimated.
        stored_bytes: What they take in the shards, estimated.
        shards: The number of shards, estimated.
        seconds: How long one core takes, estimated.
        notes: What a person should know about the source.
    """

    source: Source
    name: str
    tasks: tuple[Task, ...]
    header: DatasetHeader
    records: int
    raw_bytes: int
    stored_bytes: int
    shards: int
    seconds: float
    notes: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        """What a record holds."""
        return self.header.schema

    @property
    def level(self) -> int:
        """The zstd level."""
        return self.header.level


def make_plan(source: Source, name: str, options: ConvertOptions, onto: DatasetHeader | None = None) -> Plan:
    """Plan a conversion: list the source, read its schema and a small sample of it.

    Args:
        source: Where the samples come from.
        name: What the user called it.
        options: How to convert.
        onto: The dataset to which the samples are to be appended, whose sizes, level and schema then hold.

    Returns:
        The plan.

    Raises:
        SchemaError: The samples do not fit the dataset.
        SourceError: The source cannot be read, or it is empty.
    """
    schema = source.schema()
    units = source.units()
    tasks = cut_tasks(units)
    if not tasks:
        raise EmptySource(f"nothing to convert in {name}: expected at least one sample, found no file or row")
    sizes = (options.block_nbytes, options.extent_nbytes, options.level)
    if onto is not None:
        schema = fitting(schema, onto.schema)
        sizes = (onto.block_size, onto.extent_size, onto.level)
    sample = take_sample(source, schema, tasks, sizes[0], sizes[2])
    provenance = {
        "source": name,
        "kind": source.kind,
        "options": {"shard_size": options.shard_nbytes, "limit": options.limit, **source.options()},
        "writer": f"datafeed {__version__}",
        "zstd": zstd_version(),
        "listing": _listing(units),
    }
    header = make_header(
        schema,
        block_size=sizes[0],
        level=sample.level,
        provenance=provenance,
        extent_size=sizes[1],
    )
    records, raw = _estimate(tasks, sample, options.limit)
    stored = round(raw * sample.share)
    shards = max(round(stored / options.shard_nbytes), 1)
    seconds = raw / sample.raw * sample.seconds if sample.raw else 0.0
    return Plan(source, name, tuple(tasks), header, records, raw, stored, shards, seconds, tuple(source.notes()))


def fitting(schema: Schema, wanted: Schema) -> Schema:
    """Return the schema of a dataset, where samples of another one fit it.

    Args:
        schema: What the samples hold.
        wanted: What the dataset holds.

    Raises:
        SchemaError: They differ in a feature; it is named.
    """
    found = {feature.name: feature for feature in schema}
    for feature in wanted:
        have = found.pop(feature.name, None)
        if have is None:
            raise SchemaError(f"the dataset has {feature.to_json()}, the source lacks it", feature=feature.name)
        alike = replace(have, optional=feature.optional, media=feature.media)
        if alike != feature or (have.optional and not feature.optional):
            reason = f"the dataset has {feature.to_json()}, the source {have.to_json()}"
            raise SchemaError(f"{reason}: convert it by itself, or write it alike", feature=feature.name)
    if found:
        name = next(iter(found))
        raise SchemaError("the source has it, the dataset does not: leave it out with `columns`", feature=name)
    return wanted


def _estimate(tasks: Iterable[Task], sample: Sample, limit: int | None) -> tuple[int, int]:
    """Estimate records and raw bytes."""
    raw = sum(task.nbytes for task in tasks)
    if not sample.records:
        return 0, raw
    each = sample.raw / sample.records
    records = max(round(raw / each), 1)
    if limit is not None and limit < records:
        return limit, round(limit * each)
    return records, raw


def _listing(units: Iterable[Unit]) -> str:
    """Return the SHA-256 of the units' names, whose URLs may be signed anew, and their files' sizes."""
    digest = hashlib.sha256()
    for unit in units:
        text = "\0".join([masked(unit.name), *(str(stamp.nbytes) for stamp in unit.files)])
        digest.update(text.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()


def differences(old: DatasetHeader, new: DatasetHeader) -> list[str]:
    """Say in what two plans differ.

    Args:
        old: The plan that stands in the destination.
        new: The plan that is asked for.

    Returns:
        One text per difference, "name: old -> new"; none for the same plan.
    """
    before, after = _flat(old), _flat(new)
    keys = [*before, *(key for key in after if key not in before)]
    return [
        f"{key}: {before.get(key, 'nothing')!r} -> {after.get(key, 'nothing')!r}"
        for key in keys
        if before.get(key) != after.get(key)
    ]


def _flat(header: DatasetHeader) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in header.provenance.items():
        if isinstance(value, Mapping):
            flat.update(value)
        else:
            flat[key] = value
    flat |= {field.name: getattr(header, field.name) for field in fields(header) if field.name in _FACTS}
    flat |= {f"feature {feature.name}": feature.to_json() for feature in header.schema}
    return flat


_FACTS = ("block_size", "extent_size", "level")
