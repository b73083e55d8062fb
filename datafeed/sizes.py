"""Read and write amounts as people do."""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import SupportsIndex

from datafeed.errors import ConfigError

_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "PIB": 2**50,
}  # fmt: skip
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(text: str | int, *, name: str = "size") -> int:
    """Turn a size such as "100MB" or "256KiB" into bytes.

    Args:
        text: Digits with an optional fraction and unit: decimal (kB, MB, GB, TB, PB) or binary (KiB, MiB, ...), in any
            case. A plain number is bytes.
        name: The option's name, for the error.

    Returns:
        Bytes, at least 1.

    Raises:
        ConfigError: The text is no size, or it is zero or negative.
    """
    match = _PATTERN.fullmatch(str(text))
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise ConfigError(f"{name} {text!r} is no size: write it as 100MB, 1.5GB or 256KiB")
    nbytes = int(float(match[1]) * unit)
    if nbytes < 1:
        raise ConfigError(f"{name} must be at least one byte, found {text!r}")
    return nbytes


def whole_number(name: str, value: object, least: int | None = None) -> int:
    """Return an option as a Python int: a state holds it as JSON.

    Raises:
        ConfigError: It is no integer, or below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise ConfigError(f"{name} must be an integer, found {value!r}")
    number = operator.index(value)
    if least is not None and number < least:
        raise ConfigError(f"{name} must be at least {least}, found {value!r}")
    return number


def format_size(nbytes: float) -> str:
    """Write bytes in the largest decimal unit that keeps a digit before the point: "1.5 GB".

    Args:
        nbytes: Bytes, not negative.

    Returns:
        The text, with one decimal from kB on.
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if nbytes < 1000:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1000
    return f"{nbytes:.1f} PB"


def counted(count: int, noun: str) -> str:
    """Write how many there are: "1 shard", "1,000 entries".

    Args:
        count: How many.
        noun: What one of them is called; the last word takes the plural.
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def some(texts: Sequence[str], most: int = 5) -> str:
    """Return the first few texts, and how many more there are."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
