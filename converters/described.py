"""Read what Hugging Face's datasets library says of columns in the metadata of an Arrow schema.

It is JSON under the key `huggingface`: per column a nested description, whose `_type` names a class of that library.
What is not as that library writes it says nothing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_LISTS = ("List", "LargeList", "Sequence")
_MEDIA = {"Image": "image", "Audio": "audio", "Video": "video", "Pdf": "application/pdf"}
_ARRAY = re.compile(r"Array[2-5]D")


def features_of(schema: pa.Schema) -> object:
    """Return the descriptions of a schema's columns by name; None where there are none."""
    text = (schema.metadata or {}).get(b"huggingface")
    try:
        return json.loads(text)["info"]["features"] if text else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _type(spec: object) -> str:
    found = spec.get("_type") if isinstance(spec, dict) else None
    return found if isinstance(found, str) else ""


def below(spec: object, name: str) -> object:
    """Return the description of a field within one of a struct; None where there is none.

    A sequence of structs is stored as a struct of sequences, and so is each of its fields.
    """
    if not isinstance(spec, dict):
        return None
    if _type(spec) == "Sequence":
        inner = below(spec.get("feature"), name)
        return None if inner is None else {"_type": "List", "feature": inner}
    return None if _type(spec) else spec.get(name)


def _item(spec: object) -> object:
    """Return what the innermost items of lists are."""
    while True:
        if isinstance(spec, list) and len(spec) == 1:
            spec = spec[0]
        elif isinstance(spec, dict) and _type(spec) in _LISTS:
            spec = spec.get("feature")
        else:
            return spec


def classes_of(spec: object, kind: pa.DataType) -> tuple[str, ...]:
    """Return the names that the integers of a column stand for; none where it holds no labels.

    Args:
        spec: The column's description.
        kind: Its Arrow type: integers, or lists of them.
    """
    from pyarrow import types

    spec = _item(spec)
    if not isinstance(spec, dict) or _type(spec) != "ClassLabel" or not types.is_integer(_innermost(kind)):
        return ()
    names = spec.get("names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)


def _innermost(kind: pa.DataType) -> pa.DataType:
    from pyarrow import types

    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    return kind


def media_of(spec: object) -> str | None:
    """Return what the bytes of a file are, empty for a kind without a media type; None for what is no file."""
    found = _type(spec)
    return None if not found or found in (*_LISTS, "Value") else _MEDIA.get(found, "")


def array_kind(spec: object, kind: pa.DataType) -> pa.DataType | None:
    """Return the type of lists of the sizes that an array's description says; None for anything else.

    Args:
        spec: The column's description.
        kind: Its type: lists of lists of any length, perhaps wrapped as an extension.
    """
    import pyarrow as pa

    if not isinstance(spec, dict) or not _ARRAY.fullmatch(_type(spec)):
        return None
    made = _innermost(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)
    shape = spec.get("shape")
    if not isinstance(shape, list) or not all(size is None or (type(size) is int and size > 0) for size in shape):
        return None
    for size in reversed(shape):
        made = pa.list_(made) if size is None else pa.list_(made, size)
    return made
