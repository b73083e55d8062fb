"""Check the tier of samples on a device, with the CPU as the device."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from datafeed.cache.policy import Policy
from datafeed.cache.vram import DeviceEpoch, DeviceTier, Form

CPU = torch.device("cpu")
FORMS = {
    "id": Form((), torch.int64),
    "picture": Form((3, 2, 4), torch.uint8, (1, 2, 0)),
    "tokens": Form((5,), torch.uint16),
    "label": Form((), torch.int64),
    "there": Form((), torch.bool),
}
NBYTES = 8 + 24 + 10 + 8 + 1
RECORDS = 100


def made(numbers: list[int]) -> dict[str, torch.Tensor]:
    """Make the tensors of some samples, as a loader does: scalars are views, pictures lie channels last."""
    ids = torch.tensor(numbers, dtype=torch.int64)
    values = torch.arange(24).reshape(1, 2, 4, 3) + ids.reshape(-1, 1, 1, 1)
    return {
        "id": torch.stack((ids, ids * 3))[0],
        "picture": (values % 256).to(torch.uint8).permute(0, 3, 1, 2),
        "tokens": (ids[:, None] * torch.arange(5)).to(torch.int32).to(torch.uint16),
        "label": torch.stack((ids, ids * 3))[1],
        "there": ids % 3 == 0,
    }


def tier_of(samples: int, policy: Policy = "epoch") -> DeviceTier:
    """Make a tier that holds so many samples."""
    return DeviceTier(FORMS, CPU, samples * NBYTES + NBYTES - 1, policy, RECORDS)


def epoch(tier: DeviceTier, order: list[int], size: int = 8) -> list[int]:
    """Read an epoch as a loader does, and check each batch; return what was made."""
    opened, missed = tier.begin(), []
    for low in range(0, len(order), size):
        numbers = order[low : low + size]
        missed += read(opened, numbers)
    opened.end()
    return missed


def read(opened: DeviceEpoch, numbers: list[int]) -> list[int]:
    """Read a batch, and check it; return what was made."""
    asked = np.array(numbers, np.int64)
    slots = opened.find(asked)
    missing = asked[slots < 0].tolist()
    batch = opened.whole(asked, slots, made(missing) if missing else {})
    expected = made(numbers)
    assert list(batch) == list(expected)
    for name, tensor in expected.items():
        assert batch[name].dtype == tensor.dtype
        assert batch[name].shape == tensor.shape
        assert batch[name].stride() == tensor.stride()
        assert torch.equal(batch[name], tensor), name
    return missing


def shuffled(seed: int, count: int = RECORDS) -> list[int]:
    """Return numbers in some order."""
    return np.random.default_rng(seed).permutation(count).tolist()


@pytest.mark.parametrize("policy", ["epoch", "lru"])
@pytest.mark.parametrize("samples", [1, 8, 37, 99, 100, 1000])
def test_what_fits_is_not_made_again(samples: int, policy: Policy) -> None:
    """From the second epoch on, all but as many samples as there is room for are made; each batch is right."""
    tier = tier_of(samples, policy)
    assert sorted(epoch(tier, shuffled(0))) == list(range(RECORDS))
    for number in range(1, 5):
        assert len(epoch(tier, shuffled(number))) == max(0, RECORDS - samples)
    stats = tier.stats()
    assert stats.samples == 4 * min(samples, RECORDS)
    assert stats.nbytes == stats.samples * NBYTES
    assert tier.nbytes <= samples * NBYTES
    assert stats.admitted_nbytes == stats.admitted * NBYTES
    assert stats.admitted - stats.evicted == min(samples, RECORDS)
    if policy == "epoch":
        assert stats.evicted == 0


def test_lru_keeps_what_was_used_last() -> None:
    """What gives way was used longest ago, and not what the running epoch will use."""
    tier = tier_of(8, "lru")
    epoch(tier, list(range(8)))
    assert epoch(tier, [*range(4), *range(10, 14)], size=4) == [10, 11, 12, 13]
    assert epoch(tier, [4, 5, 6, 7]) == []
    assert epoch(tier, list(range(4))) == [0, 1, 2, 3]


def test_an_epoch_that_is_left_lets_go() -> None:
    """What it would have used may give way afterwards, and not before."""
    tier = tier_of(4, "lru")
    epoch(tier, [0, 1, 2, 3])
    left = tier.begin()
    order = [0, 1, 2, 3, 20, 21, 22, 23]
    assert epoch(tier, order, size=4) == [20, 21, 22, 23]
    assert epoch(tier, [0, 1, 2, 3]) == []
    left.end()
    left.end()
    assert epoch(tier, order, size=4) == [20, 21, 22, 23]
    assert epoch(tier, [20, 21, 22, 23]) == []


def test_two_epochs_at_once_are_both_right() -> None:
    """Each takes what it found when it began, whatever the other brings."""
    tier = tier_of(30, "lru")
    epoch(tier, shuffled(0, 60))
    first, second = tier.begin(), tier.begin()
    for low in range(0, RECORDS, 10):
        for number, opened in enumerate((first, second)):
            read(opened, shuffled(number)[low : low + 10])
    first.end()
    second.end()
    epoch(tier, shuffled(3))


def test_two_epochs_at_once_keep_a_sample_once() -> None:
    """What both make is kept of the newest one alone."""
    tier = tier_of(30)
    first, second = tier.begin(), tier.begin()
    for opened in (first, second, first):
        assert read(opened, list(range(10))) == list(range(10))
    assert tier.stats().admitted == 10


@pytest.mark.parametrize("policy", ["epoch", "lru"])
def test_a_sample_that_comes_twice_is_right_each_time(policy: Policy) -> None:
    """Within a batch and in later ones, held or not."""
    tier = tier_of(20, policy)
    for seed in range(4):
        order = np.random.default_rng(seed).integers(0, 30, 80).tolist()
        epoch(tier, order)


def test_blocks_that_are_whole_are_known() -> None:
    """A block of which one sample is missing has to be read."""
    tier = tier_of(RECORDS)
    epoch(tier, [0, 1, 2, 4, 5, 6, 9])
    first = np.array([0, 3, 6, 7, 9, 10], np.int64)
    assert tier.begin().held(first).tolist() == [True, False, True, False, True]


def test_a_device_without_room_keeps_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """One warning, and batches go on."""
    forms = {"id": Form((), torch.int64), "wide": Form((2**46,), torch.uint8)}
    tier = DeviceTier(forms, CPU, 2**62, "epoch", 4)
    with caplog.at_level(logging.WARNING, "datafeed.cache"):
        for _ in range(2):
            opened = tier.begin()
            for number in range(3):
                batch = {"id": torch.tensor([number]), "wide": torch.zeros(1, 1, dtype=torch.uint8)}
                asked = np.array([number])
                assert opened.find(asked).tolist() == [-1]
                assert opened.whole(asked, opened.find(asked), batch) == batch
    assert [record.message.split(":")[0] for record in caplog.records] == ["the vram cache is left out"]
    assert (tier.nbytes, tier.stats().admitted) == (0, 0)
