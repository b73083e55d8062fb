"""Remember the finished shards of an export, and what a finished export is of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import cast

from datafeed.converters.export_form import Facts
from datafeed.converters.journal import JOURNAL
from datafeed.converters.lock import LOCK_NAME
from datafeed.errors import OutputDiffers
from datafeed.header import canonical
from datafeed.sizes import some
from datafeed.storage import Store

RECORD_NAME = ".export.json"
_PLAN_NAME = f"{JOURNAL}/export.json"

Plan = Mapping[str, object]
"""What decides over the bytes of an export: JSON values."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Describe a finished shard.

    Args:
        number: Its number.
        records: Its records.
        files: The sizes of its files, by name.
        facts: What its form remembers of it.
    """

    number: int
    records: int
    files: Mapping[str, int]
    facts: Facts

    @property
    def nbytes(self) -> int:
        """The size of its files."""
        return sum(self.files.values())


@dataclass(frozen=True, slots=True)
class Totals:
    """Count what a finished export holds."""

    files: int
    nbytes: int


class ExportJournal:
    """Keep one object per finished shard beside the files, and a record of the export once all stand.

    Args:
        store: The destination.
        plan: What is exported.
    """

    def __init__(self, store: Store, plan: Plan) -> None:
        self._store = store
        self._plan = plan

    def totals(self) -> Totals | None:
        """Return what stands there, if it is this export and finished.

        Raises:
            OutputDiffers: It is another one, or lacks a file.
        """
        found = _read(self._store, RECORD_NAME)
        if found is None:
            return None
        self._check(cast("Plan", found["plan"]), ("versions",))
        files = cast("Mapping[str, int]", found["files"])
        lacking = [name for name, nbytes in files.items() if not _stands(self._store, name, nbytes)]
        if lacking:
            raise OutputDiffers(
                f"{self._store.url} holds this export, but not {some(list(map(repr, lacking)), 3)} as it was written: "
                "put that back, or remove all and export again"
            )
        return Totals(**cast("dict[str, int]", found["totals"]))

    def begun(self, journal: Store) -> bool:
        """Tell whether this export was begun there; the caller holds the lock.

        Args:
            journal: The directory of the journal.

        Raises:
            OutputDiffers: Another one was, or files of somebody else stand there.
        """
        plan = _read(self._store, _PLAN_NAME)
        if plan is not None:
            self._check(plan, ())
            return True
        strange = sorted({*self._store.names(), *self._store.folders()} - {LOCK_NAME, JOURNAL})
        strange += [f"{JOURNAL}/{name}" for name in journal.names()]
        if strange:
            where, what = self._store.url, some(list(map(repr, strange)), 3)
            raise OutputDiffers(f"{where} is not empty: it holds {what}; name another place, or remove what is there")
        return False

    def begin(self) -> None:
        """Write down what is exported."""
        with self._store.writer(_PLAN_NAME) as sink:
            sink.write(canonical(dict(self._plan)))

    def add(self, entry: Entry) -> None:
        """Write down a shard whose files stand."""
        with self._store.writer(_entry(entry.number)) as sink:
            sink.write(canonical(asdict(entry)))

    def finished(self, number: int) -> Entry | None:
        """Return a shard, if all its files stand with their sizes."""
        entry = self.entry(number)
        whole = entry is not None and all(_stands(self._store, name, size) for name, size in entry.files.items())
        return entry if whole else None

    def entry(self, number: int) -> Entry | None:
        """Return what was written down of a shard."""
        found = _read(self._store, _entry(number))
        return None if found is None else Entry(**found)  # type: ignore[arg-type]  # our own object, whole by its writer

    def commit(self, files: Mapping[str, int], totals: Totals) -> None:
        """Write the record of the finished export.

        Args:
            files: The sizes of all files, by name; none where they are too many to list.
            totals: Their sums.
        """
        with self._store.writer(RECORD_NAME) as sink:
            sink.write(canonical({"plan": dict(self._plan), "files": dict(files), "totals": asdict(totals)}))

    def remove(self, shards: int) -> None:
        """Delete the journal, once the record stands."""
        for name in [*map(_entry, range(shards)), _PLAN_NAME]:
            with suppress(FileNotFoundError):
                self._store.delete(name)

    def _check(self, found: Plan, ignored: tuple[str, ...]) -> None:
        names = [name for name in {**self._plan, **found} if name not in ignored]
        differing = [name for name in names if found.get(name) != self._plan.get(name)]
        texts = [f"{name}: {found.get(name)!r} -> {self._plan.get(name)!r}" for name in differing if name != "schema"]
        if differing:
            raise OutputDiffers(
                f"{self._store.url} holds another export, finished or not. Old -> new: {'; '.join(texts)}. Give the "
                "old ones to finish it, or name another destination"
            )


def _entry(number: int) -> str:
    return f"{JOURNAL}/{number:06d}.json"


def _stands(store: Store, name: str, nbytes: int) -> bool:
    try:
        return store.size(name) == nbytes
    except (FileNotFoundError, NotADirectoryError):
        return False


def _read(store: Store, name: str) -> dict[str, object] | None:
    try:
        found = json.loads(store.read(name))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None
