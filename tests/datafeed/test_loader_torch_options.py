"""Check what a loader adds over torch Datasets: epochs, devices, figures, refusals."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import RandomSampler
from torch.utils.data.distributed import DistributedSampler
from torch_data import Kept, Lines, Shuffled, numbers, state_of

from datafeed import Loader
from datafeed.errors import ConfigError, StateMismatch
from datafeed.moving import moved

META = torch.device("meta")  # torch's device without memory: what was moved there shows it


class Pair(NamedTuple):
    """Hold two tensors."""

    first: torch.Tensor
    second: torch.Tensor


@dataclass(frozen=True)
class Record:
    """Hold a tensor and a name."""

    value: torch.Tensor
    name: str


class Movable:
    """Move by itself."""

    def __init__(self) -> None:
        self.device: object = None

    def to(self, device: object) -> Movable:
        """Note where to."""
        self.device = device
        return self


class Tagged(dict[str, Any]):
    """Hold more than items."""

    tag = ""


def test_batches_are_moved_whatever_they_are() -> None:
    """Containers keep their types; the batch itself is left as it is."""
    one = torch.ones(2)
    tagged = Tagged(x=one)
    tagged.tag = "kept"
    batch = {
        "list": [one, (one, "text")], "pair": Pair(one, one), "record": Record(one, "n"), "self": Movable(),
        "ordered": collections.OrderedDict(a=one), "tagged": tagged, "fixed": MappingProxyType({"a": one}),
        "packed": pack_sequence([one]), "none": None, "number": 3, "octets": b"abc", "range": range(2),
    }  # fmt: skip
    out = moved(batch, META)
    tensors = [
        out["list"][0], out["list"][1][0], out["pair"].second, out["record"].value, out["ordered"]["a"],
        out["tagged"]["x"], out["fixed"]["a"], out["packed"].data,
    ]  # fmt: skip
    assert [tensor.device for tensor in tensors] == [META] * len(tensors)
    assert {name: type(value) for name, value in out.items()} == {name: type(value) for name, value in batch.items()}
    assert (out["list"][1][1], out["record"].name, out["tagged"].tag, out["self"].device) == ("text", "n", "kept", META)
    assert (out["none"], out["number"], out["octets"], out["range"]) == (None, 3, b"abc", range(2))
    assert tagged["x"] is one
    assert batch["list"][0] is one  # type: ignore[index]


@pytest.mark.parametrize("workers", [0, 1])
def test_the_loader_moves_its_batches(workers: int) -> None:
    """By name or by torch.device."""
    for device in ("meta", META):
        loader = Loader([{"x": torch.ones(1)}] * 3, 2, num_workers=workers, device=device)  # type: ignore[arg-type]
        assert [batch["x"].device for batch in loader] == [META, META]
        assert loader.device == device
    assert Loader([1]).device is None  # type: ignore[arg-type]


def test_a_device_that_is_not_there_is_refused() -> None:
    """When the loader is built."""
    with pytest.raises(ConfigError, match="device='nowhere'"):
        Loader([1], device="nowhere")  # type: ignore[arg-type]


def test_the_epoch_is_told_to_the_sampler() -> None:
    """As DistributedSampler needs it; the state brings it back."""

    def ranked() -> Loader:
        return Loader(range(20), 3, sampler=DistributedSampler(range(20), 2, 0, seed=1))  # type: ignore[arg-type]

    loader = ranked()
    first = numbers(loader)
    loader.set_epoch(3)
    batches = iter(loader)
    begun = numbers([next(batches)])
    state = state_of(loader)
    rest = numbers(batches)
    assert begun + rest != first
    again = ranked()
    again.load_state_dict(state)
    assert again.sampler.epoch == 3  # type: ignore[attr-defined]
    again.set_epoch(3)  # as training scripts do at each epoch's begin
    assert numbers(again) == rest
    again.load_state_dict(state)
    again.set_epoch(4)
    assert len(numbers(again)) == len(first)


def test_ranks_share_a_state() -> None:
    """As frameworks do that save on rank 0 alone."""
    loaders = [Loader(range(20), 3, sampler=DistributedSampler(range(20), 2, rank)) for rank in range(2)]  # type: ignore[arg-type]
    iterators = [iter(loader) for loader in loaders]
    for iterator in iterators:
        next(iterator)
    state = state_of(loaders[0])
    rest = [numbers(iterator) for iterator in iterators]
    for loader, expected in zip(loaders, rest, strict=True):
        loader.load_state_dict(state)
        assert numbers(loader) == expected


@pytest.mark.parametrize("epoch", [-1, 1.5, "2", None, True])
def test_an_epoch_that_is_none_is_refused(epoch: Any) -> None:
    """It is a number from 0."""
    with pytest.raises(ConfigError, match="epoch must be an integer of at least 0"):
        Loader([1]).set_epoch(epoch)  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_figures_are_of_what_was_handed_out(workers: int) -> None:
    """Exact samples; the short last batch counts as what it is."""
    for dataset in (range(11), Lines(11)):
        loader = Loader(dataset, 3, num_workers=workers)  # type: ignore[arg-type]
        assert loader.stats().batches == 0
        batches = iter(loader)
        next(batches)
        stats = loader.stats()
        assert (stats.samples, stats.batches) == (3, 1)
        assert stats.wait_s == stats.first_batch_s > 0
        assert stats.step_s == pytest.approx(0)
        handed = 1 + len(list(batches))
        stats = loader.stats()
        assert (stats.samples, stats.batches) == (11, handed)
        assert stats.wait_s > stats.first_batch_s
        assert stats.step_s > 0
        assert stats.samples_per_s > 0
        assert 0 <= stats.stall_percent <= 100


def test_samples_are_counted_in_batches_of_any_form() -> None:
    """By the samplers where they choose, by what was collated where the dataset does."""
    assert handed(Loader({"a": 1, "b": 2}, sampler=["b", "a"], batch_size=2)) == 2  # type: ignore[arg-type]
    assert handed(Loader(range(5), batch_size=None)) == 5  # type: ignore[arg-type]
    assert handed(Loader(range(5), batch_sampler=[[1, 2, 3], [4]])) == 4  # type: ignore[arg-type]
    assert handed(Loader(Lines(5), batch_size=None)) == 5
    assert handed(Loader(Lines(5), 2, collate_fn=lambda samples: {"x": [tuple(samples)]})) == 5
    assert handed(Loader(Lines(5), 2, collate_fn=lambda samples: torch.tensor(float(sum(samples))))) == 6


def handed(loader: Loader) -> int:
    """Return the samples that were counted in an epoch."""
    list(loader)
    return loader.stats().samples


def saved(**options: Any) -> dict[str, Any]:
    """Return a state in the middle of an epoch."""
    loader = Loader(**{"dataset": range(20), "batch_size": 3, "shuffle": True, **options})
    next(iter(loader))
    return state_of(loader)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch_size": 4}, "batch_size is 3 in the state and 4 here"),
        ({"drop_last": True}, "drop_last is False in the state and True here"),
        ({"dataset": range(21)}, "samples is 20 in the state and 21 here"),
        ({"shuffle": False}, "order is .*RandomSampler.* in the state and .*SequentialSampler"),
        ({"shuffle": None, "sampler": RandomSampler(range(20), num_samples=9)}, "num_samples=9"),
        ({"dataset": Kept(), "shuffle": None}, "over is 'map' in the state and 'iterable' here"),
        ({"generator": torch.Generator()}, None),
    ],
)
def test_a_state_of_another_order_is_refused(options: dict[str, Any], named: str | None) -> None:
    """Each difference is named; the loader stays as it was. One generator is as good as another."""
    loader = Loader(**{"dataset": range(20), "batch_size": 3, "shuffle": True, **options})
    state = saved()
    before = state_of(loader)
    if named is None:
        loader.load_state_dict(state)
        return
    with pytest.raises(StateMismatch, match=named):
        loader.load_state_dict(state)
    assert state_of(loader) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"batches": -1}, "batches must be an integer from 0, found -1"),
        ({"epoch": "1"}, "epoch must be an integer"),
        ({"missing": [9]}, "missing: expected numbers of batches below 1"),
        ({"before": [1]}, "before: expected packed states"),
        ({"samplers": [{}]}, "samplers: the state has 1, and 2 are here"),
        ({"samplers": 3}, "samplers: expected a list of 2 dicts"),
        ({"dataset": [1, 2]}, "dataset: expected 1 states"),
        ({"format": 2}, "format is 2 in the state and 1 here"),
    ],
)
def test_a_state_that_was_changed_is_refused(change: dict[str, Any], named: str) -> None:
    """What and where."""
    with pytest.raises(StateMismatch, match=named):
        Loader(range(20), 3, shuffle=True).load_state_dict({**saved(), **change})  # type: ignore[arg-type]


@pytest.mark.parametrize("packed", ["", "abc", "x" * 50])
def test_a_generator_that_was_changed_is_refused(packed: str) -> None:
    """When it is put back."""
    loader = Loader(range(20), 3, shuffle=True)  # type: ignore[arg-type]
    loader.load_state_dict({**saved(), "before": [packed]})
    with pytest.raises(StateMismatch, match="does not fit it"):
        iter(loader)
    loader.load_state_dict({**saved(), "before": []})
    with pytest.raises(StateMismatch, match="is of 0 random generators, and 1 choose the order here"):
        iter(loader)


@pytest.mark.parametrize("state", [None, 3, "epoch", [], {}, {"epoch": 1}])
def test_what_is_no_state_is_refused(state: Any) -> None:
    """As a file cut short would be."""
    with pytest.raises(StateMismatch, match=r"not a (loader's )?state"):
        Loader([1]).load_state_dict(state)  # type: ignore[arg-type]


def test_a_sampler_that_gives_another_order_is_found() -> None:
    """One that counts its epochs in a way that no state tells."""

    class Turning(Shuffled):
        turn = 0

        def __iter__(self) -> Any:
            self.turn += 1
            return iter([(self.turn + number) % self.count for number in range(self.count)])

    loader = Loader(range(9), 2, sampler=Turning(9, ""))  # type: ignore[arg-type]
    list(loader)
    next(iter(loader))
    state = state_of(loader)
    again = Loader(range(9), 2, sampler=Turning(9, ""))  # type: ignore[arg-type]
    again.load_state_dict(state)
    with pytest.raises(StateMismatch, match=r"other samples for batch 0 .* a state_dict of its own"):
        iter(again)


def test_a_sampler_that_gives_fewer_batches_is_found() -> None:
    """What was handed out is not there."""
    loader = Loader(range(9), 1, sampler=[1, 2, 3])  # type: ignore[arg-type]
    list(zip(range(3), loader, strict=False))
    again = Loader(range(9), 1, sampler=[1, 2])  # type: ignore[arg-type]
    again.load_state_dict(state_of(loader))
    with pytest.raises(StateMismatch, match="3 batches were handed out before, and the sampler gives 2"):
        iter(again)
