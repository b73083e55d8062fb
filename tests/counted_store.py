"""Stand before a store, and count what is read of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datafeed.storage import Store


class CountedStore:
    """Read from another store, whatever it is, as from one that is far.

    Args:
        store: The other store.
        log: A file to which each ranged read is appended, for all processes; empty for none.
        latency_s: How long each takes.

    Attributes:
        reads: The ranged reads of this process: object, first byte, bytes.
        lies: How many of the next ranged reads give a page of HTML.
    """

    def __init__(self, store: Store, log: str = "", latency_s: float = 0.0) -> None:
        self._store = store
        self._log = log
        self._latency_s = latency_s
        self.reads: list[tuple[str, int, int]] = []
        self.lies = 0

    def __reduce__(self) -> tuple[type[CountedStore], tuple[Store, str, float]]:
        return CountedStore, (self._store, self._log, self._latency_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read_into(self, name: str, start: int, into: memoryview) -> None:
        """Fill a view (see `Store`)."""
        self.reads.append((name, start, into.nbytes))
        if self._log:
            with open(self._log, "a", encoding="ascii") as file:
                file.write(f"{name} {start} {into.nbytes}\n")
        time.sleep(self._latency_s)
        self._store.read_into(name, start, into)
        if self.lies > 0:
            self.lies -= 1
            page = b"<html><body>Please log in</body></html>"
            into[: len(page)] = page[: into.nbytes]
            into[-8:] = b"</html>\n"
