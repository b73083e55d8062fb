"""Read the samples of a converted dataset by number."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar, overload

import numpy as np

from datafeed._native import Block, Parser
from datafeed.batches import Plain, Texts, to_arrays, to_sample
from datafeed.blockindex import BlockIndex, read_index
from datafeed.cache.config import Cache
from datafeed.cache.lru import LRU
from datafeed.cache.reader import TieredReader
from datafeed.columns import Array, Column
from datafeed.errors import ConfigError, SchemaError
from datafeed.localstore import LocalStore
from datafeed.manifest import Manifest, read_manifest
from datafeed.order import Layout, Mode, blocks_of, rows_of
from datafeed.reader import BlockReader
from datafeed.schema import Schema
from datafeed.sizes import counted
from datafeed.storage import masked, open_store
from datafeed.subset import By, Choice, choose, digest, part_sizes, parts

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T")

_KEPT_BYTES = 64 * 2**20  # raw bytes of recent blocks kept for reading by number: 256 blocks of the default size


class Dataset:
    """Read a converted dataset, or some of its records.

    Opening costs one read, of the manifest; the block index follows with the first sample. Safe to share between
    threads, to pickle (the copy opens the dataset anew) and to use in a forked child. It is a map-style dataset to
    torch.

    Args:
        url: The dataset's folder: a path or any fsspec URL.
        storage_options: What fsspec takes for such URLs.
        cache: The tiers that blocks are read through; None for none but what a Loader holds in flight.

    Raises:
        DatasetNotFound: No committed dataset is there.
        CorruptIndex: Its manifest is damaged.
        UnsupportedVersion: It was written by a later release.
    """

    def __init__(
        self, url: str | Path, storage_options: Mapping[str, object] | None = None, cache: Cache | None = None
    ) -> None:
        self.url = str(url)
        self.cache = cache
        self._storage_options = storage_options
        self._store = open_store(self.url, storage_options)
        self.manifest: Manifest = read_manifest(self._store)
        self._recent = _Recent()
        self._choices: tuple[Choice, ...] = ()
        self._whole: Self | None = None  # of a subset: what it shares index and reader with

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.url, self._storage_options, self.cache), {"_choices": self._choices}

    def __len__(self) -> int:
        return self._choices[-1].count if self._choices else self.manifest.records

    def __repr__(self) -> str:
        shards = counted(len(self.manifest.shards), "shard")
        of = f"{len(self):,} of " if self._choices else ""
        return f"Dataset({self._store.url!r}: {of}{counted(self.manifest.records, 'record')} in {shards})"

    def subset(
        self,
        which: slice | Sequence[int] | npt.NDArray[np.integer] | float,
        *,
        seed: int | None = None,
        by: By | None = None,
    ) -> Self:
        """Return some of the records, as a dataset that shares what this one has opened.

        Only blocks that hold records of it are read; what is far is fetched by whole extents. Its record i is the i-th
        of `which`; of a fraction, the i-th in the order as written.

        Args:
            which: A slice, which takes no memory; numbers in any order, kept as int64, of which one given twice is
                there twice; or a fraction above 0 and up to 1, chosen at random.
            seed: Chooses the records of a fraction; None for 0.
            by: What a fraction is chosen of: "record", the default, or "extent"; see `split`.

        Raises:
            ConfigError: It takes no record, or `seed` or `by` stand beside what is no fraction.
            IndexError: A number is out of range.
            TypeError: `which` is something else.
        """
        if isinstance(which, (float, np.floating)):
            size = part_sizes([float(which)], len(self), whole=False)
            return self._with(*self._choices, parts(size, 0 if seed is None else seed, by or "record")[0])
        if seed is not None or by is not None:
            name = "by" if seed is None else "seed"
            raise ConfigError(f"{name}= is for a fraction, as in subset(0.1, {name}=...)")
        within = isinstance(which, range) and len(which) > 0 and min(which) >= 0 and max(which) < len(self)
        taken = which if isinstance(which, slice) or within else self._numbers(which)
        return self._with(*choose(taken, len(self), self._choices))  # type: ignore[arg-type]  # a range is a Sequence

    def split(self, fractions: Sequence[float], seed: int = 0, *, by: By = "record") -> tuple[Self, ...]:
        """Return disjoint subsets at random, which together are all records.

        The same fractions, seed and dataset give the same parts for ever.

        Args:
            fractions: Of each part; they add up to 1. Sizes are exact: the bounds between parts are rounded.
            seed: Chooses the parts.
            by: "record": each block gives each part its share of records, drawn at random, so reading a part of 10 %
                reads about every block that holds ten. "extent": a part is whole extents, chosen at random, but for
                those that bounds between parts divide: it reads no more than itself, and is as good as random only
                where neighbours are not alike, as after a conversion that shuffles.

        Raises:
            ConfigError: They do not add up to 1, a part would hold no record, or `by` is unknown.
        """
        sizes = part_sizes(fractions, len(self))
        return tuple(self._with(*self._choices, part) for part in parts(sizes, seed, by))

    def _with(self, *choices: Choice) -> Self:
        """Return the records that choices take of the whole dataset."""
        found = type(self).__new__(type(self))
        shared = {name: value for name, value in vars(self).items() if name not in ("layout", "held_nbytes")}
        whole = self if self._whole is None else self._whole
        vars(found).update(shared, _choices=choices, _whole=whole)
        return found

    @property
    def schema(self) -> Schema:
        """What every sample holds."""
        return self.manifest.schema

    @cached_property
    def index(self) -> BlockIndex:
        """Where every block lies; read on first use.

        Raises:
            CorruptIndex: It is damaged.
            IndexMismatch: It belongs to another dataset.
        """
        return read_index(self._store, self.manifest) if self._whole is None else self._whole.index

    @cached_property
    def reader(self) -> BlockReader | TieredReader:
        """What reads and checks blocks."""
        if self._whole is not None:
            return self._whole.reader
        blocks = BlockReader(self._store, self.manifest, self.index)
        return blocks if self.cache is None else TieredReader(blocks, self.cache)

    @cached_property
    def tiered(self) -> TieredReader | None:
        """What reads an epoch's blocks ahead; None for a local dataset without a cache, which is read in place."""
        if self._whole is not None:
            return self._whole.tiered
        if isinstance(self.reader, TieredReader):
            return self.reader
        return None if isinstance(self._store, LocalStore) else TieredReader(self.reader, Cache())

    @cached_property
    def layout(self) -> Layout:
        """Where every record lies."""
        layout = Layout(self.index.first, self.index.extents)
        for choice in self._choices:
            layout = choice.layout(layout)
        return layout

    @cached_property
    def held_nbytes(self) -> int:
        """The raw bytes of the blocks that hold its records."""
        if not self._choices:
            return self.manifest.raw_bytes
        return int(self.index.raw[np.diff(self.layout.first) > 0].sum(dtype=np.int64))

    @property
    def record_nbytes(self) -> int:
        """The raw bytes of a record of the whole dataset, on average, at least 1."""
        return max(1, self.manifest.raw_bytes // max(1, self.manifest.records))

    @property
    def block_nbytes(self) -> int:
        """The raw bytes of a block, on average, at least 1."""
        return max(1, self.manifest.raw_bytes // max(1, len(self.index)))

    @property
    def extent_size(self) -> int:
        """The nominal extent, in stored bytes."""
        return self.manifest.header.extent_size

    @property
    def read_from(self) -> Sequence[Dataset]:
        """The datasets whose blocks are read: a mix has several."""
        return [self]

    @staticmethod
    def laned(mode: Mode) -> bool:
        """Tell whether an order is drawn from lanes."""
        return mode == "window"

    def select(self, columns: Sequence[str] | None) -> Schema:
        """Return the schema of some features, or of all.

        Raises:
            SchemaError: One is unknown.
        """
        return self.schema if columns is None else self.schema.select(columns)

    def locate(self, block: int) -> tuple[Dataset, int]:
        """Return the dataset of a block, and the block's number in it: a mix has several."""
        return self, block

    def numbers(self, blocks: npt.NDArray[np.int32], rows: npt.NDArray[np.int32]) -> npt.NDArray[np.uint64]:
        """Return the numbers of records of the whole dataset, by block and row."""
        return self.index.first[blocks].astype(np.uint64) + rows.astype(np.uint64)

    @property
    def digest(self) -> str:
        """What names its records, and their order as written."""
        return digest(self.manifest.digest, self._choices)

    @cached_property
    def _parser(self) -> Parser:
        return Parser(self.schema.features)

    @overload
    def __getitem__(self, key: int) -> dict[str, Plain]: ...
    @overload
    def __getitem__(
        self, key: slice | Sequence[int] | npt.NDArray[np.integer]
    ) -> dict[str, Array | Texts | list[Array]]: ...
    def __getitem__(
        self, key: int | slice | Sequence[int] | npt.NDArray[np.integer]
    ) -> dict[str, Plain] | dict[str, Array | Texts | list[Array]]:
        """Return a sample, or the columns of several.

        Args:
            key: A number (negative ones count from the end), a slice, or numbers in any order.

        Returns:
            For a number, name -> value as `batches` lists them; else name -> numpy array or list.

        Raises:
            IndexError: A number is out of range.
            TypeError: The key is something else.
            CorruptData: What was read is damaged, with its place.
            ShardMissing: A shard is gone.
            SchemaError: A record does not fit the schema, with its place.
        """
        if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
            if not -len(self) <= key < len(self):
                raise IndexError(f"record {key} of a dataset of {len(self)}")
            return self._read(np.array([key % len(self)]), to_sample)
        numbers = np.arange(*key.indices(len(self))) if isinstance(key, slice) else self._numbers(key)
        return self._read(numbers, to_arrays)

    def _numbers(self, key: object) -> npt.NDArray[np.int64]:
        asked = np.asarray(key)
        if asked.shape == (0,) and not isinstance(key, np.ndarray):
            asked = asked.astype(np.int64)  # an empty list has no dtype of its own
        if asked.ndim != 1 or asked.dtype.kind not in "iu":
            raise TypeError(f"expected an int, a slice or a sequence of ints, found {key!r:.100}")
        outside = (asked < -len(self)) | (asked >= len(self))  # before the cast, which wraps uint64
        if outside.any():
            raise IndexError(f"record {asked[outside][0]} of a dataset of {len(self)}")
        numbers = asked.astype(np.int64)
        return np.where(numbers < 0, numbers + len(self), numbers)

    def _read(self, numbers: npt.NDArray[np.int64], form: Callable[[Schema, Sequence[Column]], T]) -> T:
        places = self.layout.places(numbers)
        blocks, rows = blocks_of(places), rows_of(places)
        needed, which = np.unique(blocks, return_inverse=True)
        table = [self._block(number) for number in needed.tolist()]
        try:
            return form(self.schema, self._parser.parse(table, which.astype(np.int32), rows))
        except SchemaError as exc:
            if exc.row < 0:
                raise
            raise placed(exc, self, int(blocks[exc.row]), int(rows[exc.row])) from None

    def _block(self, number: int) -> Block:
        recent = self._recent
        if recent.pid != os.getpid():
            recent = self._recent = _Recent()
        with recent.lock:
            block = recent.blocks.get(number)
        if block is None:
            block = self.reader.read_runs([(number, number + 1)])[0]
            with recent.lock:
                recent.blocks.put(number, block, block.nbytes)
        return block


class _Recent:
    """Keep recent blocks of one process: a forked child must not wait for a lock that another thread held."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.blocks: LRU[int, Block] = LRU(_KEPT_BYTES)


def place_name(dataset: Dataset, block: int, row: int) -> str:
    """Return what a person calls the place of a record: dataset and shard, block in the shard, record in the block."""
    index = dataset.index
    shard = int(index.shard[block])
    in_shard = block - int(np.searchsorted(index.shard, shard))
    url = masked(dataset.url.rstrip("/"))
    return f"{url}/{dataset.manifest.shards[shard].name}, block {in_shard}, record {row}"


def placed(error: SchemaError, dataset: Dataset, block: int, row: int) -> SchemaError:
    """Return the error with the record's place before its reason."""
    return type(error)(f"{place_name(dataset, block, row)}: {error.reason}", error.row, error.feature)
