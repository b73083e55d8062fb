"""Read LMDB environments: a sample is a `key` and a `value`, both as their bytes.

Values that are images, as the first ones tell, get the media "image". Anything else that a value holds, such as a
pickle or a Caffe Datum, stays as it is. An environment that is cut short or damaged where its tree is walked is a bad
item; so is a page or value found damaged later. Named databases, and several values a key, are refused. Environments of
no key are read as empty.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from datafeed.columns import Column, end_to_end
from datafeed.converters.files import no_file, open_failed
from datafeed.converters.lmdb_pages import NAMED, DamagedError, Environment, Node
from datafeed.converters.names import FirstBad, shown
from datafeed.converters.options import SourceOptions
from datafeed.converters.source import Chunk, OnBad, Stamp, Unit, Where
from datafeed.errors import BadItem, EmptySource, SourceError
from datafeed.infer import image_media
from datafeed.schema import Feature, Schema, stored

SUFFIXES = (".mdb", ".lmdb")
UNIT_NBYTES = 16 * 10**6
CHUNK_NBYTES = 4 * 2**20
_READ_NBYTES = 2**18
_SNIFFED = 16
_SNIFFED_NBYTES = 16
_ALL = (0, None)


@dataclass(frozen=True)
class Lmdb:
    """Offer the keys and values of LMDB environments, in the order of the keys.

    Args:
        path: A data file, a folder or a pattern, a path or URL; or several.
        asked: How it is read.
    """

    kind: ClassVar[str] = "lmdb"
    path: Where
    asked: SourceOptions

    def __getstate__(self) -> dict[str, object]:
        """Leave the listing behind: a worker is told what to read."""
        return {name: value for name, value in self.__dict__.items() if name != "_units"}

    def options(self) -> dict[str, object]:
        """Return what shapes the output: nothing does."""
        return {}

    def notes(self) -> Sequence[str]:
        """Say how many environments hold nothing."""
        empty = len(self._listed()) - len({unit.files for unit in self._units})
        return [f"{empty} of the environments hold{'s' * (empty == 1)} no key"] if empty else []

    def _listed(self) -> list[Stamp]:
        found = self.asked.files.listed(self.path, SUFFIXES)
        return [file for file in found if os.path.basename(file.path.partition("::")[0]) != "lock.mdb"]

    def schema(self) -> Schema:
        """Return the two features; the first values tell whether they are images.

        Raises:
            SourceError: No environment can be read.
            EmptySource: There is no key.
        """
        return Schema([stored("key", "bytes"), self._value])

    @cached_property
    def _value(self) -> Feature:
        """Return the feature of the values; a worker gets it with the source."""
        values: list[bytes] = []
        bad = FirstBad()
        for unit in self._units:
            for _, value in self._pairs(unit, bad):
                values.append(value[:_SNIFFED_NBYTES])
                if len(values) == _SNIFFED:
                    return _feature(values)
        if not values:
            raise SourceError(f"{shown(self.path)}: no LMDB environment can be read{bad.ending}")
        return _feature(values)

    def units(self) -> Sequence[Unit]:
        """List runs of keys.

        Raises:
            SourceError: A file cannot be read.
            EmptySource: There is no environment, or no key.
        """
        return self._units

    @cached_property
    def _units(self) -> list[Unit]:
        files = self._listed()
        if not files:
            raise no_file(self.path, SUFFIXES)
        units = [unit for file in files for unit in self._cut(file)]
        if not units:
            raise EmptySource(f"{shown(self.path)}: no LMDB environment holds a key")
        return units

    def _cut(self, file: Stamp) -> Iterator[Unit]:
        """Yield the units of an environment; a unit's detail is as `_runs` says, or why none can be read."""
        try:
            with self.asked.files.open(file.path, read_ahead=_READ_NBYTES) as data:
                environment = Environment.of(data, file.nbytes)
                _refuse_named(file, environment)
                runs = list(_runs(environment))
        except DamagedError as exc:
            yield Unit(file.path, file.nbytes, (file,), str(exc))
            return
        except OSError as exc:
            raise open_failed(file.path, exc) from exc
        for number, (leaves, nodes, nbytes) in enumerate(runs):
            yield Unit(f"{file.path}#{number}", nbytes, (file,), (_packed(leaves), *nodes))

    def read(self, unit: Unit, on_bad: OnBad) -> Iterator[Chunk]:
        """Read one unit, a few MB at a time.

        Raises:
            BadItem: The environment cannot be read; or whatever `on_bad` raises.
        """
        value = self._value.name
        keys: list[bytes] = []
        values: list[bytes] = []
        nbytes = 0
        for key, found in self._pairs(unit, on_bad):
            keys.append(key)
            values.append(found)
            nbytes += len(key) + len(found)
            if nbytes >= CHUNK_NBYTES:
                yield _chunk(unit, keys, {value: values})
                keys, values, nbytes = [], [], 0
        if keys:
            yield _chunk(unit, keys, {value: values})

    def _pairs(self, unit: Unit, on_bad: OnBad) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values of a unit; a page that cannot be read is one bad item."""
        file = unit.files[0]
        if isinstance(unit.detail, str):
            on_bad(BadItem(shown(file.path), unit.detail))
            return
        assert isinstance(unit.detail, tuple)
        packed, start, end = unit.detail
        try:
            with self.asked.files.open(file.path, read_ahead=_READ_NBYTES) as data:
                environment = Environment.of(data, file.nbytes)
                for page in _unpacked(packed).tolist():
                    try:
                        nodes = environment.nodes(page)[start:end]
                    except DamagedError as exc:
                        on_bad(BadItem(f"{shown(file.path)}: page {page}", f"its keys cannot be read: {exc}"))
                        continue
                    yield from _sound(environment, nodes, file, on_bad)
        except (DamagedError, OSError) as exc:
            on_bad(BadItem(shown(file.path), f"the rest of it cannot be read: {exc}"))


def _sound(
    environment: Environment, nodes: Sequence[Node], file: Stamp, on_bad: OnBad
) -> Iterator[tuple[bytes, bytes]]:
    for node in nodes:
        try:
            value = environment.value(node)
        except DamagedError as exc:
            on_bad(BadItem(_where(file.path, node.key), str(exc)))
        else:
            yield node.key, value


def _chunk(unit: Unit, keys: list[bytes], values: dict[str, list[bytes]]) -> Chunk:
    path = unit.files[0].path
    columns = {name: Column(*end_to_end(found)) for name, found in {"key": keys, **values}.items()}
    return Chunk(columns, len(keys), where=lambda row: _where(path, keys[row]))


def _where(path: str, key: bytes) -> str:
    return f"{shown(path)}: key {key!r}"


def _feature(values: Sequence[bytes]) -> Feature:
    """Return the feature of the values, by the first bytes of some of them."""
    images = all(map(image_media, values))
    return stored("value", "bytes", media="image" if images else "")


def _refuse_named(file: Stamp, environment: Environment) -> None:
    """Refuse an environment of named databases, which all stand in a tree of one page unless there are hundreds."""
    if environment.meta.entries and environment.meta.depth == 1:
        nodes = environment.nodes(environment.meta.root)
        named = [node.key.decode(errors="backslashreplace") for node in nodes if node.named]
        if named:
            raise SourceError(f"{shown(file.path)} holds databases by name ({shown(tuple(named))}): {NAMED}")


def _runs(environment: Environment) -> Iterator[tuple[list[int], tuple[int, int | None], int]]:
    """Cut the leaves to runs of about `UNIT_NBYTES`.

    Yields:
        The leaves of a run; which of their nodes, where it is one leaf of large values; the bytes.
    """
    run: list[int] = []
    nbytes = 0
    for leaf, weights in _weighed(environment):
        weight = sum(weights)
        if run and nbytes + weight > UNIT_NBYTES:
            yield run, _ALL, nbytes
            run, nbytes = [], 0
        if weight > UNIT_NBYTES:
            yield from (([leaf], nodes, part) for nodes, part in _parts(weights))
        else:
            run.append(leaf)
            nbytes += weight
    if run:
        yield run, _ALL, nbytes


def _weighed(environment: Environment) -> Iterator[tuple[int, list[int]]]:
    """Yield each leaf with the bytes of its keys and values; looked at only where most values lie elsewhere."""
    meta = environment.meta
    for leaf in map(int, environment.leaves()):
        yield leaf, environment.weights(leaf) if meta.overflows > meta.leaves else [meta.page_nbytes]


def _parts(weights: Sequence[int]) -> Iterator[tuple[tuple[int, int], int]]:
    start = nbytes = 0
    for node, weight in enumerate(weights):
        if node > start and nbytes + weight > UNIT_NBYTES:
            yield (start, node), nbytes
            start, nbytes = node, 0
        nbytes += weight
    yield (start, len(weights)), nbytes


def _packed(leaves: Sequence[int]) -> bytes:
    """Return page numbers as few bytes: most follow each other."""
    return zlib.compress(np.diff(np.array(leaves, np.int64), prepend=0).tobytes(), 1)


def _unpacked(packed: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.cumsum(np.frombuffer(zlib.decompress(packed), np.int64))
