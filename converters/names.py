"""Show names of files, which may be any bytes, as text."""

from __future__ import annotations

import os
from collections.abc import Sequence


def escape(name: str) -> str:
    r"""Return a name as valid text: bytes that are not UTF-8 become \\xNN."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def shown(name: str) -> str:
    """Return a name as text for one line of a message."""
    name = escape(name)
    return name if name.isprintable() else repr(name)


def some(texts: Sequence[str], most: int = 5) -> str:
    """Return the first few texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
