"""Describe a schema to people."""

from __future__ import annotations

from datafeed.commands.terminal import safe, table
from datafeed.schema import Feature, Schema

_SHOWN_CLASSES = 5


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
        notes.append(f"{len(feature.classes)} classes: {shown}{more}")
    return "; ".join(notes)
