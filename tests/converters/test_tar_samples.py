"""Test grouping the members of tars."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webdataset.tariterators import base_plus_ext

from datafeed.converters import tar_samples
from datafeed.converters.tar_samples import Keys, split_name

NAMES = st.text(st.sampled_from("aB./é"), max_size=9)


@given(name=NAMES)
def test_f91_names_are_split_as_webdataset_splits_them(name: str) -> None:
    """But for those that have no key or no ending, which it passes over or takes for parts of a folder's name."""
    key, ending = base_plus_ext(name)
    found = split_name(name.encode())
    if key is None or not ending or key.endswith("/"):
        assert found is None
    else:
        assert found == (key.encode(), ending.lower())


@given(keys=st.lists(st.integers(0, 60), max_size=300))
def test_every_key_that_came_is_remembered(keys: list[int]) -> None:
    """As a set does it, in less memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tar_samples, "_RECENT", 5)
        known, seen = Keys(), set[int]()
        for key in keys:
            assert known.came_before(b"%d" % key) == (key in seen)
            seen.add(key)
