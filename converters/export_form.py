"""Say what a form of export does: one file in this package for each."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from typing_extensions import Buffer

from datafeed.converters.block_runs import BlockRun
from datafeed.errors import SchemaError
from datafeed.schema import Feature, Schema
from datafeed.storage import Sink, Store

Facts = Sequence[Mapping[str, object]]
"""What a form remembers of a shard for the files that describe all of them: JSON values."""


@dataclass(frozen=True, slots=True)
class Exported:
    """Describe what is exported.

    Args:
        schema: The features that are wanted.
        all: The features that the dataset has.
        provenance: Where the dataset came from.
        several: Whether it has more than one shard.
        appended: Whether shards were appended to it.
    """

    schema: Schema
    all: Schema
    provenance: Mapping[str, object]
    several: bool
    appended: bool

    @property
    def chosen(self) -> bool:
        """Whether some features are left out."""
        return self.schema != self.all


@dataclass(frozen=True, slots=True)
class Shard:
    """Name a shard.

    Args:
        number: Its number.
        records: Its records.
    """

    number: int
    records: int

    @property
    def stem(self) -> str:
        """What its files are called, without the ending."""
        return f"shard-{self.number:06d}"


class Output:
    """Write files that appear whole, and remember their sizes.

    Args:
        store: The destination.

    Attributes:
        files: The size of each file that was finished, by its name.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.files: dict[str, int] = {}

    @contextmanager
    def file(self, name: str) -> Iterator[Counted]:
        """Write a file.

        Raises:
            OutputError: The destination failed, or is full.
        """
        with self._store.writer(name) as sink:
            counted = Counted(sink)
            yield counted
        self.files[name] = counted.nbytes


class Counted:
    """Count the bytes that a sink takes.

    Args:
        sink: The sink.

    Attributes:
        nbytes: How many there were.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.nbytes = 0

    def write(self, data: Buffer) -> int:
        """Append contiguous bytes."""
        nbytes = memoryview(data).nbytes
        if nbytes:
            self._sink.write(data)
        self.nbytes += nbytes
        return nbytes


class SinkFile(io.RawIOBase):
    """Offer a sink as a file for libraries that write to one.

    Args:
        sink: The sink.
    """

    def __init__(self, sink: Counted) -> None:
        self._sink = sink

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Append contiguous bytes."""
        return self._sink.write(data)

    def tell(self) -> int:
        """Return how many bytes there were."""
        return self._sink.nbytes


class Form(Protocol):
    """Write shards in the form that other programs read. Instances are picklable and made without I/O.

    Making one refuses, by name, a feature that the form cannot hold.
    """

    @property
    def schema(self) -> Schema:
        """The features that `write` asks the runs for."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return the versions of libraries that decide over the bytes."""
        ...

    def write(self, out: Output, shard: Shard, runs: Iterator[BlockRun]) -> Facts:
        """Write the files of one shard; they depend on the dataset and the options alone.

        Raises:
            SchemaError: A record cannot be written, with its place.
            OutputError: The destination failed, or is full.
        """
        ...

    def finish(self, out: Output, facts: Iterator[Facts]) -> None:
        """Write what describes all shards, once they stand.

        Args:
            out: The destination.
            facts: What `write` returned for each shard, in order.
        """
        ...


def refuse(form: str, feature: Feature, what: str, fitting: Sequence[Feature]) -> SchemaError:
    """Return the error for a feature that a form cannot hold, with the alternatives.

    Args:
        form: The form, as --to names it.
        feature: The feature.
        what: Why it cannot.
        fitting: The features that it can hold.
    """
    names = ",".join(one.name for one in fitting)
    choose = f"choose others with --columns {names}, or " if names else ""
    other = "parquet" if form != "parquet" else "tfrecord"
    return SchemaError(f"{form} cannot hold {what}: {choose}export --to {other}", feature=feature.name)
