"""Write samples that a program holds or makes as a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Protocol, runtime_checkable

from datafeed.converters.append import base_of
from datafeed.converters.callables import name_of
from datafeed.converters.destination import begun, storage_of
from datafeed.converters.function import LOOK_NBYTES, LOOK_SAMPLES, Called, chunks_of, draw
from datafeed.converters.journal import JOURNAL, Journal, read_plan
from datafeed.converters.lock import locked
from datafeed.converters.opening import shaped
from datafeed.converters.options import SourceOptions
from datafeed.converters.plan import make_plan
from datafeed.converters.progress import Meter, OnProgress
from datafeed.converters.pythonic import as_sample, nbytes_of
from datafeed.converters.report import ConvertReport
from datafeed.converters.rows import Sample
from datafeed.converters.running import run_plan
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.source import Chunk, OnBad, Source, Unit
from datafeed.errors import BadItem, ConfigError, DatasetNotFound, EmptySource, OutputDiffers, SchemaError
from datafeed.header import DatasetHeader
from datafeed.manifest import Manifest, read_manifest
from datafeed.rebuild import shard_numbers
from datafeed.schema import Schema
from datafeed.shard import shard_name
from datafeed.storage import Store, open_store

_DEFAULT = ConvertOptions()
_KIND = "python"


@runtime_checkable
class _Map(Protocol):
    """Give samples by number, as a torch map dataset and a list do."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: int, /) -> object: ...


@runtime_checkable
class _Rows(Protocol):
    """Give samples one by one, as a Ray Dataset does."""

    def iter_rows(self) -> Iterable[Mapping[str, object]]: ...


def write(
    dest: str | os.PathLike[str],
    samples: Iterable[object] | object,
    schema: Schema | None = None,
    options: ConvertOptions = _DEFAULT,
    *,
    on_progress: OnProgress | None = None,
) -> ConvertReport:
    """Write samples as a dataset.

    What cannot be told apart from other samples cannot be resumed: a run that was cut is begun anew, and a dataset that
    stands there already is refused, unless `options.append` adds to it.

    Args:
        dest: The destination, a path or any URL that fsspec knows.
        samples: An iterable of samples, of unknown length if need be, which is read once, in this process; or what
            gives samples by number, such as a list or a torch map dataset: with `options.workers` above 1 it travels to
            Ray's workers, which take the samples in parallel; or a Ray Dataset, whose rows come as it gives them: in
            its order only with `execution_options.preserve_order` in its context. A sample is a mapping from names to
            values, a named tuple, a dataclass, a tuple ("0", "1", ...) or one value ("value"); arrays, torch tensors,
            numbers, text, bytes and lists of them are values.
        schema: What they hold; by default it is drawn from the first.
        options: How to write them; what says how raw data is read has no effect.
        on_progress: As `convert` takes it.

    Returns:
        What was done.

    Raises:
        EmptySource: There is no sample.
        SourceError: The first samples fit no schema, or a later one does not fit it (`on_error="raise"`).
        OutputDiffers: Something stands at the destination.
        DatafeedError: As `convert` raises it.
    """
    if options.kind is not None or options.split is not None:
        raise ConfigError("kind and split have no effect on samples that a program gives: leave them out")
    source, streamed = _source(samples, schema, options.source_options())
    storage = storage_of([], os.fspath(dest), options.storage_options, options.dest_options)[1]
    store = open_store(dest, storage)
    with locked(store):
        manifest = _standing(store, append=options.append)
        onto = None if manifest is None else manifest.header
        made = make_plan(shaped(source, options), _named(samples), options, onto)
        _begin_anew(store, made.header, 0 if manifest is None else len(manifest.shards))
        if manifest is None:
            begun(store, open_store(f"{os.fspath(dest).rstrip('/')}/{JOURNAL}", storage), made.header)
        if streamed is not None:
            streamed.stop_keeping()
        meter = Meter(on_progress, sum(task.nbytes for task in made.tasks))
        here = streamed is not None or options.workers is None
        how = replace(options, workers=1, ray_address=None) if here else options
        base = None if manifest is None else base_of(store, manifest)
        return run_plan(made, store, how, meter, again=False, base=base)


def _standing(store: Store, *, append: bool) -> Manifest | None:
    """Return the dataset to which samples are appended; None for a new one."""
    if append:
        return read_manifest(store)
    with suppress(DatasetNotFound):
        read_manifest(store)
        raise OutputDiffers(f"{store.url} holds a dataset: name another destination, or append to it")
    return None


