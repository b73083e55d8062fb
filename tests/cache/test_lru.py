"""Check the LRU against a plain list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from datafeed.cache.lru import LRU

operations = st.lists(st.tuples(st.sampled_from(["get", "put", "discard"]), st.integers(0, 6), st.integers(0, 40)))


@given(st.integers(0, 100), operations)
def test_lru_equals_a_plain_list(budget: int, operations: list[tuple[str, int, int]]) -> None:
    """Values, evictions and sizes agree after every operation."""
    lru: LRU[int, str] = LRU(budget)
    plain: list[tuple[int, str, int]] = []
    for turn, (operation, key, nbytes) in enumerate(operations):
        found = next((entry for entry in plain if entry[0] == key), None)
        if operation == "get":
            assert lru.get(key) == (found[1] if found else None)
            if found:
                plain.remove(found)
                plain.append(found)
            continue
        if found:
            plain.remove(found)
        if operation == "discard":
            lru.discard(key)
        else:
            evicted = []
            if nbytes <= budget:
                plain.append((key, str(turn), nbytes))
            while sum(entry[2] for entry in plain) > budget:
                evicted.append(plain.pop(0)[:2])
            assert lru.put(key, str(turn), nbytes) == evicted
        assert len(lru) == len(plain)
        assert lru.nbytes == sum(entry[2] for entry in plain) <= budget
        assert all(entry[0] in lru for entry in plain)
