"""Show names of files, which may be any bytes, as text."""

from __future__ import annotations

import os
from dataclasses import dataclass

from datafeed.errors import BadItem
from datafeed.sizes import some
from datafeed.storage import masked


def escape(name: str) -> str:
    r"""Return a name as valid text: bytes that are not UTF-8 become \\xNN."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def shown(name: str | tuple[str, ...]) -> str:
    """Return a name or URL, or several, as text for one line of a message; a password in it is masked."""
    if isinstance(name, tuple):
        return some([shown(one) for one in name])
    name = escape(masked(name))
    return name if name.isprintable() else repr(name)


def base_name(path: str) -> str:
    """Return the last part of a path or URL: of a chained URL that of its first link, without a query."""
    head, chain, _ = path.partition("::")
    if chain and "://" in head:
        path = head
    if path.startswith(("http://", "https://")):
        path = path.partition("?")[0]
    return os.path.basename(path.rstrip("/"))


@dataclass(slots=True)
class FirstBad:
    """Keep the first bad item of a first pass, which reports none, for a message that nothing good was found."""

    item: BadItem | None = None

    def __call__(self, item: BadItem) -> None:
        """Take a bad item, as `on_bad`."""
        self.item = self.item or item

    @property
    def ending(self) -> str:
        """The end of that message; empty where there was no bad item."""
        return f"; the first bad item is {self.item}" if self.item else ""
