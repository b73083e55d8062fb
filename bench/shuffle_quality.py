"""Measure how far shuffled orders are from a uniform permutation, over data sorted by class."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from datafeed.bench.machine import Machine, describe_machine
from datafeed.bench.shuffle_peers import PEERS, Shards, missing, order_apart
from datafeed.order import FullOrder, Layout, Spec, WindowOrder, round_window
from datafeed.ranks import choose_lanes
from datafeed.sizes import parse_size
from datafeed.splitmix import Numbers, permutation, sample_key

DEFAULT_WINDOW = "512MB"
WINDOWS = ("128MB", DEFAULT_WINDOW, "2GB", "8GB")
_FILE_WIDTH = 140  # where no terminal says how wide it is


@dataclass(frozen=True, slots=True)
class Sorted:
    """Describe data sorted by class, by default of ImageNet's size.

    Args:
        records: How many there are, a multiple of `shards` and of `classes`.
        shards: Files of equally many records.
        classes: Classes of equally many records.
        record_nbytes: Bytes of a record, stored as raw: a JPEG does not compress. A block holds one.
        extent_nbytes: Stored bytes of an extent.
        batch_size: Records a batch.
        seed: Seeds every order.
    """

    records: int = 1_280_000
    shards: int = 100
    classes: int = 1000
    record_nbytes: int = 115_000
    extent_nbytes: int = 2**21
    batch_size: int = 256
    seed: int = 0

    def layout(self) -> Layout:
        """Return where the records lie; no extent goes on in the next shard."""
        size = self.records // self.shards
        begins = np.arange(0, size, max(1, self.extent_nbytes // self.record_nbytes), dtype=np.int64)
        extents = (np.arange(self.shards, dtype=np.int64)[:, None] * size + begins).ravel()
        return Layout(np.arange(self.records + 1, dtype=np.int64), np.append(extents, self.records))

    def window_spec(self, window: str) -> Spec:
        """Return the order that a Loader on one rank uses for a window in bytes."""
        lanes = choose_lanes(1)
        held = min(parse_size(window, name="window") // self.record_nbytes, self.records)
        return Spec("window", self.seed, lanes, round_window(held // lanes))


@dataclass(frozen=True, slots=True)
class Quality:
    """Say how far an order is from the order as stored.

    Args:
        displacement: Mean distance of a record's position from where it is stored, as a share of all records.
        neighbours_kept: Share of stored neighbours that are at most a batch apart.
        classes_a_batch: Mean number of different classes in a full batch.
        chi_square: Mean chi-square statistic of a full batch's classes against equal shares, over its degrees of
            freedom: about 1 for random batches, the batch size for batches of one class.
    """

    displacement: float
    neighbours_kept: float
    classes_a_batch: float
    chi_square: float


def measure_quality(order: Numbers, case: Sorted) -> Quality:
    """Measure an order.

    Args:
        order: int64[records], the record number at each position; each record once.
        case: The data.

    Raises:
        ValueError: A record is missing or there twice, or there is no full batch.
    """
    count, size = case.records, case.batch_size
    positions = np.full(count, -1, np.int64)
    if len(order) == count:
        positions[order] = np.arange(count)
    if (positions < 0).any():
        raise ValueError(f"expected each of {count} records once, found {len(np.unique(order))} of {len(order)}")
    if count < size:
        raise ValueError(f"expected at least one batch of {size} records, found {count} records: use smaller batches")
    full = count // size
    classes = order[: full * size] // (count // case.classes)
    held = np.bincount(np.repeat(np.arange(full), size) * case.classes + classes, minlength=full * case.classes)
    share = size / case.classes
    chi = (held.astype(np.float64) ** 2).sum() / (full * share) - size
    return Quality(
        displacement=float(np.abs(positions - np.arange(count)).mean() / count),
        neighbours_kept=float((np.abs(np.diff(positions)) <= size).mean()),
        classes_a_batch=float((held > 0).sum() / full),
        chi_square=float(chi / (case.classes - 1)),
    )


def uniform_quality(case: Sorted) -> Quality:
    """Return what is expected of a permutation drawn uniformly from all."""
    count, size, each = case.records, case.batch_size, case.records // case.classes
    without = np.prod(1 - each / (count - np.arange(size)))  # a batch draws without replacement
    return Quality(
        displacement=(count - 1 / count) / 3 / count,
        neighbours_kept=size * (2 * count - size - 1) / (count * (count - 1)),
        classes_a_batch=float(case.classes * (1 - without)),
        chi_square=(count - size) / (count - 1),
    )


def window_order(case: Sorted, window: str) -> Numbers:
    """Return the record numbers of the first epoch of `shuffle=True`."""
    layout = case.layout()
    return layout.numbers(WindowOrder(case.window_spec(window), layout, 0).places(0, case.records))


def full_order(case: Sorted) -> Numbers:
    """Return the record numbers of the first epoch of `shuffle="full"`."""
    layout = case.layout()
    return layout.numbers(FullOrder(Spec("full", case.seed), layout, 0).places(0, case.records))


def converted_order(case: Sorted, window: str) -> Numbers:
    """Return `window_order` over what a conversion of a folder of classes shuffled, as numbers before it."""
    stored = permutation(case.records, sample_key(case.seed, 0, 0)).astype(np.int64)
    return stored[window_order(case, window)]


@dataclass(frozen=True, slots=True)
class Row:
    """Hold the figures of one order.

    Args:
        name: Whose order.
        held: Records that are shuffled with each other; None where it is no window's or buffer's size.
        quality: The figures.
    """

    name: str
    held: int | None
    quality: Quality


@dataclass(frozen=True, slots=True)
class Report:
    """Hold a whole run.

    Args:
        begun: When, in UTC.
        machine: On what.
        case: The data.
        rows: The figures; the first are what is expected of a uniform permutation.
        skipped: Peers that were left out, with the reason.
    """

    begun: str
    machine: Machine
    case: Sorted
    rows: Sequence[Row]
    skipped: dict[str, str]


def run(case: Sorted, say: Callable[[str], None]) -> Report:
    """Measure all orders.

    Args:
        case: The data.
        say: Told what is being done.
    """
    begun = datetime.now(UTC).isoformat(timespec="seconds")
    skipped = {name: f"{peer.package} is not installed" for name, peer in PEERS.items() if missing(name)}
    for name, why in skipped.items():
        say(f"skipped {name}: {why}")
    rows = [Row("uniform permutation, expected", None, uniform_quality(case))]
    for name, held, order in (*_ours(case), *_peers(case, skipped)):
        say(name)
        rows.append(Row(name, held, measure_quality(order(), case)))
    return Report(begun, describe_machine(), case, rows, skipped)


_Contender = tuple[str, int | None, Callable[[], Numbers]]


def _ours(case: Sorted) -> Iterator[_Contender]:
    yield "as stored", None, partial(np.arange, case.records, dtype=np.int64)
    for window in WINDOWS:
        yield f"window {window}", _held(case, window), partial(window_order, case, window)
    name = f"window {DEFAULT_WINDOW}, shuffled as converted"
    yield name, _held(case, DEFAULT_WINDOW), partial(converted_order, case, DEFAULT_WINDOW)
    yield "full", None, partial(full_order, case)


def _peers(case: Sorted, skipped: dict[str, str]) -> Iterator[_Contender]:
    shards = Shards(case.records, case.shards, _held(case, DEFAULT_WINDOW), case.seed)
    for name, peer in PEERS.items():
        if name in skipped:
            continue
        if not peer.buffered:
            yield name, None, partial(order_apart, name, shards)
            continue
        for window in WINDOWS:
            sized = replace(shards, buffer=_held(case, window))
            yield f"{name}, {window}", sized.buffer, partial(order_apart, name, sized)
        if peer.own is not None:
            yield f"{name}, its own size", peer.own, partial(order_apart, name, replace(shards, buffer=peer.own))


def _held(case: Sorted, window: str) -> int:
    spec = case.window_spec(window)
    return spec.window * spec.lanes


def print_report(report: Report, console: Console) -> None:
    """Print the figures as a table."""
    table = Table(title=f"{report.case.records:,} records sorted by class, batches of {report.case.batch_size}")
    for heading in ("order", "records held", "displacement", "neighbours kept", "classes a batch", "chi-square / df"):
        table.add_column(heading, justify="left" if heading == "order" else "right")
    for row in report.rows:
        quality = row.quality
        figures = (f"{quality.displacement:.3f}", f"{quality.neighbours_kept:.2%}", f"{quality.classes_a_batch:.1f}")
        held = "" if row.held is None else f"{row.held:,}"
        table.add_row(row.name, held, *figures, f"{quality.chi_square:.2f}")
    console.print(table)


@click.command("shuffle_quality")
@click.option("--out", type=click.Path(path_type=Path), help="Write every figure here, as JSON.")
def main(*, out: Path | None) -> None:
    """Compare shuffled orders with a uniform permutation, beside peers; no data are read."""
    report = run(Sorted(), lambda text: click.echo(text, err=True))
    print_report(report, Console(width=None if sys.stdout.isatty() else _FILE_WIDTH))
    if out is not None:
        out.write_text(json.dumps(asdict(report), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
