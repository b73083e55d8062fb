"""Hold what a measurement is told, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from datafeed.bench.digests import Batch

Step = tuple[int, Batch]
"""How many samples came at once, and what they hold (nothing, where they are thrown away)."""

Epoch = Callable[[], Iterator[Step]]
"""Begins a pass over all samples."""


@dataclass(frozen=True, slots=True)
class Case:
    """Tell a measurement where its data are and how long to run.

    Args:
        data: The folder with `raw/NAME` and `converted/NAME`.
        workers: Threads or processes, the same for every contender.
        batch_size: Samples a batch.
        seconds: At least how long to measure; whole epochs are run.
        side: Height and width of decoded images.
        toy: Whether the data are too small for Ray to be used.
    """

    data: str
    workers: int = 2
    batch_size: int = 256
    seconds: float = 3.0
    side: int = 224
    toy: bool = False

    def raw(self, name: str) -> Path:
        """Where the raw workload lies."""
        return Path(self.data) / "raw" / name

    def converted(self, name: str) -> str:
        """Where the converted dataset lies."""
        return str(Path(self.data) / "converted" / name)

    def scratch(self, name: str) -> Path:
        """Where a measurement may write."""
        return Path(self.data) / "scratch" / name


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold one measurement.

    Args:
        value: The figure, in the unit that its rows name.
        samples: How many samples it saw.
        seconds: How long it took.
        checksum: The digest of all samples of an epoch; None where the samples are thrown away.
        digest: The name in `digests.DIGESTS` of that digest.
        facts: Further figures of the same run.
    """

    value: float
    samples: int
    seconds: float
    checksum: int | None = None
    digest: str = ""
    facts: Mapping[str, float] = field(default_factory=dict)


Measure = Callable[[Case], Sample]


@dataclass(frozen=True, slots=True)
class Contender:
    """Deliver the samples of a workload in a way of its own.

    Args:
        begin: Opens what it needs, outside the measured time, and returns the pass that is timed.
        digest: The name in `digests.DIGESTS` of what its batches add up to; empty where samples are thrown away.
    """

    begin: Callable[[Case], Epoch]
    digest: str = ""
