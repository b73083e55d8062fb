"""Hold what every shard of a dataset says about the whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from datafeed.errors import CorruptIndex, SchemaError
from datafeed.schema import Schema

VERSION = 1
EXTENT_SIZE = 2 * 2**20  # what it does to the order was simulated: see the README's decisions


def canonical(value: object) -> bytes:
    """Return a JSON value as bytes: sorted keys, ASCII, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


@dataclass(frozen=True, slots=True)
class DatasetHeader:
    """Describe a dataset apart from its shards.

    Args:
        dataset_id: 32 hexadecimal digits.
        schema: What every record holds.
        block_size: Raw bytes at which a block is closed.
        extent_size: Stored bytes at which an extent is closed.
        level: The zstd level of the blocks; 0 where they are not compressed.
        provenance: JSON values that say where the data came from; no times, workers or addresses.
    """

    dataset_id: str
    schema: Schema
    block_size: int
    extent_size: int
    level: int
    provenance: Mapping[str, object]

    def to_json(self) -> dict[str, object]:
        """Return a JSON value that `from_json` reads back."""
        return {"dataset_id": self.dataset_id, **_identity(self)}

    @staticmethod
    def from_json(value: object, *, name: str = "") -> DatasetHeader:
        """Read the value that `to_json` returned.

        Args:
            value: The JSON value.
            name: The file that holds it, for the error.

        Raises:
            CorruptIndex: It is not such a value.
        """
        fields = Fields(value, name)
        dataset_id = fields.hex("dataset_id", 32)
        provenance = fields.mapping("provenance")
        sizes = [fields.integer(key) for key in ("block_size", "extent_size")]
        if min(sizes) < 1:
            fields.fail(f"expected sizes of at least 1, found {sizes}")
        level = fields.integer("level", least=-(2**31))
        try:
            schema = Schema.from_json(fields.value("schema"))
        except SchemaError as exc:
            raise CorruptIndex(f"expected a schema: {exc}", shard=name) from exc
        return DatasetHeader(dataset_id, schema, sizes[0], sizes[1], level, provenance)


def make_header(
    schema: Schema, *, block_size: int, level: int, provenance: Mapping[str, object], extent_size: int = EXTENT_SIZE
) -> DatasetHeader:
    """Describe a dataset to be written, with an id drawn from everything else.

    Args:
        schema: What every record holds.
        block_size: Raw bytes at which a block is closed.
        level: The zstd level of the blocks; 0 where they are not compressed.
        provenance: JSON values.
        extent_size: Stored bytes at which an extent is closed.

    Returns:
        The header: equal for equal arguments.
    """
    header = DatasetHeader("", schema, block_size, extent_size, level, provenance)
    dataset_id = hashlib.sha256(canonical(_identity(header))).hexdigest()[:32]
    return DatasetHeader(dataset_id, schema, block_size, extent_size, level, provenance)


def _identity(header: DatasetHeader) -> dict[str, object]:
    return {
        "schema": header.schema.to_json(),
        "block_size": header.block_size,
        "extent_size": header.extent_size,
        "level": header.level,
        "provenance": dict(header.provenance),
    }


class Fields:
    """Read the fields of a JSON object, each checked, with the file's name in every error.

    Args:
        value: The JSON value.
        name: The file that holds it.

    Raises:
        CorruptIndex: It is no object.
    """

    __slots__ = ("_fields", "_name")

    def __init__(self, value: object, name: str) -> None:
        self._name = name
        if not isinstance(value, dict):
            self.fail(f"expected a JSON object, found {value!r:.100}")
        self._fields: dict[str, object] = value

    def fail(self, reason: str) -> NoReturn:
        """Raise CorruptIndex for this file."""
        raise CorruptIndex(reason, shard=self._name)

    def has(self, key: str) -> bool:
        """Whether there is such a field."""
        return key in self._fields

    def value(self, key: str) -> object:
        """Return a field, whatever it is."""
        if key not in self._fields:
            self.fail(f"the field {key!r} is missing")
        return self._fields[key]

    def integer(self, key: str, *, least: int = 0) -> int:
        """Return a field that is an integer of 64 bits, at least `least`."""
        value = self.value(key)
        if type(value) is not int or not least <= value < 2**63:
            self.fail(f"expected an integer of at least {least} as {key!r}, found {value!r:.100}")
        return value

    def text(self, key: str) -> str:
        """Return a field that is a string."""
        value = self.value(key)
        if not isinstance(value, str):
            self.fail(f"expected a string as {key!r}, found {value!r:.100}")
        return value

    def hex(self, key: str, digits: int) -> str:
        """Return a field of so many hexadecimal digits."""
        value = self.text(key)
        if len(value) != digits or value.strip("0123456789abcdef"):
            self.fail(f"expected {digits} hexadecimal digits as {key!r}, found {value!r:.100}")
        return value

    def flag(self, key: str) -> bool:
        """Return a field that is true or false."""
        value = self.value(key)
        if not isinstance(value, bool):
            self.fail(f"expected true or false as {key!r}, found {value!r:.100}")
        return value

    def mapping(self, key: str) -> dict[str, object]:
        """Return a field that is an object."""
        value = self.value(key)
        if not isinstance(value, dict):
            self.fail(f"expected an object as {key!r}, found {value!r:.100}")
        return value

    def within(self, key: str) -> Fields:
        """Return a field that is an object, its own fields to be checked alike."""
        return Fields(self.value(key), self._name)

    def items(self, key: str) -> list[object]:
        """Return a field that is an array."""
        value = self.value(key)
        if not isinstance(value, list):
            self.fail(f"expected an array as {key!r}, found {value!r:.100}")
        return value
