"""Run a case on torch's DataLoader and on ours, and tell whether they differ."""

from __future__ import annotations

import dataclasses
import random
import re
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

Maker: TypeAlias = Callable[..., Any]
Case: TypeAlias = Callable[[Maker], object]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Add a function to the table: it takes the class to make loaders of, and returns what is compared."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    assert name not in CASES
    CASES[name] = function
    return function


@dataclass(frozen=True)
class Outcome:
    """Hold all that a caller may see of a case."""

    result: object
    error: tuple[str, str] | None
    warned: list[tuple[str, str]]


def outcome(function: Case, make: Maker) -> Outcome:
    """Run a case with every random generator in a known state."""
    torch.manual_seed(11)
    random.seed(12)
    np.random.seed(13)  # noqa: NPY002  (what workers seed)
    result: object = None
    error: tuple[str, str] | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = plain(function(make))
        except Exception as exc:  # noqa: BLE001  (compared)
            error = described(exc)
    return Outcome(result, error, [(entry.category.__name__, neutral(str(entry.message))) for entry in caught])


def described(error: BaseException) -> tuple[str, str]:
    """Return an exception's class and its text."""
    return f"{type(error).__module__}.{type(error).__qualname__}", neutral(str(error))


def neutral(text: str) -> str:
    """Return a text without what no two runs share: processes, addresses, and the name of the loader's own class."""
    text = re.sub(r"\b(?:Data)?Loader(?= is initialized|\.__init__\(\)|' object)", "DataLoader", text)
    text = re.sub(r"(pid\(?s?\)?) [\d, ]+", r"\1 N", text)
    return re.sub(r"0x[0-9a-f]+", "0x", text)


def plain(value: Any) -> object:
    """Return a value as plain ones, with the types of all that is in it."""
    name = type(value).__qualname__
    if isinstance(value, torch.Tensor):
        memory = None if value.is_sparse else (value.is_shared(), value.is_pinned())
        dense = value.to_dense().tolist()
        return name, str(value.dtype), tuple(value.shape), str(value.layout), value.requires_grad, memory, dense
    if isinstance(value, (np.ndarray, np.generic)):
        return name, str(value.dtype), value.shape, value.tolist()
    if isinstance(value, BaseException):
        return described(value)
    return name, _inside(value)


def _inside(value: Any) -> object:
    if isinstance(value, str):
        return neutral(value)
    if isinstance(value, Mapping):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, plain(getattr(value, field.name))) for field in dataclasses.fields(value)]
    if isinstance(value, (type, types.FunctionType)):
        return value.__qualname__
    return neutral(repr(value))


def error_of(call: Callable[[], object]) -> object:
    """Return what a call raises."""
    try:
        return ["nothing was raised", call()]
    except Exception as exc:  # noqa: BLE001  (compared)
        return exc
