"""Say where a loader stands, so that another goes on from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from datafeed.errors import StateMismatch
from datafeed.order import VERSION, Spec

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Position:
    """Name a position: the epoch, from 0, and how many of its records were handed out."""

    epoch: int
    record: int


@dataclass(frozen=True, slots=True)
class OrderIdentity:
    """Name all that the order depends on; a position means nothing in another order.

    Args:
        dataset: The dataset's digest, and that of the subset where it is one.
        records: How many records it has.
        extent_size: Its nominal extent, in stored bytes; of a mix, those of its datasets.
        spec: The order.
    """

    dataset: str
    records: int
    extent_size: int | list[int]
    spec: Spec

    def fields(self) -> dict[str, object]:
        """Return the fields of the state that must agree."""
        return {
            "format": FORMAT,
            "order": VERSION,
            "dataset": self.dataset,
            "extent_size": self.extent_size,
            **asdict(self.spec),
        }


def write_state(identity: OrderIdentity, position: Position) -> dict[str, object]:
    """Return the state as JSON values."""
    return {**identity.fields(), "epoch": position.epoch, "position": position.record}


def read_state(identity: OrderIdentity, state: Mapping[str, object]) -> Position:
    """Return the position that a state names.

    Raises:
        StateMismatch: It is no state, or one of another dataset, order or version; every difference is named.
    """
    if not isinstance(state, Mapping):
        raise StateMismatch(f"not a loader's state: expected a dict, found {state!r:.60}")
    expected = identity.fields()
    missing = [name for name in (*expected, "epoch", "position") if name not in state]
    if missing:
        raise StateMismatch(f"not a loader's state: it lacks {', '.join(missing)}")
    differ = [
        f"{name} is {state[name]!r} in the state and {value!r} here"
        for name, value in expected.items()
        if state[name] != value
    ]
    if differ:
        raise StateMismatch(
            "this state belongs to another order: " + "; ".join(differ) + ". Build the Loader as it was built then."
        )
    epoch, position = state["epoch"], state["position"]
    if (
        not isinstance(epoch, int)
        or not isinstance(position, int)
        or epoch < 0
        or not 0 <= position <= identity.records
    ):
        raise StateMismatch(
            f"epoch {epoch!r} and position {position!r}: expected an epoch from 0 "
            f"and a position from 0 to {identity.records}"
        )
    return Position(epoch, position)
