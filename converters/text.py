"""Read documents as token ids.

The documents of a unit are laid end to end, each with the separator behind it, and cut into samples of `seq_len` ids;
or each makes a sample of its own. Packing never crosses units, so that the samples are the same for any number of
workers: what is left at the end of a unit is a shorter sample, or dropped. A unit takes parts of files, one after the
other, until it has 8 MB of text, or as much as 256 samples need.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, get_args

import numpy as np

from datafeed.columns import Column, offsets_of
from datafeed.converters.documents import SUFFIXES, Part, documents_of, parts_of
from datafeed.converters.files import no_file
from datafeed.converters.names import shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.packing_tokens import Ids, Tail, apart, packed, runs_of
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.converters.tasks import TASK_NBYTES
from datafeed.converters.tokens import Tokens, read_tokens
from datafeed.errors import BadItem, ConfigError, EmptySource
from datafeed.schema import Feature, Schema, stored
from datafeed.sizes import counted
from datafeed.storage import local_path

UNIT_NBYTES = 8_000_000
_UNIT_SAMPLES = 256  # at least, so that a unit's tail is a small part of it
_ID_NBYTES = 4  # of text, about, whatever the language: a token of English has 4.5 letters
_MOST_NBYTES = 16 * UNIT_NBYTES
_MOST_PARTS = 4096


@dataclass(frozen=True)
class Text:
    """Offer documents as token ids.

    Args:
        path: A file, a folder or a pattern, a path or URL; or several.
        asked: How it is read.

    Raises:
        ConfigError: There is no tokenizer, or an option is out of bounds.
    """

    kind: ClassVar[str] = "text"
    path: Where
    asked: SourceOptions

    def __post_init__(self) -> None:
        asked = self.asked
        if asked.tokenizer is None:
            raise ConfigError("text needs a tokenizer: name its tokenizer.json with --tokenizer FILE")
        if asked.seq_len is not None and asked.seq_len < 1:
            raise ConfigError(f"seq_len must be at least 1, found {asked.seq_len}")
        if asked.tail not in get_args(Tail):
            raise ConfigError(f"tail must be one of {', '.join(get_args(Tail))}, found {asked.tail!r}")
        if asked.tail == "drop" and asked.seq_len is None:
            raise ConfigError("tail: without seq_len each document is a sample, and nothing is left to drop")

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_units"}

    @cached_property
    def _tokens(self) -> Tokens:
        assert self.asked.tokenizer is not None
        return read_tokens(self.asked.files, self.asked.tokenizer, self.asked.separator)

    def options(self) -> dict[str, object]:
        """Return what shapes the output."""
        asked = self.asked
        names = ("seq_len", "one_document", "tail", "text", "int64_lists")
        return {**self._tokens.provenance(), **{name: getattr(asked, name) for name in names}}

    def notes(self) -> Sequence[str]:
        """Say what ends a document, what is dropped, and what the documents are, where files differ."""
        end = self._tokens.end
        notes = [f"each document ends with {end[0]!r}, id {end[1]}" if end else "nothing stands between documents"]
        if self.asked.tail == "drop":
            notes.append(self._dropped())
        files = {part.unit.files[0].path: part.form for unit in self._units for part in _parts(unit)}
        forms = Counter(files.values())
        if len(forms) > 1:
            notes.append(
                "documents come from " + ", ".join(f"{counted(n, f'{form} file')}" for form, n in forms.items())
            )
        return notes

    def _dropped(self) -> str:
        most = (self.asked.seq_len or 1) - 1
        if not self._packs:
            return f"of each document up to {most:,} ids are dropped, which fill no sample"
        units = len(self._units)
        return (
            f"up to {units * most:,} ids are dropped, which fill no sample: {most:,} at most in each of {units:,} units"
        )

    @property
    def _packs(self) -> bool:
        return self.asked.seq_len is not None and not self.asked.one_document

    def schema(self) -> Schema:
        """Return the one feature, `tokens`; nothing is read but the tokenizer.

        Raises:
            ConfigError: The tokenizer cannot be read, or the separator is unknown.
            SourceError: There is no document.
        """
        self.units()
        return Schema([self._feature])

    @property
    def _feature(self) -> Feature:
        asked = self.asked
        length = asked.seq_len if asked.tail == "drop" else None
        return stored("tokens", self._tokens.dtype, (length,), int64_lists=asked.int64_lists)

    def units(self) -> Sequence[Unit]:
        """List runs of consecutive parts of the files.

        Raises:
            SourceError: There is no file, none holds a document, or one cannot be looked at.
        """
        return self._units

    @cached_property
    def _units(self) -> list[Unit]:
        listed = self.asked.files.listed(self.path, SUFFIXES)
        files = [file for file in listed if not self._is_tokenizer(file)]
        if not files:
            raise no_file(self.path, SUFFIXES)
        wanted = min(max(UNIT_NBYTES, _UNIT_SAMPLES * _ID_NBYTES * (self.asked.seq_len or 0)), _MOST_NBYTES)
        runs = list(_runs((part for file in files for part in parts_of(self.asked, file)), wanted))
        if not runs:
            raise EmptySource(f"{shown(self.path)}: no file holds a document")
        each = np.dtype(self._tokens.dtype).itemsize
        return [_unit(run, nbytes * each // _ID_NBYTES) for run, nbytes in runs]

    def _is_tokenizer(self, file: Stamp) -> bool:
        """Whether a file is the tokenizer, which often lies among the data and ends in .json as they do."""
        name, own = local_path(file.path), local_path(self.asked.tokenizer or "")
        if name is None or own is None:
            return file.path == self.asked.tokenizer
        return os.path.realpath(name) == os.path.realpath(own)

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, some million ids at a time.

        Raises:
            BadItem: Whatever `on_bad` raises.
        """
        asked = self.asked
        documents = self._documents(unit, on_bad)
        if asked.seq_len is not None and self._packs:
            samples = packed(documents, asked.seq_len, asked.tail)
        else:
            samples = apart(documents, asked.seq_len, asked.tail)
        feature = self._feature
        for run in runs_of(samples):
            yield _chunk(feature, run)

    def _documents(self, unit: Unit, on_bad: OnBad) -> Iterator[Ids]:
        for part in _parts(unit):
            for where, text in documents_of(self.asked, part, on_bad):
                try:
                    ids = self._tokens.encode(text)
                except ValueError as exc:
                    on_bad(BadItem(where, str(exc), text.encode("utf-8", "backslashreplace")))
                else:
                    yield where, ids


