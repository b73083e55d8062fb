"""Say where a loader over a torch Dataset stands, so that another goes on from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from datafeed.errors import StateMismatch
from datafeed.samplers import AnyLoader, checked_states, described, iterable, length

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Point:
    """Name a point of an epoch, and what the rest of it follows from.

    Args:
        epoch: Counted from 0.
        batches: One more than the highest number of a batch that was handed out.
        missing: Lower numbers that were not: they failed, or others came before them.
        check: A checksum of what the samplers gave for the batch `batches - 1`.
        before: The random generators, packed, before the epoch's first draw; None for as they are when it begins.
        at_first: The same before the samplers' first draw, where something else drew in between.
        samplers: What each sampler said of itself before the epoch.
        dataset: What an iterable dataset said of itself after the last batch, in each worker: its `state`, and
            whether it had `ended`; None where no batch came.
        turn: The worker whose batch comes next.
    """

    epoch: int = 0
    batches: int = 0
    missing: list[int] = field(default_factory=list)
    check: int | None = None
    before: list[str] | None = None
    at_first: list[str] | None = None
    samplers: list[Any] | None = None
    dataset: list[Any] | None = None
    turn: int = 0


def write_state(loader: AnyLoader, point: Point) -> dict[str, object]:
    """Return the state as JSON values, as far as samplers and datasets give such of themselves."""
    return {**_identity(loader), **asdict(point)}


def read_state(loader: AnyLoader, state: object) -> Point:
    """Return the point that a state names.

    Raises:
        StateMismatch: It is no state, or one of another dataset, order or version; every difference is named.
    """
    if not isinstance(state, Mapping):
        raise StateMismatch(f"not a loader's state: expected a dict, found {state!r:.60}")
    expected = _identity(loader)
    names = [item.name for item in fields(Point)]
    missing = [name for name in (*expected, *names) if name not in state]
    if missing:
        raise StateMismatch(f"not a state of a loader over a torch Dataset: it lacks {', '.join(missing)}")
    differ = [
        f"{name} is {state[name]!r} in the state and {value!r} here"
        for name, value in expected.items()
        if state[name] != value
    ]
    if differ:
        raise StateMismatch(
            "this state belongs to another order: " + "; ".join(differ) + ". Build the Loader as it was built then."
        )
    point = Point(**{name: state[name] for name in names})
    _check(loader, point)
    return point


def _identity(loader: AnyLoader) -> dict[str, object]:
    return {
        "format": FORMAT,
        "over": "iterable" if iterable(loader) else "map",
        "batch_size": loader.batch_size,
        "drop_last": loader.drop_last,
        "samples": length(loader),
        "order": described(loader),
        "num_workers": loader.num_workers if iterable(loader) else None,
    }


def _check(loader: AnyLoader, point: Point) -> None:
    for name in ("epoch", "batches", "turn"):
        if not is_count(getattr(point, name)):
            raise StateMismatch(f"{name} must be an integer from 0, found {getattr(point, name)!r}")
    if not _are(point.missing, lambda number: is_count(number) and number < point.batches):
        raise StateMismatch(f"missing: expected numbers of batches below {point.batches}, found {point.missing!r:.60}")
    for name in ("before", "at_first"):
        packed = getattr(point, name)
        if packed is not None and not _are(packed, lambda one: isinstance(one, str)):
            raise StateMismatch(f"{name}: expected packed states of random generators, found {packed!r:.60}")
    if point.samplers is not None:
        checked_states(loader, point.samplers)
    workers = max(1, loader.num_workers)
    if point.dataset is not None and not (_are(point.dataset, _is_dataset_state) and len(point.dataset) == workers):
        raise StateMismatch(f"dataset: expected {workers} states in a list, found {point.dataset!r:.60}")


def _is_dataset_state(value: object) -> bool:
    return value is None or (isinstance(value, Mapping) and {"state", "ended"} <= set(value))


def _are(value: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(fits, value))


def is_count(value: object) -> bool:
    """Tell whether a value is an integer from 0, no bool."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
