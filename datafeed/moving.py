"""Move whatever a batch is to a device."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import torch

_KEPT = (str, bytes, bytearray, memoryview, range)


def moved(value: Any, device: torch.device) -> Any:
    """Return a batch with its tensors on a device; containers keep their types, the caller's are left as they are.

    What has a method `to` is asked for `to(device)`. Mappings, sequences, named tuples and dataclasses are walked
    through. Anything else stays.
    """
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    return value if isinstance(value, _KEPT) else _container(value, device)


def _container(value: Any, device: torch.device) -> Any:
    if callable(getattr(value, "to", None)):
        return value.to(device)
    if isinstance(value, Mapping):
        return _mapping(value, device)
    if isinstance(value, Sequence):
        return _sequence(value, device)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, device)
    return value


def _mapping(value: Mapping[Any, Any], device: torch.device) -> Any:
    items = {name: moved(item, device) for name, item in value.items()}
    if type(value) is dict:
        return items
    try:
        if isinstance(value, MutableMapping):
            clone = copy.copy(value)  # the type may hold more than its items
            clone.update(items)
            return clone
        return type(value)(items)  # type: ignore[call-arg]
    except TypeError:  # the type cannot be made again: a dict, as torch's pinning does
        return items


def _sequence(value: Sequence[Any], device: torch.device) -> Any:
    items = [moved(item, device) for item in value]
    if type(value) is list:
        return items
    if hasattr(value, "_fields"):
        return type(value)(*items)
    try:
        return type(value)(items)  # type: ignore[call-arg]
    except TypeError:
        return items


def _dataclass(value: Any, device: torch.device) -> Any:
    clone = copy.copy(value)
    for field in dataclasses.fields(value):
        object.__setattr__(clone, field.name, moved(getattr(value, field.name), device))  # it may be frozen
    return clone
