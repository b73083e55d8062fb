"""Make a dataset of another one."""

from __future__ import annotations

import os

from datafeed.converters.again import Again
from datafeed.converters.callables import Fn
from datafeed.converters.convert import convert, plans
from datafeed.converters.destination import check_apart
from datafeed.converters.function import Mapped
from datafeed.converters.plan import Plan
from datafeed.converters.progress import OnProgress
from datafeed.converters.report import ConvertReport
from datafeed.converters.settings import ConvertOptions
from datafeed.converters.source import Source
from datafeed.errors import ConfigError
from datafeed.schema import Schema
from datafeed.storage import local_path

_DEFAULT = ConvertOptions()


def map_dataset(
    dataset: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    fn: Fn | None = None,
    options: ConvertOptions = _DEFAULT,
    *,
    schema: Schema | None = None,
    on_progress: OnProgress | None = None,
) -> ConvertReport:
    """Make a dataset of the samples of another one, in parallel and resumable as `convert` does.

    Args:
        dataset: A committed dataset, a path or URL.
        dest: The destination: absent, empty, or begun by the same call.
        fn: Takes a sample, as `Dataset` gives it, and returns a sample (a mapping from names to values), an iterable of
            several, or None to leave it out; it must give the same for the same sample. None to write the samples anew
            as they are.
        options: How to write them; what says how raw data is read has no effect.
        schema: What `fn` makes; by default it is drawn from the first samples.
        on_progress: As `convert` takes it.

    Returns:
        What was done.

    Raises:
        DatasetNotFound: No dataset is there.
        CorruptData: It is damaged.
        DatafeedError: As `convert` raises it.
    """
    source = _source(dataset, dest, fn, options, schema)
    return convert(source, dest, options, on_progress=on_progress)


def map_plans(
    dataset: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    fn: Fn | None = None,
    options: ConvertOptions = _DEFAULT,
    *,
    schema: Schema | None = None,
) -> dict[str, Plan]:
    """Say what `map_dataset` would do, without writing anything; see `plans`."""
    return plans(_source(dataset, dest, fn, options, schema), dest, options)


def _source(
    dataset: str | os.PathLike[str],
    dest: str | os.PathLike[str],
    fn: Fn | None,
    options: ConvertOptions,
    schema: Schema | None,
) -> Source:
    if options.kind is not None:
        raise ConfigError(f"kind {options.kind!r} has no effect on a dataset")
    path = local_path(dataset)
    url = os.fspath(dataset) if path is None else path
    check_apart(url, os.fspath(dest))
    again = Again(url, options.source_options())
    return again if fn is None else Mapped(again, fn, schema)
