"""Describe what a record holds.

A schema is a sequence of features. Each names how its values are kept in the tf.train.Example (`kind`) and what they
are for the reader (`dtype`, `shape`, `media`):

- numbers are an int64 list (`kind="int64"`), a float list (`kind="float"`), or one bytes value that holds the array's
  raw little-endian bytes (`kind="bytes"` with a numeric dtype): a varint per element is slow to read;
- `dtype="bytes"` and `dtype="utf8"` are bytes values as they are.

`shape=()` is a scalar. A leading None is a ragged dimension: its length differs from record to record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from datafeed.errors import SchemaError

Kind = Literal["bytes", "int64", "float"]
Shape = tuple[int | None, ...]

INTEGER = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMERIC = (*INTEGER, "float16", "float32", "float64")
DTYPES = (*NUMERIC, "bytes", "utf8")


@dataclass(frozen=True, slots=True)
class Feature:
    """Describe one feature of every record.

    Args:
        name: Its key in the tf.train.Example.
        kind: The list of tf.train.Feature that holds it.
        dtype: One of `DTYPES`.
        shape: Its dimensions without the batch; only the first may be None (ragged).
        media: What bytes are: "image/jpeg", "image/png", "image/webp", "image" for a mix of them, "json", or nothing.
        optional: Whether a record may lack it.
        classes: The names that an integer label stands for.

    Raises:
        SchemaError: The fields contradict each other.
    """

    name: str
    kind: Kind
    dtype: str
    shape: Shape = ()
    media: str = ""
    optional: bool = False
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.kind not in get_args(Kind) or self.dtype not in DTYPES:
            raise SchemaError(f"unknown kind {self.kind!r} or dtype {self.dtype!r}", feature=self.name)
        fits = {
            "int64": self.dtype in INTEGER and self.dtype != "uint64",
            "float": self.dtype == "float32",
            "bytes": self.numeric or len(self.shape) <= 1,
        }
        if not fits[self.kind]:
            raise SchemaError(f"kind {self.kind!r} cannot hold dtype {self.dtype!r} {self.shape}", feature=self.name)
        if any(size is None for size in self.shape[1:]) or any(size is not None and size < 0 for size in self.shape):
            raise SchemaError(f"shape {self.shape}: only the first dimension may be None", feature=self.name)

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return self.dtype in NUMERIC

    @property
    def raw(self) -> bool:
        """Whether it is an array kept as its raw little-endian bytes."""
        return self.kind == "bytes" and self.numeric

    @property
    def ragged(self) -> bool:
        """Whether its first dimension differs from record to record."""
        return bool(self.shape) and self.shape[0] is None

    @property
    def is_image(self) -> bool:
        """Whether its bytes are an encoded image."""
        return self.media == "image" or self.media.startswith("image/")

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The fixed dimensions: all of them, or those after the ragged one."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def row_items(self) -> int:
        """How many items `row_shape` holds."""
        return math.prod(self.row_shape)

    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The numpy dtype, little-endian; uint8 for bytes and utf8, whose column is the bytes end to end."""
        return np.dtype(self.dtype).newbyteorder("<") if self.numeric else np.dtype("uint8")

    def to_json(self) -> dict[str, object]:
        """Return the fields that differ from their defaults."""
        fields: dict[str, object] = {"name": self.name, "kind": self.kind, "dtype": self.dtype}
        if self.shape:
            fields["shape"] = list(self.shape)
        if self.media:
            fields["media"] = self.media
        if self.optional:
            fields["optional"] = True
        if self.classes:
            fields["classes"] = list(self.classes)
        return fields


def _check_name(name: str) -> None:
    if not name:
        raise SchemaError("a feature needs a name")
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise SchemaError(f"expected a name that has a UTF-8 form, found {name!r:.60}") from exc


def stored(  # noqa: PLR0913  (a feature has that many facets)
    name: str,
    dtype: str,
    shape: Shape = (),
    *,
    media: str = "",
    optional: bool = False,
    classes: Sequence[str] = (),
    int64_lists: bool = False,
) -> Feature:
    """Describe a feature in the form that reads fastest.

    float32 becomes a float list and an integer scalar an int64 list of one. Everything else that is numeric becomes raw
    bytes; with `int64_lists`, integer arrays too keep the plain TensorFlow form.

    Args:
        name: Its key in the tf.train.Example.
        dtype: One of `DTYPES`.
        shape: Its dimensions without the batch; only the first may be None (ragged).
        media: What bytes are, as "image/jpeg".
        optional: Whether a record may lack it.
        classes: The names that an integer label stands for.
        int64_lists: Whether integer arrays become int64 lists.

    Returns:
        The feature.

    Raises:
        SchemaError: The fields contradict each other.
    """
    kind: Kind = "bytes"
    if dtype == "float32":
        kind = "float"
    elif dtype in INTEGER and dtype != "uint64" and (shape == () or int64_lists):
        kind = "int64"
    return Feature(name, kind, dtype, tuple(shape), media, optional, tuple(classes))


class Schema:
    """Hold the features of a record, in the order in which they are written.

    Args:
        features: At least none; names differ.

    Raises:
        SchemaError: Two features share a name.
    """

    __slots__ = ("_by_name", "features")

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)
        self._by_name = {feature.name: feature for feature in self.features}
        if len(self._by_name) != len(self.features):
            names = [feature.name for feature in self.features]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise SchemaError(f"features share the name {twice[0]!r}", feature=twice[0])
        for feature in self.features:
            if feature.optional and f"{feature.name}.present" in self._by_name:
                raise SchemaError(
                    f"{feature.name}.present would hide which records have {feature.name!r}: rename the feature",
                    feature=feature.name,
                )

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, name: str) -> Feature:
        if name not in self._by_name:
            raise SchemaError(f"no feature {name!r}; there are {', '.join(map(repr, self._by_name))}")
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.features == other.features

    def __hash__(self) -> int:
        return hash(self.features)

    def __repr__(self) -> str:
        return f"Schema({', '.join(self._by_name)})"

    def select(self, names: Sequence[str]) -> Schema:
        """Return the schema of these features, in the order asked.

        Raises:
            SchemaError: A name is unknown.
        """
        return Schema([self[name] for name in names])

    def to_json(self) -> list[dict[str, object]]:
        """Return a JSON value that `from_json` reads back."""
        return [feature.to_json() for feature in self.features]

    @staticmethod
    def from_json(value: object) -> Schema:
        """Read the value that `to_json` returned.

        Raises:
            SchemaError: It is not such a value.
        """
        try:
            return Schema([_feature(fields) for fields in value])  # type: ignore[attr-defined]  # checked by trying
        except (TypeError, AttributeError, KeyError) as exc:
            raise SchemaError(f"not a schema: {value!r:.200}") from exc


_FIELDS = {"name": str, "kind": str, "dtype": str, "media": str, "optional": bool, "shape": list, "classes": list}


def _feature(fields: object) -> Feature:
    if not isinstance(fields, dict) or not all(isinstance(fields[name], _FIELDS[name]) for name in fields):
        raise TypeError
    known = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    if not all(isinstance(name, str) for name in known.get("classes", ())):
        raise TypeError
    return Feature(**known)  # type: ignore[arg-type]  # just checked; Feature checks the rest
