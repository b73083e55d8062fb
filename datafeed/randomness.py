"""Take the states of random generators as text, and put them back."""

from __future__ import annotations

import base64
import json
import random
import types
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from datafeed.errors import StateMismatch
from datafeed.sizes import counted

# The two modules stand for the generators behind their functions.
Generator = torch.Generator | random.Random | np.random.RandomState | np.random.Generator | types.ModuleType

_COMMON: tuple[Generator, ...] = (torch.default_generator, random, np.random)
_KINDS = (torch.Generator, random.Random, np.random.RandomState, np.random.Generator)


def common_generators() -> tuple[Generator, ...]:
    """Return the generators that a whole process shares: torch's, Python's and numpy's."""
    return _COMMON


def own_generators(holder: object) -> list[Generator]:
    """Return the generators among an object's attributes."""
    values = getattr(holder, "__dict__", {}).values()
    return [value for value in values if isinstance(value, _KINDS) and not isinstance(value, random.SystemRandom)]


def take(generator: Generator) -> object:
    """Return a generator's state, in its library's own form."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.getstate() if _is_python(generator) else generator.get_state()  # type: ignore[union-attr]


def pack(state: object) -> str:
    """Return a state as a text of a few KB."""
    text = json.dumps(state, default=_plain)
    return base64.b85encode(zlib.compress(text.encode())).decode()


def put(generator: Generator, packed: str) -> None:
    """Bring a generator to a state that was packed.

    Raises:
        StateMismatch: It is no state of such a generator.
    """
    try:
        _set(generator, json.loads(zlib.decompress(base64.b85decode(packed))))
    except (TypeError, ValueError, KeyError, RuntimeError, AttributeError, IndexError, zlib.error) as exc:
        raise StateMismatch(f"the state of a {_name(generator)} does not fit it: {exc}") from exc


@contextmanager
def borrowed(generators: Sequence[Generator], packed: Sequence[str]) -> Iterator[None]:
    """Bring generators to packed states; those that the whole process shares come back to where they stood.

    One that stands there already is as in the run that is repeated: it goes on from where it is brought.

    Raises:
        StateMismatch: They are not as many, or of other kinds.
    """
    if len(generators) != len(packed):
        raise StateMismatch(
            f"the state is of {counted(len(packed), 'random generator')}, and {len(generators)} choose the order here"
        )
    before = {
        number: pack(take(generator))
        for number, generator in enumerate(generators)
        if any(generator is shared for shared in _COMMON)
    }
    for generator, state in zip(generators, packed, strict=True):
        put(generator, state)
    try:
        yield
    finally:
        for number, state in before.items():
            if state != packed[number]:
                put(generators[number], state)


def _plain(array: Any) -> Any:
    # Torch's states are bytes: as digits they would take twice the room.
    return array.numpy().tobytes().hex() if isinstance(array, torch.Tensor) else array.tolist()


def _set(generator: Generator, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(torch.frombuffer(bytearray.fromhex(state), dtype=torch.uint8))
    elif isinstance(generator, np.random.Generator):
        if not isinstance(state, Mapping):
            raise TypeError(f"expected a dict, found {type(state).__name__}")
        generator.bit_generator.state = state
    elif _is_python(generator):
        version, words, gauss = state
        generator.setstate((version, tuple(words), gauss))  # type: ignore[union-attr]
    else:
        generator.set_state(tuple(state))  # type: ignore[union-attr]


def _is_python(generator: Generator) -> bool:
    return generator is random or isinstance(generator, random.Random)


def _name(generator: Generator) -> str:
    if isinstance(generator, types.ModuleType):
        return f"generator of {generator.__name__}"
    return f"{type(generator).__module__}.{type(generator).__name__}"