def _parts(unit: Unit) -> tuple[Part, ...]:
    assert isinstance(unit.detail, tuple)
    return unit.detail


def _runs(parts: Iterable[Part], wanted: int) -> Iterator[tuple[list[Part], int]]:
    """Yield consecutive parts together until they have the bytes wanted; and their bytes."""
    run: list[Part] = []
    nbytes = 0
    for part in parts:
        run.append(part)
        nbytes += part.unit.nbytes
        if nbytes >= wanted or len(run) == _MOST_PARTS:
            yield run, nbytes
            run, nbytes = [], 0
    if run:
        yield run, nbytes


def _unit(parts: Sequence[Part], nbytes: int) -> Unit:
    files = dict.fromkeys(stamp for part in parts for stamp in part.unit.files)
    return Unit(parts[0].unit.name, nbytes, tuple(files), tuple(parts), work=TASK_NBYTES)  # 8 MB of text take seconds


def _chunk(feature: Feature, run: Sequence[Ids]) -> Chunk:
    values = np.concatenate([ids for _, ids in run])
    if feature.ragged:
        column = Column(values, offsets_of([len(ids) for _, ids in run]))
    else:
        column = Column(values.reshape(-1, *feature.row_shape))
    return Chunk({feature.name: column}, len(run), where=lambda row: run[row][0])
