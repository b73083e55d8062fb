"""Pass on what a source says to whoever reads it through another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Source, Unit
from datafeed.schema import Schema


@dataclass(frozen=True)
class Over:
    """Offer the samples of a source as they are: what stands over one says only what it changes.

    Args:
        inner: The source.
    """

    inner: Source

    @property
    def kind(self) -> str:
        """The source's kind."""
        return self.inner.kind

    @property
    def asked(self) -> SourceOptions:
        """How the source is read."""
        return self.inner.asked

    def schema(self) -> Schema:
        """Return the source's schema."""
        return self.inner.schema()

    def units(self) -> Sequence[Unit]:
        """List the source's units."""
        return self.inner.units()

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read a unit of the source."""
        return self.inner.read(unit, on_bad)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return self.inner.options()

    def notes(self) -> Sequence[str]:
        """Say what the source says."""
        return self.inner.notes()
