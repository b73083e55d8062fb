"""Write the values of samples for people or for programs."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping

import numpy as np

from datafeed.commands.terminal import safe
from datafeed.sizes import counted

_SHOWN_BYTES = 16
_SHOWN_ITEMS = 8
_SHOWN_CHARS = 60


def show(value: object) -> str:
    """Describe a value of a sample on one line, shortened.

    Args:
        value: As `Dataset` returns it.

    Returns:
        The text.
    """
    if value is None:
        return "missing"
    if isinstance(value, bytes):
        more = "..." if len(value) > _SHOWN_BYTES else ""
        return f"{counted(len(value), 'byte')} {value[:_SHOWN_BYTES].hex(' ')}{more}".rstrip()
    if isinstance(value, str):
        more = f"... ({counted(len(value), 'character')})" if len(value) > _SHOWN_CHARS else ""
        return f'"{safe(value[:_SHOWN_CHARS])}"{more}'
    if isinstance(value, np.ndarray) and value.ndim:
        form = f"{value.dtype}{list(value.shape)}"
        return f"{form} {_listed([str(item) for item in value.ravel()[: _SHOWN_ITEMS + 1]], value.size)}"
    if isinstance(value, list):
        return _listed([show(item) for item in value[: _SHOWN_ITEMS + 1]], len(value))
    return safe(str(value))


def _listed(items: list[str], count: int) -> str:
    more = ", ..." if count > _SHOWN_ITEMS else ""
    return f"[{', '.join(items[:_SHOWN_ITEMS])}{more}]"


def to_json(value: object) -> object:
    """Turn a value into JSON: bytes into base64, arrays into lists, NaN and infinities into their names.

    Args:
        value: A sample, or a value of one.

    Returns:
        What `json.dumps(..., allow_nan=False)` takes.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (np.ndarray, np.generic)):
        plain = value.tolist()
        return to_json(plain) if value.dtype.kind == "f" and not np.isfinite(value).all() else plain
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return value
