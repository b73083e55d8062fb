"""Say what a source of raw samples offers.

A source is one file in this package. It lists units, reads each unit as chunks of columns, and knows its schema. What
it lists depends on the raw data and its options alone, never on the machine or the number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from datafeed.columns import Columns
from datafeed.errors import BadItem
from datafeed.schema import Schema

if TYPE_CHECKING:
    from datafeed.converters.options import SourceOptions

OnBad = Callable[[BadItem], None]
"""What to do with an item that cannot become a sample: raises it, or counts it and returns."""

OnError = Literal["raise", "skip", "quarantine"]
"""What a conversion does with such items: stop at the first, count them, or write them aside too."""


Where = str | tuple[str, ...]
"""What a person names: a path, URL or pattern, or several."""


def each(where: Where) -> tuple[str, ...]:
    """Return the paths, URLs and patterns one by one."""
    return (where,) if isinstance(where, str) else where


class Stamp(NamedTuple):
    """Tell whether a file changed: compared before and after it is read.

    Attributes:
        path: Its path or URL.
        nbytes: Its size.
        version: Its time of change in ns; of a remote file what stands for its ETag.
    """

    path: str
    nbytes: int
    version: int


@dataclass(frozen=True, slots=True)
class Unit:
    """Name the smallest part of a source that is read in one go, such as a row group or a run of files.

    Args:
        name: What a person calls it, as "train.parquet#3".
        nbytes: Its size as raw records, estimated; shares out the work.
        files: The files that it reads, as they were when the source was listed.
        detail: Whatever else `read` needs; picklable.
        work: As many raw bytes as usually take as long to make, where that is far from `nbytes`; 0 where it is not.
    """

    name: str
    nbytes: int
    files: tuple[Stamp, ...] = ()
    detail: object = None
    work: int = field(default=0, compare=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle stamps as plain tuples: Ray's pickler calls Python for every object of a class, 7 us for each file."""
        return _unit, (self.name, self.nbytes, tuple(map(tuple, self.files)), self.detail)


def _unit(name: str, nbytes: int, files: tuple[tuple[str, int, int], ...], detail: object) -> Unit:
    return Unit(name, nbytes, tuple(map(Stamp._make, files)), detail)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Hold some consecutive samples of a unit.

    Args:
        columns: One column per feature of the schema.
        rows: How many samples.
        where: Where sample i of the chunk came from, for errors ("a.csv:17"); called only when one is reported.
    """

    columns: Columns
    rows: int
    where: Callable[[int], str] = field(default=str)


class Source(Protocol):
    """Offer raw samples. Instances are picklable and open nothing until asked."""

    @property
    def kind(self) -> str:
        """What the command line calls it."""
        ...

    @property
    def asked(self) -> SourceOptions:
        """How it is read."""
        ...

    def schema(self) -> Schema:
        """Return what every sample holds; may read some of the source, and does so once.

        Raises:
            SourceError: It cannot be read, or it is empty.
        """
        ...

    def units(self) -> Sequence[Unit]:
        """List the units in the order of their samples.

        Raises:
            SourceError: It cannot be listed, or it is empty.
        """
        ...

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time; items that cannot become samples go to `on_bad`.

        Raises:
            BadItem: The unit as a whole cannot be read; or whatever `on_bad` raises.
        """
        ...

    def options(self) -> dict[str, object]:
        """Return the options that shape the output, as JSON values, for the dataset's provenance."""
        ...

    def notes(self) -> Sequence[str]:
        """Say what a person should know about the raw data, a line each; none where there is nothing to say."""
        ...


Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Table:
    """Name rows any of which can be read by its number.

    Args:
        unit: Its files, and what `pick` needs; its size is that of all its rows. Where it has none, what `read` takes
            to say why.
        rows: How many it has; 0 where none can be read.
        places: How far a row lies scattered: in how many places of the files.
    """

    unit: Unit
    rows: int
    places: int


@runtime_checkable
class Addressed(Source, Protocol):
    """Offer raw samples by number, too, where they lie in local files as they are."""

    def tables(self) -> Sequence[Table] | None:
        """List what holds all the rows; None where they cannot be read by number.

        Raises:
            SourceError: It cannot be listed, or it is empty.
        """
        ...

    def pick(self, unit: Unit, rows: Numbers, on_bad: OnBad) -> Iterator[Chunk]:
        """Read some rows of a table, a few MB at a time.

        Args:
            unit: The table's.
            rows: Their numbers, ascending, one or more.
            on_bad: What to do with items that cannot become samples.

        Raises:
            BadItem: They cannot be read; or whatever `on_bad` raises.
        """
        ...
