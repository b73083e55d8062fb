"""Make samples by a person's own function."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from itertools import islice

from datafeed.batches import to_sample
from datafeed.converters.callables import Fn, code_digest, name_of, said
from datafeed.converters.encode import read_chunks
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.over import Over
from datafeed.converters.pythonic import as_sample, draw_schema, nbytes_of
from datafeed.converters.rows import Sample, chunk_of
from datafeed.converters.source import Chunk, OnBad, Source, Stamp, Unit
from datafeed.errors import BadItem, EmptySource, SchemaError, SourceError
from datafeed.schema import Schema

UNIT_NBYTES = 8 * 10**6
_CHUNK_NBYTES = 4 * 2**20
_CHUNK_ROWS = 4096
_LOOK_INPUTS = 16
LOOK_SAMPLES = 1000
LOOK_NBYTES = 64 * 10**6


@dataclass(frozen=True)
class Called:
    """Offer what a function makes of each of some inputs.

    Args:
        inputs: The inputs; a `Stamp` among them is given to the function as its path.
        fn: The function.
        asked: How samples are stored; `int64_lists` counts here.
        given: What the samples hold; None to draw it from the first.
    """

    kind = "function"
    inputs: Sequence[object]
    fn: Fn
    asked: SourceOptions
    given: Schema | None = None

    def schema(self) -> Schema:
        """Return what the samples hold, by calling the function for the first inputs.

        Raises:
            SourceError: The first samples fit no schema.
            EmptySource: There is no input, or the first give no sample.
            BadItem: The function failed for all of them.
        """
        return self.given or self._looked[0]

    @cached_property
    def _looked(self) -> tuple[Schema, int]:
        """Return the schema of the first samples, and the bytes that an input makes."""
        bad: list[BadItem] = []
        samples: list[Sample] = []
        inputs = nbytes = 0
        for item in islice(self.inputs, _LOOK_INPUTS):
            inputs += 1
            for sample in islice(self._samples(item, bad.append), LOOK_SAMPLES - len(samples)):
                samples.append(sample)
                nbytes += nbytes_of(sample)
            if len(samples) >= LOOK_SAMPLES or nbytes >= LOOK_NBYTES:
                break
        if not inputs:
            raise EmptySource("nothing to convert: there is no input")
        if not samples and bad:
            raise bad[0]
        if not samples and self.given is None:
            raise EmptySource(f"{name_of(self.fn)} gave no sample for the first {inputs} inputs: give a schema")
        return self.given or draw(samples, self.asked), max(nbytes // inputs, 1)

    def _samples(self, item: object, on_bad: OnBad) -> Iterator[Sample]:
        return call(self.fn, item.path if isinstance(item, Stamp) else item, _named(item), on_bad)

    def units(self) -> Sequence[Unit]:
        """List runs of inputs that make about 8 MB.

        Raises:
            EmptySource: There is no input.
            BadItem: The function failed for the first inputs.
        """
        if not self.inputs:
            raise EmptySource("nothing to convert: there is no input")
        each = self._looked[1]
        count = max(UNIT_NBYTES // each, 1)
        total = len(self.inputs)
        return [self._unit(start, min(start + count, total), each) for start in range(0, total, count)]

    def _unit(self, start: int, end: int, each: int) -> Unit:
        inputs = tuple(self.inputs[start:end])
        files = tuple(item for item in inputs if isinstance(item, Stamp))
        return Unit(f"inputs {start}-{end - 1}: {_named(inputs[0])}", each * len(inputs), files, inputs)

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Call the function for each input of a unit."""
        assert isinstance(unit.detail, tuple)
        made = ((sample, _named(item)) for item in unit.detail for sample in self._samples(item, on_bad))
        yield from chunks_of(self.schema(), made, on_bad)

    def __getstate__(self) -> dict[str, object]:
        """Leave the inputs behind: a worker is told its own."""
        return {**self.__dict__, "inputs": ()}

    def options(self) -> dict[str, object]:
        """Return the function's name and a digest of its code."""
        return {"fn": name_of(self.fn), "code": code_digest(self.fn), "int64_lists": self.asked.int64_lists}

    def notes(self) -> Sequence[str]:
        """Say nothing."""
        return []


