"""Check the policies against plain lists, and the shares of a budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datafeed.cache.policy import Contents, Policy, giving_way

operations = st.lists(
    st.tuples(
        st.sampled_from(["use", "admit", "admit copied", "discard", "need"]), st.integers(0, 9), st.integers(0, 40)
    ),
    max_size=60,
)


@given(st.integers(0, 100), st.sampled_from(["epoch", "lru"]), operations)
def test_contents_equal_a_plain_list(budget: int, policy: Policy, operations: list[tuple[str, int, int]]) -> None:
    """What is kept, what gives way and the sizes agree after every operation."""
    contents: Contents[int] = Contents(budget, policy)
    plain = _Plain(budget, policy)
    for operation, key, nbytes in operations:
        if operation == "use":
            assert contents.use(key) == plain.use(key)
        elif operation == "discard":
            contents.discard(key)
            plain.entries = [entry for entry in plain.entries if entry[0] != key]
        elif operation == "need":
            needed = set(range(key))
            contents.need(needed.__contains__)
            plain.need(needed)
        else:
            copied = operation == "admit copied"
            assert contents.admit(key, nbytes, copied=copied) == plain.admit(key, nbytes, copied=copied)
        assert contents.nbytes == sum(entry[1] for entry in plain.entries) <= budget
        assert len(contents) == len(plain.entries)
        assert all(entry[0] in contents for entry in plain.entries)


class _Plain:
    """Keep (key, nbytes, copied), the least recently used first."""

    def __init__(self, budget: int, policy: Policy) -> None:
        self.budget = budget
        self.policy = policy
        self.entries: list[tuple[int, int, bool]] = []
        self.needed = set(range(100))

    def worth(self, entry: tuple[int, int, bool]) -> int:
        if self.policy == "lru":
            return 0
        return 0 if entry[0] not in self.needed else 1 if entry[2] else 2

    def use(self, key: int) -> bool:
        found = [entry for entry in self.entries if entry[0] == key]
        self.entries = [entry for entry in self.entries if entry[0] != key] + found
        return bool(found)

    def need(self, needed: set[int]) -> None:
        """Entries that change their worth count as used just now, and are no copies any more."""
        before = {entry[0]: self.worth(entry) for entry in self.entries}
        self.needed = needed
        if self.policy == "lru":
            return
        down = [entry for entry in self.entries if before[entry[0]] and not self.worth(entry)]
        down.sort(key=lambda entry: before[entry[0]])
        up = [entry for entry in self.entries if not before[entry[0]] and self.worth(entry)]
        moved = {entry[0] for entry in down + up}
        self.entries = [entry for entry in self.entries if entry[0] not in moved]
        self.entries += [(key, nbytes, False) for key, nbytes, _ in down + up]

    def admit(self, key: int, nbytes: int, *, copied: bool) -> list[int] | None:
        self.entries = [entry for entry in self.entries if entry[0] != key]
        new = (key, nbytes, copied)
        limit = 1 if self.policy == "lru" else self.worth(new)
        giving = sorted((entry for entry in self.entries if self.worth(entry) < limit), key=self.worth)
        staying = sum(entry[1] for entry in self.entries) - sum(entry[1] for entry in giving)
        if nbytes > self.budget or (staying + nbytes > self.budget):
            return None
        evicted = []
        while sum(entry[1] for entry in self.entries) + nbytes > self.budget:
            self.entries.remove(giving[0])
            evicted.append(giving.pop(0)[0])
        self.entries.append(new)
        return evicted


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_epoch_fetches_what_does_not_fit(share: float) -> None:
    """Whatever order the epochs have, exactly the share that fits is hit, and nothing is evicted."""
    contents: Contents[int] = Contents(round(100 * share), "epoch")
    for epoch in range(4):
        order = [(key * 37 + epoch * 11) % 100 for key in range(100)]
        hits = sum(contents.use(key) or contents.admit(key, 1) not in ([], None) for key in order)
        assert hits == (0 if not epoch else round(100 * share))


def test_a_copy_gives_way_to_the_only_one() -> None:
    """What a slower tier holds too makes room for what none holds."""
    contents: Contents[str] = Contents(2, "epoch")
    assert contents.admit("here", 1) == []
    assert contents.admit("below too", 1, copied=True) == []
    assert contents.admit("copy", 1, copied=True) is None
    assert contents.admit("new", 1) == ["below too"]
    assert contents.admit("newer", 1) is None


@pytest.mark.parametrize(
    ("used", "live", "expected"),
    [
        ({"a": 100}, {"b"}, ("a",)),
        ({"a": 100}, {"a", "b"}, ("a",)),
        ({"a": 60, "b": 40}, {"a", "b"}, ("a",)),
        ({"a": 50, "b": 50}, {"a", "b"}, ()),
        ({"b": 100}, {"b"}, ()),
        ({"a": 50, "b": 10, "c": 40}, {"a", "b"}, ("c",)),
        ({"a": 90, "b": 0, "c": 10}, {"a", "b"}, ("c", "a")),
    ],
)
def test_datasets_share_a_budget_equally(used: dict[str, int], live: set[str], expected: tuple[str, ...]) -> None:
    """Idle datasets give way first, then those beyond an equal share, to one that is below its own."""
    assert giving_way("b", 5, used, live, 100) == expected
