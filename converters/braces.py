"""Expand braces in names of files, as a shell does: `train-{000..146}.tar`, `{a,b}.csv`."""

from __future__ import annotations

import re

from datafeed.errors import ConfigError

_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
MOST = 10**6


def expand(pattern: str) -> list[str]:
    """Return the names that a pattern stands for, in order.

    Args:
        pattern: A name; groups are `{FIRST..LAST}`, with as many digits as FIRST has, or `{A,B,...}`. Other braces
            stand for themselves.

    Returns:
        The names; the pattern itself where it has no group.

    Raises:
        ConfigError: It stands for more than `MOST` names.
    """
    names = [""]
    end = 0
    for group in _GROUP.finditer(pattern):
        choices = _choices(group[1], MOST // len(names))
        if choices is None:
            continue
        names = [name + pattern[end : group.start()] + choice for name in names for choice in choices]
        end = group.end()
    return [name + pattern[end:] for name in names]


def _choices(text: str, most: int) -> list[str] | None:
    """Return what a group offers; None where it is none."""
    numbers = _RANGE.fullmatch(text)
    if numbers is None:
        return text.split(",") if "," in text else None
    first, last = int(numbers[1]), int(numbers[2])
    if abs(last - first) >= most:
        raise ConfigError(f"{{{text}}} stands for more than {MOST:,} names")
    step = 1 if first <= last else -1
    return [f"{number:0{len(numbers[1])}d}" for number in range(first, last + step, step)]