@dataclass(frozen=True)
class Mapped(Over):
    """Offer what a function makes of each sample of a source.

    Args:
        inner: The source.
        fn: The function; it gets a sample as `Dataset` gives it.
        given: What the new samples hold; None to draw it from the first.
    """

    inner: Source
    fn: Fn
    given: Schema | None = None

    def schema(self) -> Schema:
        """Return what the samples hold, by calling the function for the first.

        Raises:
            SourceError: The first samples fit no schema.
            EmptySource: The first give no sample.
        """
        return self.given or self._drawn

    @cached_property
    def _drawn(self) -> Schema:
        bad: list[BadItem] = []
        samples = list(islice(self._made(self.inner.units(), bad.append), LOOK_SAMPLES))
        if not samples and bad:
            raise bad[0]
        if not samples:
            raise EmptySource(f"{name_of(self.fn)} gave no sample: nothing to convert")
        return draw([sample for sample, _ in samples], self.asked)

    def _made(self, units: Iterable[Unit], on_bad: OnBad) -> Iterator[tuple[Sample, str]]:
        before = self.inner.schema()
        for chunk in read_chunks(self.inner, list(units), on_bad):
            columns = [chunk.columns[feature.name] for feature in before]
            for row in range(chunk.rows):
                where = chunk.where(row)
                for sample in call(self.fn, to_sample(before, columns, row), where, on_bad):
                    yield sample, where

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Call the function for each sample of a unit."""
        yield from chunks_of(self.schema(), self._made([unit], on_bad), on_bad)

    def options(self) -> dict[str, object]:
        """Return the source's, the function's name and a digest of its code."""
        return {**self.inner.options(), "fn": name_of(self.fn), "code": code_digest(self.fn)}


def draw(samples: Sequence[Sample], asked: SourceOptions) -> Schema:
    """Draw a schema from the first samples.

    Raises:
        SourceError: They fit none.
    """
    try:
        schema = draw_schema(samples, int64_lists=asked.int64_lists)
    except SchemaError as exc:
        first = f"the first {len(samples)}"
        where = f"sample {exc.row} of {first}" if exc.row >= 0 else f"{first} samples"
        raise SourceError(f"{where}: {exc}: give a schema, or make them alike") from exc
    if not len(schema):
        many = "the first sample holds" if len(samples) == 1 else f"the first {len(samples)} samples hold"
        raise SourceError(f"{many} no value, or None alone, which tells no type: give a schema")
    return schema


def call(fn: Fn, item: object, where: str, on_bad: OnBad) -> Iterator[Sample]:
    """Yield the samples that a function makes of one input.

    Args:
        fn: The function.
        item: The input.
        where: What a person calls it.
        on_bad: Takes a bad item where the function raises; what it gave before is kept.

    Yields:
        Nothing for None; one sample for a mapping, named tuple, dataclass, text, array or number; else each item.
    """
    try:
        found = fn(item)
        if found is None:
            return
        if not isinstance(found, Iterable) or _is_one(found):
            yield as_sample(found)
            return
        for sample in found:
            yield as_sample(sample)
    except (Exception, SystemExit) as exc:  # noqa: BLE001  (a person's function may raise anything)
        bad = BadItem(where, f"{name_of(fn)} raised {said(exc)}{_at(exc)}")
        bad.__cause__ = exc
        on_bad(bad)


def _is_one(found: Iterable[object]) -> bool:
    """Whether something that can be iterated is a sample by itself."""
    whole = isinstance(found, (Mapping, str, bytes)) or is_dataclass(found)
    return whole or hasattr(found, "_fields") or hasattr(found, "__array__")


def _at(error: BaseException) -> str:
    """Return where an error was raised: its traceback does not travel from a worker."""
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) < 2:  # raised here, not in the function
        return ""
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"


def chunks_of(schema: Schema, samples: Iterable[tuple[Sample, str]], on_bad: OnBad) -> Iterator[Chunk]:
    """Gather samples, each with where it came from, to chunks of a few MB."""
    names = {feature.name for feature in schema}
    held: list[Sample] = []
    wheres: list[str] = []
    nbytes = 0
    for sample, where in samples:
        odd = sample.keys() - names
        if odd:
            reason = f"it has {min(odd)!r}, which the schema lacks: give a schema that has it"
            on_bad(BadItem(where, reason, repr(sample).encode()))
            continue
        held.append(sample)
        wheres.append(where)
        nbytes += nbytes_of(sample)
        if nbytes >= _CHUNK_NBYTES or len(held) == _CHUNK_ROWS:
            yield chunk_of(schema, held, wheres.__getitem__, on_bad)
            held, wheres, nbytes = [], [], 0
    if held:
        yield chunk_of(schema, held, wheres.__getitem__, on_bad)


def _named(item: object) -> str:
    if isinstance(item, Stamp):
        return shown(item.path)
    return shown(item) if isinstance(item, str) else f"{item!r:.200}"
