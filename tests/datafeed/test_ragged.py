"""Check that ragged values are found by sample."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from datafeed import Ragged

RAGGED = Ragged(torch.arange(10).reshape(5, 2), torch.tensor([0, 2, 2, 5]))


@pytest.mark.parametrize(
    ("index", "start", "end"), [(0, 0, 2), (1, 2, 2), (2, 2, 5), (-1, 2, 5), (-2, 2, 2), (-3, 0, 2)]
)
def test_a_sample_is_a_view_of_its_rows(index: int, start: int, end: int) -> None:
    """An empty sample keeps the shape of its rows."""
    found = RAGGED[index]
    assert torch.equal(found, RAGGED.values[start:end])
    assert found.shape == (end - start, 2)
    if len(found):
        assert found.data_ptr() == RAGGED.values[start:].data_ptr()


def test_numbers_of_numpy_and_torch_are_numbers() -> None:
    """Whatever has an index is one."""
    assert torch.equal(RAGGED[np.int64(2)], RAGGED[2])
    assert torch.equal(RAGGED[torch.tensor(2)], RAGGED[2])


@pytest.mark.parametrize("index", [3, -4, 10**9])
def test_a_sample_out_of_range_is_an_index_error(index: int) -> None:
    """The batch's size is named."""
    with pytest.raises(IndexError, match=f"sample {index} of a batch of 3"):
        RAGGED[index]


@pytest.mark.parametrize("index", [slice(1), "a", 1.0, None])
def test_a_sample_that_is_no_number_is_refused(index: object) -> None:
    """There is no slice of a ragged batch."""
    with pytest.raises(TypeError):
        RAGGED[index]  # type: ignore[index]


def test_a_batch_of_none_has_no_sample() -> None:
    """It is still whole."""
    with pytest.raises(IndexError, match="sample 0 of a batch of 0"):
        Ragged(torch.empty(0), torch.zeros(1, dtype=torch.int64))[0]


def test_it_unpacks_and_pickles() -> None:
    """It is a pair."""
    values, offsets = pickle.loads(pickle.dumps(RAGGED))  # noqa: S301
    assert torch.equal(values, RAGGED.values)
    assert torch.equal(offsets, RAGGED.offsets)
