"""Decide what a tier keeps, from sizes and from what the order will need; no I/O, no lock."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, Literal, TypeVar

Policy = Literal["epoch", "lru"]
K = TypeVar("K", bound=Hashable)

# What an entry is worth to the epochs to come; one gives way only to those of a higher rank.
_SPARE, _COPIED, _KEPT = range(3)


class Contents(Generic[K]):
    """Follow which keys a tier keeps within its budget.

    "lru" admits all and evicts the least recently used. "epoch" knows the order: every epoch needs the same keys, once
    each, so a key that is needed never gives way to another such one, which would fetch as much and write more. It is
    kept, and those that come when there is no room are not. What no epoch needs gives way first, then what a slower
    tier holds too.

    Args:
        budget: Bytes, at least 0.
        policy: Which of the two.
    """

    def __init__(self, budget: int, policy: Policy) -> None:
        self.budget = budget
        self._policy = policy
        self._ranks: tuple[OrderedDict[K, int], ...] = (OrderedDict(), OrderedDict(), OrderedDict())
        self._nbytes = [0, 0, 0]
        self._is_needed: Callable[[K], bool] = _always

    @property
    def nbytes(self) -> int:
        """The bytes that are kept."""
        return sum(self._nbytes)

    def __len__(self) -> int:
        return sum(map(len, self._ranks))

    def __contains__(self, key: object) -> bool:
        return any(key in entries for entries in self._ranks)

    def need(self, is_needed: Callable[[K], bool]) -> None:
        """Say which keys this epoch, or a later one, will read again; before that, all of them.

        Args:
            is_needed: Tells it of a key.
        """
        self._is_needed = is_needed
        if self._policy == "epoch":
            idle = [(key, rank) for rank in (_COPIED, _KEPT) for key in self._ranks[rank] if not is_needed(key)]
            wanted = [key for key in self._ranks[_SPARE] if is_needed(key)]
            for key, rank in idle:
                self._put(key, self._pop(key, rank), _SPARE)
            for key in wanted:
                self._put(key, self._pop(key, _SPARE), _KEPT)

    def use(self, key: K) -> bool:
        """Note a use of a key; return whether it is kept."""
        for entries in self._ranks:
            if key in entries:
                entries.move_to_end(key)
                return True
        return False

    def admit(self, key: K, nbytes: int, *, copied: bool = False) -> list[K] | None:
        """Keep a key, if the policy finds room for it.

        Args:
            key: The key; one that is kept already is taken anew.
            nbytes: Its size, not negative.
            copied: Whether a slower tier holds it too.

        Returns:
            The keys that gave way to it, in turn; None where it is not kept, and nothing gave way.
        """
        self.discard(key)
        rank = self._rank(key, copied=copied)
        giving = 1 if self._policy == "lru" else rank
        if nbytes > self.budget - sum(self._nbytes[giving:]):
            return None
        evicted = []
        while self.nbytes + nbytes > self.budget:
            first = next(rank for rank in range(giving) if self._ranks[rank])
            evicted.append(next(iter(self._ranks[first])))
            self._pop(evicted[-1], first)
        self._put(key, nbytes, rank)
        return evicted

    def grow(self, key: K, nbytes: int) -> None:
        """Correct the size of a key that is kept: what it took less gives room to others.

        Args:
            key: The key.
            nbytes: By how much; negative for less.
        """
        for rank, entries in enumerate(self._ranks):
            if key in entries:
                entries[key] += nbytes
                self._nbytes[rank] += nbytes

    def discard(self, key: K) -> None:
        """Forget a key, if it is kept."""
        for rank, entries in enumerate(self._ranks):
            if key in entries:
                self._pop(key, rank)

    def _pop(self, key: K, rank: int) -> int:
        nbytes = self._ranks[rank].pop(key)
        self._nbytes[rank] -= nbytes
        return nbytes

    def _put(self, key: K, nbytes: int, rank: int) -> None:
        self._ranks[rank][key] = nbytes
        self._nbytes[rank] += nbytes

    def _rank(self, key: K, *, copied: bool) -> int:
        if self._policy == "lru" or not self._is_needed(key):
            return _SPARE
        return _COPIED if copied else _KEPT


def _always(_: object) -> bool:
    return True


def giving_way(
    dataset: str, nbytes: int, used: Mapping[str, int], live: Collection[str], budget: int
) -> tuple[str, ...]:
    """Say which datasets' entries that are still needed give way in a budget that several share.

    A dataset is live while somebody reads it. Those that are not give way first. Of those that are, each may have an
    equal share; what one holds beyond its own gives way to another that is below.

    Args:
        dataset: Whose entry asks for room; live.
        nbytes: The entry's size.
        used: Bytes by dataset.
        live: The live datasets.
        budget: Bytes that all share.

    Returns:
        The datasets, in the order in which they give way.
    """
    idle = sorted(name for name in used if name not in live and name != dataset)
    share = budget // max(1, len({*live, dataset}))
    if used.get(dataset, 0) + nbytes > share:
        return tuple(idle)
    over = [name for name in used if name in live and name != dataset and used[name] > share]
    return (*idle, *sorted(over, key=lambda name: -used[name]))
