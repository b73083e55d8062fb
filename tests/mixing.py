"""Write numbered datasets to mix, make loaders of them, and walk their orders plainly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import forms
from plain_mix import PlainMix

from datafeed import Dataset, Loader, Mix
from datafeed.loader import Shuffle
from datafeed.mix import Stop
from datafeed.order import Layout
from datafeed.schema import Feature, Schema

Sources = Mapping[str | Path | Dataset, float]
APART = 1000  # between the ids of one dataset and of the next
MODES: tuple[Shuffle, ...] = ("window", "full", False)


def write(url: str | Path, number: int, records: int, schema: Schema = forms.SMALL) -> str:
    """Write a dataset of many small extents whose ids begin at `number` times APART."""

    def value(feature: Feature, row: int) -> object:
        return row + number * APART if feature.name == "id" else forms.value(feature, row)

    return forms.write(url, schema, records, per_block=5, shards=3, extent_size=600, make=value)


def make(
    sources: Sources,
    mode: Shuffle = "window",
    batch_size: int = 4,
    *,
    stop: Stop = "first",
    run: int = 1,
    **options: object,
) -> Loader:
    """Make a loader of a mix."""
    given = {"num_workers": 0, "lanes": 12, "window": "1KB", "columns": ["id"], "seed": 5, **options}
    return Loader(Mix(sources, seed=3, run=run, stop=stop), batch_size, mode, **given)  # type: ignore[arg-type]


def plain(loader: Loader) -> PlainMix:
    """Return what a loader mixes, to walk it plainly."""
    mixed = loader._feed.dataset
    layouts: list[Layout] = [dataset.layout for dataset in mixed.datasets]  # type: ignore[union-attr]
    return PlainMix(layouts, list(mixed.mix.weights), mixed.counts, 3, mixed.mix.run)  # type: ignore[union-attr]


def walked(loader: Loader, epoch: int) -> list[int]:
    """Return the ids of one epoch, of whole datasets, by the plain walk."""
    records = plain(loader).epoch(loader._feed._spec(12), epoch)
    return [number * APART + record for number, record in records]