def _begin_anew(store: Store, header: DatasetHeader, first: int) -> None:
    """Remove what an earlier `write` left that was cut."""
    plan = read_plan(store)
    if plan is None or plan.provenance.get("kind") != _KIND:
        return
    left = [number for number in shard_numbers(store) if number >= first]
    Journal(store, header, None, first).remove(max(left, default=first) + 1 - first)
    for number in left:
        store.delete(shard_name(number))


def _source(samples: object, schema: Schema | None, asked: SourceOptions) -> tuple[Source, _Tape | None]:
    if isinstance(samples, (str, bytes, Mapping)):
        raise ConfigError(f"expected several samples, found {samples!r:.100}")
    if isinstance(samples, _Rows):
        samples = samples.iter_rows()
    if isinstance(samples, _Map) and not _is_stream(samples):
        return _Numbered(range(len(samples)), _Item(samples), asked, schema), None
    if not isinstance(samples, Iterable):
        raise ConfigError(f"expected samples one by one or by number, found {samples!r:.100}")
    tape = _Tape(samples)
    return _Streamed(tape, asked, schema), tape


def _is_stream(samples: object) -> bool:
    """Whether it is a torch IterableDataset: it has torch's `__getitem__`, which only raises."""
    return any(kind.__name__ == "IterableDataset" for kind in type(samples).__mro__)


class _Numbered(Called):
    """Offer the samples of what gives them by number."""

    kind = _KIND


@dataclass(frozen=True, slots=True)
class _Item:
    """Get a sample by its number."""

    samples: _Map

    def __call__(self, number: int) -> Sample:
        return as_sample(self.samples[number])


class _Tape:
    """Give what an iterator gives, from the beginning as often as it is asked, until it may stop keeping it."""

    def __init__(self, samples: Iterable[object]) -> None:
        self._rest = iter(samples)
        self._head: list[object] = []
        self._keeping = True

    def stop_keeping(self) -> None:
        """Let the next reading be the last."""
        self._keeping = False

    def play(self) -> Iterator[object]:
        """Yield all samples."""
        if not self._keeping:
            head, self._head = self._head, []
            yield from head
            del head
            yield from self._rest
            return
        position = 0
        while True:
            if position == len(self._head):
                try:
                    self._head.append(next(self._rest))
                except StopIteration:
                    return
            yield self._head[position]
            position += 1


@dataclass(frozen=True)
class _Streamed:
    """Offer samples that can be read once, as one unit; it never leaves this process.

    Args:
        tape: The samples.
        asked: How they are stored; `int64_lists` counts here.
        given: What they hold; None to draw it from the first.
    """

    kind = _KIND
    tape: _Tape
    asked: SourceOptions
    given: Schema | None

    def schema(self) -> Schema:
        """Return what the samples hold."""
        return self.given or self._drawn

    @cached_property
    def _drawn(self) -> Schema:
        first: list[Sample] = []
        nbytes = 0
        for number, sample in enumerate(islice(self.tape.play(), LOOK_SAMPLES)):
            first.append(_checked(sample, number))
            nbytes += nbytes_of(first[-1])
            if nbytes >= LOOK_NBYTES:
                break
        if not first:
            raise EmptySource("nothing to write: there is no sample")
        return draw(first, self.asked)

    def units(self) -> Sequence[Unit]:
        """List one unit."""
        return [Unit("samples", 1)]

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:  # noqa: ARG002  (there is one)
        """Read the samples."""
        yield from chunks_of(self.schema(), self._samples(on_bad), on_bad)

    def _samples(self, on_bad: OnBad) -> Iterator[tuple[Sample, str]]:
        for number, sample in enumerate(self.tape.play()):
            try:
                yield _checked(sample, number), f"sample {number}"
            except BadItem as exc:
                on_bad(exc)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return {"int64_lists": self.asked.int64_lists}

    def notes(self) -> Sequence[str]:
        """Say nothing."""
        return []


def _checked(sample: object, number: int) -> Sample:
    try:
        return as_sample(sample)
    except SchemaError as exc:
        raise BadItem(f"sample {number}", str(exc), repr(sample).encode()) from exc


def _named(samples: object) -> str:
    return name_of(type(samples))
