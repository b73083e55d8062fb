"""Read a folder that `save_to_disk` of Hugging Face's datasets wrote.

Its state.json names the Arrow files and their order. What becomes of the columns is as with any Arrow file; the
library's own metadata in them say which integers are labels and of which classes, which structs are images, sounds or
other files, and which lists of lists have a fixed shape. A folder of several splits is refused, as each is a dataset;
so is one whose rows a table of indices chooses.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NoReturn

from datafeed.converters.arrow_files import ArrowFiles
from datafeed.converters.listing import list_files
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, Numbers, OnBad, Table, Unit, Where, each
from datafeed.errors import EmptySource, SourceError, SourceNotFound
from datafeed.schema import Schema
from datafeed.sizes import some
from datafeed.storage import local_path

_STATE, _SPLITS = "state.json", "dataset_dict.json"
_INDICES = ("_indices_files", "_indices_data_files")
_JSON_NBYTES = 2**26


@dataclass(frozen=True)
class SavedDataset:
    """Offer the rows of saved datasets, one after the other.

    Args:
        path: A folder, a path or URL; or several.
        asked: How it is read; `int64_lists` and `columns` count here.
    """

    kind: ClassVar[str] = "huggingface"
    path: Where
    asked: SourceOptions

    @cached_property
    def _tables(self) -> ArrowFiles:
        """The Arrow files; a worker gets them with the source."""
        return ArrowFiles(tuple(file for folder in each(self.path) for file in self._files(folder)), self.asked)

    def _files(self, path: str) -> Iterator[str]:
        """Yield a dataset's files in order."""
        folder = _folder(path)
        state = self._json(folder, _STATE)
        if state is None:
            self._refuse(folder)
        for name in _INDICES:
            if state.get(name):
                raise SourceError(
                    f"{shown(folder)} chooses its rows by a table of indices ({name} in {_STATE}): write it anew with "
                    "load_from_disk(FOLDER).flatten_indices().save_to_disk(OTHER)"
                )
        names = _names(state)
        if names is None:
            raise SourceError(f"{shown(folder)}: its {_STATE} does not name the files in it under _data_files")
        if not names:
            raise EmptySource(f"{shown(folder)}: its {_STATE} names no file, so it has no row")
        yield from (f"{folder}/{name}" for name in names)

    def _refuse(self, folder: str) -> NoReturn:
        """Say why a folder without a state.json is no dataset."""
        splits = self._json(folder, _SPLITS)
        names = splits.get("splits") if splits else None
        if isinstance(names, list) and names:
            each_one = some([shown(f"{folder}/{name}") for name in names])
            raise SourceError(f"{shown(folder)} holds several datasets: convert each split by itself: {each_one}")
        if local_path(folder) is not None:
            list_files(folder, ())  # which names the nearest folder there is
        raise SourceNotFound(f"{shown(folder)} holds no {_STATE}: expected a folder that save_to_disk wrote")

    def _json(self, folder: str, name: str) -> dict[str, object] | None:
        path = f"{folder}/{name}"
        if local_path(path) is not None and not os.path.isfile(path):
            return None
        try:
            found = json.loads(self.asked.files.head(path, _JSON_NBYTES))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as exc:
            raise SourceError(f"{shown(path)} is no JSON: {exc}") from exc
        if not isinstance(found, dict):
            raise SourceError(f"{shown(path)}: expected a JSON object, found {type(found).__name__}")
        return found

    def schema(self) -> Schema:
        """Return the columns.

        Raises:
            SourceError: The folder is no saved dataset, or its files cannot be read.
            ConfigError: A column is asked for that is not there.
        """
        return self._tables.schema()

    def units(self) -> Sequence[Unit]:
        """List runs of record batches.

        Raises:
            SourceError: The folder is no saved dataset, or a file cannot be looked at.
        """
        return self._tables.units()

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one run."""
        yield from self._tables.read(unit, on_bad)

    def tables(self) -> Sequence[Table] | None:
        """List the files; None where one is remote, or its record batches compressed."""
        return self._tables.tables()

    def pick(self, unit: Unit, rows: Numbers, on_bad: OnBad) -> Iterator[Chunk]:
        """Read some rows of a file."""
        yield from self._tables.pick(unit, rows, on_bad)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        return self._tables.options()

    def notes(self) -> Sequence[str]:
        """Say what was left out."""
        return self._tables.notes()


def _folder(path: str) -> str:
    """Return the folder of a dataset that is named by itself or by its state.json."""
    bare = path.rstrip("/")
    return bare.removesuffix(f"/{_STATE}") or "/"


def _names(state: dict[str, object]) -> list[str] | None:
    """Return the names of files that a state lists; None where it lists none as the library does."""
    found = state.get("_data_files")
    if not isinstance(found, list):
        return None
    names = [file.get("filename") if isinstance(file, dict) else None for file in found]
    if not all(isinstance(name, str) and name and "/" not in name and name not in {".", ".."} for name in names):
        return None
    return [str(name) for name in names]
