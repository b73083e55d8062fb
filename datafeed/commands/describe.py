"""Describe datasets to people."""

from __future__ import annotations

import json

from datafeed.commands.terminal import safe, table
from datafeed.manifest import Manifest
from datafeed.schema import Feature, Schema
from datafeed.sizes import counted, format_size

_SHOWN_CLASSES = 5


def describe_dataset(url: str, manifest: Manifest) -> str:
    """Return the lines of `datafeed info`: counts and sizes, schema, origin."""
    return "\n".join(
        [
            table([(name, value) for name, value in _lines(url, manifest) if value]),
            "",
            "schema",
            _indented(describe_schema(manifest.schema)),
            "",
            "made from",
            _indented(table([(safe(name), safe(_plain(value))) for name, value in _origin(manifest)])),
        ]
    )


def _lines(url: str, manifest: Manifest) -> list[tuple[str, str]]:
    header = manifest.header
    sizes = sorted(shard.nbytes for shard in manifest.shards)
    between = f", {format_size(sizes[0])} to {format_size(sizes[-1])} each" if len(sizes) > 1 else ""
    packed = f"zstd level {header.level}" if manifest.codec == "zstd" else "plain TFRecord, read in place"
    ratio = f", ratio {manifest.raw_bytes / manifest.nbytes:.2f}" if manifest.codec == "zstd" and sizes else ""
    blocks = sum(shard.blocks for shard in manifest.shards)
    return [
        ("dataset", safe(url)),
        ("id", manifest.dataset_id),
        ("records", f"{manifest.records:,}"),
        ("shards", f"{len(sizes):,}{between}"),
        ("blocks", f"{blocks:,} of up to {header.block_size:,} raw bytes"),
        ("raw", f"{format_size(manifest.raw_bytes)}, {_each(manifest.raw_bytes, manifest.records)} a record"),
        ("stored", f"{format_size(manifest.nbytes)}, {packed}{ratio}"),
        ("skipped", f"{counted(manifest.skipped, 'bad item')} of the source" if manifest.skipped else ""),
    ]


def _each(nbytes: int, records: int) -> str:
    return format_size(nbytes / records) if records else "none"


def _origin(manifest: Manifest) -> list[tuple[str, object]]:
    flat: list[tuple[str, object]] = []
    for name, value in manifest.header.provenance.items():
        flat += value.items() if isinstance(value, dict) else [(name, value)]
    return [(name, value) for name, value in flat if value is not None]


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def describe_schema(schema: Schema) -> str:
    """Return one line per feature: its name, type, how it is kept, and what else is known."""
    return table([(safe(feature.name), _type(feature), feature.kind, _notes(feature)) for feature in schema])


def _type(feature: Feature) -> str:
    if not feature.shape:
        return feature.dtype
    sizes = ", ".join("any" if size is None else str(size) for size in feature.shape)
    return f"{feature.dtype}[{sizes}]"


def _notes(feature: Feature) -> str:
    notes = [feature.media] if feature.media else []
    if feature.optional:
        notes.append("may be missing")
    if feature.classes:
        shown = ", ".join(map(safe, feature.classes[:_SHOWN_CLASSES]))
        more = ", ..." if len(feature.classes) > _SHOWN_CLASSES else ""
        notes.append(f"{counted(len(feature.classes), 'class')}: {shown}{more}")
    return "; ".join(notes)
