"""Compare what batches are made of."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from parity.compare import Maker, case
from parity.data import Items, Pair, Pinnable, Record, as_list, fails_to_collate
from torch.nn.utils.rnn import pack_sequence
from torch.utils.data import default_collate, default_convert


class Tagged(dict[str, Any]):
    """Be a dict of another type."""


class Row(list[Any]):
    """Be a list of another type."""


def _each(samples: Callable[[], list[Any]]) -> Any:
    """Return a case that collates samples, and converts them."""

    def compared(make: Maker) -> object:
        return list(make(Items(*samples()), 2)), list(make(Items(*samples()), batch_size=None))

    return compared


KINDS: dict[str, Callable[[], list[Any]]] = {
    "ints": lambda: [1, 2, 3],
    "floats": lambda: [1.0, 2.5],
    "bools": lambda: [True, False],
    "mixed_numbers": lambda: [1, 2.5],
    "complex_numbers": lambda: [1j, 2j],
    "text": lambda: ["a", "b", "c"],
    "octets": lambda: [b"a", b"b"],
    "nothing": lambda: [None, None],
    "nothing_among_numbers": lambda: [1, None],
    "nothing_in_a_dict": lambda: [{"x": None}, {"x": 1}],
    "tensors": lambda: [torch.ones(2), torch.zeros(2)],
    "tensors_without_dimensions": lambda: [torch.tensor(1), torch.tensor(2)],
    "tensors_of_other_shapes": lambda: [torch.ones(2), torch.ones(3)],
    "tensors_of_other_types": lambda: [torch.ones(2), torch.ones(2, dtype=torch.int64)],
    "sparse_tensors": lambda: [torch.eye(2).to_sparse(), torch.eye(2).to_sparse()],
    "tensors_with_gradients": lambda: [torch.ones(2, requires_grad=True), torch.ones(2)],
    "arrays": lambda: [np.ones(2, np.float32), np.zeros(2, np.float32)],
    "arrays_of_text": lambda: [np.array(["a"]), np.array(["b"])],
    "arrays_of_objects": lambda: [np.array([None]), np.array([None])],
    "arrays_without_dimensions": lambda: [np.array(1), np.array(2)],
    "numpy_numbers": lambda: [np.float32(1), np.float32(2)],
    "numpy_numbers_of_8_bits": lambda: [np.uint8(1), np.uint8(255)],
    "numpy_bools": lambda: [np.bool_(True), np.bool_(False)],  # noqa: FBT003
    "numpy_text": lambda: [np.str_("a"), np.str_("b")],
    "tuples": lambda: [(1, "a"), (2, "b")],
    "lists": lambda: [[1, 2.0], [3, 4.0]],
    "lists_of_other_lengths": lambda: [[1, 2], [3]],
    "empty_lists": lambda: [[], []],
    "nested": lambda: [{"a": [(1, {"b": "x"})]}, {"a": [(2, {"b": "y"})]}],
    "named_tuples": lambda: [Pair(torch.ones(1), torch.zeros(1)), Pair(torch.zeros(1), torch.ones(1))],
    "data_classes": lambda: [Record(1), Record(2)],
    "sets": lambda: [{1}, {2}],
    "ordered_dicts": lambda: [collections.OrderedDict(b=1, a=2), collections.OrderedDict(b=3, a=4)],
    "default_dicts": lambda: [collections.defaultdict(int, a=1), collections.defaultdict(int, a=2)],
    "dicts_of_a_type": lambda: [Tagged(a=1), Tagged(a=2)],
    "lists_of_a_type": lambda: [Row([1, 2]), Row([3, 4])],
    "dicts_that_lack_a_key": lambda: [{"a": 1, "b": 1}, {"a": 2}],
    "dicts_with_another_key": lambda: [{"a": 1}, {"a": 2, "b": 2}],
    "ranges": lambda: [range(2), range(2)],
    "packed_sequences": lambda: [pack_sequence([torch.ones(2)]), pack_sequence([torch.ones(2)])],
    "objects": lambda: [object(), object()],
}

for name, made in KINDS.items():
    function = _each(made)
    function.__module__, function.__name__ = __name__, name
    case(function)


@case
def a_function_of_the_callers(make: Maker) -> object:
    """It gets the samples as they are."""
    return list(make(Items(None, 1, "a"), 2, collate_fn=as_list)), make(Items(1), collate_fn=as_list).collate_fn


@case
def a_function_that_raises(make: Maker) -> object:
    """As it raised."""
    return list(make(Items(1, 2), 2, collate_fn=fails_to_collate))


@case
def torchs_functions(make: Maker) -> object:
    """Which of them is taken."""
    loader, converting = make(Items(1)), make(Items(1), batch_size=None)
    return loader.collate_fn is default_collate, converting.collate_fn is default_convert


@case
def batches_that_pin_themselves(make: Maker) -> object:
    """Without an accelerator nothing is pinned, and torch says so."""
    return list(make(Items(1, 2, 3), 2, collate_fn=Pinnable, pin_memory=True))


@case
def pinning(make: Maker) -> object:
    """The warning comes with each iterator."""
    loader = make(Items(torch.ones(2)), pin_memory=True)
    return list(loader), list(loader), loader.pin_memory


@case
def pinning_for_a_device(make: Maker) -> object:
    """Deprecated, and said."""
    loader = make(Items(torch.ones(2)), pin_memory=True, pin_memory_device="cuda")
    return list(loader), loader.pin_memory_device, list(make(Items(1), pin_memory_device="cuda"))


@case
def pinning_with_workers(make: Maker) -> object:
    """The same warning."""
    return list(make(Items(1, 2), num_workers=1, pin_memory=True))
