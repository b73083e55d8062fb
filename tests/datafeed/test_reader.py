"""The block reader: what it returns, and what it says of bytes that are not those of the index."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny

from datafeed.blockindex import read_index
from datafeed.errors import (
    CorruptFrame,
    CorruptRecord,
    DecompressionLimit,
    IndexMismatch,
    NotAShard,
    ShardMissing,
    StaleIndex,
    TruncatedShard,
)
from datafeed.foreign import index_foreign
from datafeed.frames import compress
from datafeed.header import make_header
from datafeed.localstore import LocalStore
from datafeed.manifest import Manifest, read_manifest
from datafeed.reader import BlockReader
from datafeed.shard import shard_name
from datafeed.storage import FsspecStore, Store, open_store

_FIRST = shard_name(0)


@pytest.fixture
def dataset(tmp_path: Path) -> tuple[Store, Manifest]:
    """Give a dataset of two shards of three blocks of four records."""
    return tiny.write_dataset(str(tmp_path / "data"))


def reader(store: Store, manifest: Manifest | None = None) -> BlockReader:
    """Open a reader over a store."""
    manifest = manifest or read_manifest(store)
    return BlockReader(store, manifest, read_index(store, manifest))


def _records(blocks: list[object]) -> Iterator[bytes]:
    for block in blocks:
        for row in range(len(block)):  # type: ignore[arg-type]  # a Block
            yield bytes(block.record(row))  # type: ignore[attr-defined]  # a Block


def test_read_returns_every_record(dataset: tuple[Store, Manifest]) -> None:
    """Block by block, all records in order."""
    opened = reader(dataset[0])
    found = [record for block in range(6) for record in _records([opened.read(block)])]
    assert found == [tiny.record(number) for number in range(24)]


def test_read_run_reads_once(dataset: tuple[Store, Manifest]) -> None:
    """A run of a shard's blocks is what each of them is alone, at one ranged read."""
    store, manifest = dataset
    counting = CountingStore(store.url)
    blocks = reader(counting, manifest).read_run(3, 6)
    assert list(_records(blocks)) == [tiny.record(number) for number in range(12, 24)]
    assert counting.ranges == 1


@pytest.mark.parametrize("kind", [LocalStore, FsspecStore])
def test_read_runs_gives_the_blocks_of_all_runs(dataset: tuple[Store, Manifest], kind: type[Store]) -> None:
    """From files in one go, from any other store run by run."""
    path = dataset[0].url
    store = kind(f"local://{path}" if kind is FsspecStore else path)  # type: ignore[call-arg]  # of the two
    found = reader(store).read_runs([(3, 6), (0, 1), (4, 5)])
    assert list(_records(found)) == [tiny.record(number) for number in [*range(12, 24), *range(4), *range(16, 20)]]
    with pytest.raises(ValueError, match="blocks 2 to 4 of 6 are not a run inside one shard"):
        reader(store).read_runs([(0, 1), (2, 4)])


def test_f44_read_runs_of_a_cut_shard_says_what_read_run_says(dataset: tuple[Store, Manifest]) -> None:
    """And a shard that is gone, too."""
    store, manifest = dataset
    opened = reader(store, manifest)
    tiny.damage(store, _FIRST, store.read(_FIRST)[:50])
    with pytest.raises(TruncatedShard) as caught:
        opened.read_runs([(3, 6), (0, 3)])
    assert (caught.value.shard, caught.value.block) == (_FIRST, 0)
    store.delete(_FIRST)
    with pytest.raises(ShardMissing, match=_FIRST):
        reader(store, manifest).read_runs([(3, 6), (0, 3)])


def test_blocks_outlive_later_reads(dataset: tuple[Store, Manifest]) -> None:
    """A block owns its bytes: the next read does not change them."""
    opened = reader(dataset[0])
    first = opened.read(0)
    opened.read_run(3, 6)
    assert list(_records([first])) == [tiny.record(number) for number in range(4)]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (2, 1), (-1, 1), (0, 7), (2, 4)])
def test_run_outside_a_shard_is_refused(dataset: tuple[Store, Manifest], start: int, stop: int) -> None:
    """Empty, negative, past the end, or over a shard's edge."""
    with pytest.raises(ValueError, match="not a run inside one shard"):
        reader(dataset[0]).read_run(start, stop)


def test_reader_serves_threads_children_and_copies(dataset: tuple[Store, Manifest]) -> None:
    """One reader on eight threads, a pickled copy, and a store on fsspec all read the same."""
    opened = reader(dataset[0])
    expected = [[tiny.record(block * 4 + row) for row in range(4)] for block in range(6)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: list(_records([opened.read(number % 6)])), range(300)))
    assert found == [expected[number % 6] for number in range(300)]
    copy = pickle.loads(pickle.dumps(opened))  # noqa: S301  (our own bytes)
    assert list(_records(copy.read_run(0, 3))) == [tiny.record(number) for number in range(12)]
    elsewhere = reader(FsspecStore(f"local://{dataset[0].url}"))
    assert list(_records(elsewhere.read_run(0, 3))) == [tiny.record(number) for number in range(12)]


def test_f44_shard_cut_at_every_length_is_truncated(dataset: tuple[Store, Manifest]) -> None:
    """Each cut names the shard and the block; blocks before it are still read."""
    store, manifest = dataset
    data = store.read(_FIRST)
    index = read_index(store, manifest)
    ends = (index.offset + index.stored)[:3].tolist()
    small = tiny.open_store("memory://reader/cut")
    for nbytes in range(ends[-1]):
        tiny.damage(small, _FIRST, data[:nbytes])
        opened = BlockReader(small, manifest, index)
        whole = sum(end <= nbytes for end in ends)
        if whole:
            assert len(opened.read_run(0, whole)) == whole
        with pytest.raises((TruncatedShard, NotAShard)) as caught:
            opened.read_run(0, 3)
        assert (caught.value.shard, caught.value.block) == (_FIRST, whole)


def test_f45_flipped_bit_names_shard_and_block(dataset: tuple[Store, Manifest]) -> None:
    """A flip in the second block is found there, after a second read."""
    store, manifest = dataset
    index = read_index(store, manifest)
    data = bytearray(store.read(_FIRST))
    data[int(index.offset[1]) + 20] ^= 4
    tiny.damage(store, _FIRST, bytes(data))
    counting = CountingStore(store.url)
    opened = BlockReader(counting, manifest, index)
    assert len(opened.read(0)) == 4
    assert len(opened.read(2)) == 4
    counting.ranges = 0
    with pytest.raises(CorruptFrame) as caught:
        opened.read_run(0, 3)
    assert (caught.value.shard, caught.value.block, caught.value.offset) == (_FIRST, 1, int(index.offset[1]))
    assert counting.ranges == 2 + 1  # the run twice, and the footer to tell damage from a rewritten shard


def test_f45_second_read_mends_a_bad_transfer(dataset: tuple[Store, Manifest]) -> None:
    """Wrong bytes that were right in the store are no error."""
    store, manifest = dataset
    flaky = CountingStore(store.url)
    flaky.spoil = 1
    assert list(_records(reader(flaky, manifest).read_run(0, 3))) == [tiny.record(number) for number in range(12)]
    assert flaky.ranges == 2


def test_f37_missing_shard_is_named(dataset: tuple[Store, Manifest]) -> None:
    """A shard that was deleted is a FileNotFoundError with its name."""
    store, manifest = dataset
    store.delete(_FIRST)
    with pytest.raises(ShardMissing, match=_FIRST):
        reader(store, manifest).read(0)


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_damage_names_its_dataset_and_the_next_step(tmp_path: Path, codec: str) -> None:
    """Of two datasets that are read side by side one is damaged: which, a user must not guess."""
    store = open_store(tmp_path)
    if codec == "zstd":
        tiny.write_dataset(store.url, shards=1)
    else:
        tiny.damage(store, _FIRST, tiny.framed([tiny.record(number) for number in range(4)]))
        index_foreign(store)
    opened = reader(store)
    data = bytearray(store.read(_FIRST))
    data[20] ^= 1
    tiny.damage(store, _FIRST, data)
    with pytest.raises((CorruptFrame, CorruptRecord)) as caught:
        opened.read(0)
    assert caught.value.dataset == store.url
    assert str(caught.value).startswith(f"{store.url}/{_FIRST}, block 0, ")
    assert str(caught.value).endswith(f"; `datafeed verify {store.url}` lists all that is damaged or missing")
    store.delete(_FIRST)
    with pytest.raises(ShardMissing, match=f"{_FIRST}.* `datafeed verify {store.url}` lists"):
        opened.read_runs([(0, 1)])


def test_a_password_is_masked_in_what_names_the_dataset() -> None:
    """Errors are logged."""
    url = "memory://user:secret@host/reader"
    store, _ = tiny.write_dataset(url, shards=1)
    opened = reader(store)
    data = bytearray(store.read(_FIRST))
    data[20] ^= 1
    tiny.damage(store, _FIRST, data)
    with pytest.raises(CorruptFrame) as caught:
        opened.read(0)
    assert "user:***@host" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_f43_html_in_place_of_a_shard_is_shown(dataset: tuple[Store, Manifest]) -> None:
    """A proxy's page of any length is called NotAShard."""
    store, manifest = dataset
    for page in (b"<html>login</html>", b"<html>login</html>" * 100):
        tiny.damage(store, _FIRST, page)
        with pytest.raises(NotAShard, match="<html>") as caught:
            reader(store, manifest).read(0)
        assert caught.value.shard == _FIRST


def test_f49_rewritten_shard_is_stale(dataset: tuple[Store, Manifest]) -> None:
    """A whole shard of the same dataset with other blocks asks for a rebuilt index."""
    store, manifest = dataset
    tiny.write_shard(store, manifest.header, 0, [[tiny.record(99)]] * 3, last=False)
    with pytest.raises(StaleIndex, match=r"rewritten.*--rebuild") as caught:
        reader(store, manifest).read(1)
    assert (caught.value.shard, caught.value.block) == (_FIRST, 1)


def test_f50_shard_of_another_dataset_is_a_mismatch(dataset: tuple[Store, Manifest]) -> None:
    """So is another shard of the same one."""
    store, manifest = dataset
    other, _ = tiny.write_dataset("memory://reader/other", seed="x", records=3)
    for data in (other.read(_FIRST), store.read(shard_name(1))):
        tiny.damage(store, _FIRST, data)
        with pytest.raises(IndexMismatch, match=r"it is number \d of dataset") as caught:
            reader(store, manifest).read(0)
        assert caught.value.shard == _FIRST


def test_f52_swapped_and_repeated_blocks_are_found(dataset: tuple[Store, Manifest]) -> None:
    """Whole frames in another block's place, of equal size or not, give no wrong sample."""
    store, manifest = dataset
    index = read_index(store, manifest)
    data = store.read(_FIRST)
    bounds = [0, *(index.offset + index.stored)[:3].tolist()]
    frames = [data[start:end] for start, end in itertools.pairwise(bounds)]
    for order in ((1, 0, 2), (0, 0, 2), (2, 1, 0), (0, 2, 2)):
        tiny.damage(store, _FIRST, b"".join(frames[place] for place in order) + data[bounds[-1] :])
        opened = BlockReader(store, manifest, index)
        for block, place in enumerate(order):
            if place == block and bounds[: block + 1] == [0, *np.cumsum([len(frames[p]) for p in order])[:block]]:
                continue
            with pytest.raises((CorruptFrame, NotAShard, TruncatedShard, DecompressionLimit)):
                opened.read(block)


def test_f53_frame_larger_than_the_index_names_is_refused(tmp_path: Path) -> None:
    """A bomb in a shard whose footer, index and manifest all agree is refused by its own header."""
    store = open_store(tmp_path)
    header = make_header(tiny.SCHEMA, block_size=4096, level=3, provenance={})
    tiny.shard_of(store, header, [(compress(bytes(10**6), 3), 208, 4)])
    with pytest.raises(DecompressionLimit, match="announces 1000000 raw bytes, the index 208") as caught:
        reader(store).read(0)
    assert (caught.value.shard, caught.value.block) == (_FIRST, 0)


def test_f46_count_of_records_is_checked(dataset: tuple[Store, Manifest]) -> None:
    """A block with more or fewer records than the index names is refused with its place."""
    store, manifest = dataset
    index = read_index(store, manifest)
    for count in (3, 5):
        records = index.records.copy()
        records[1] = count
        with pytest.raises(CorruptRecord) as caught:
            BlockReader(store, manifest, replace(index, records=records)).read_run(0, 3)
        assert (caught.value.shard, caught.value.block) == (_FIRST, 1)


def test_f46_plain_block_checks_payloads(tmp_path: Path) -> None:
    """Codec "none": a flip in any byte is found, with the record; a rewritten file is stale."""
    good = tiny.framed([tiny.record(number) for number in range(5)])
    (tmp_path / "a.tfrecord").write_bytes(good)
    manifest = index_foreign(open_store(tmp_path))
    assert len(reader(open_store(tmp_path), manifest).read(0)) == 5
    start = len(tiny.frame(tiny.record(0)))
    for byte in range(start, start + len(tiny.frame(tiny.record(1)))):
        wrong = bytearray(good)
        wrong[byte] ^= 1
        (tmp_path / "a.tfrecord").write_bytes(wrong)
        with pytest.raises(CorruptRecord) as caught:
            reader(open_store(tmp_path), manifest).read(0)
        assert (caught.value.shard, caught.value.block, caught.value.record) == ("a.tfrecord", 0, 1)
    (tmp_path / "a.tfrecord").write_bytes(tiny.framed([tiny.record(number) for number in (0, 1, 2, 4, 3)]))
    with pytest.raises(StaleIndex, match="not those that were indexed"):
        reader(open_store(tmp_path), manifest).read(0)
    (tmp_path / "a.tfrecord").write_bytes(good[:-1])
    with pytest.raises(TruncatedShard, match=f"{len(good) - 1}"):
        reader(open_store(tmp_path), manifest).read(0)


class CountingStore(FsspecStore):
    """Count ranged reads, and spoil the first few."""

    def __init__(self, url: str) -> None:
        super().__init__(f"local://{os.fspath(url)}")
        self.ranges = 0
        self.spoil = 0

    def read_range(self, name: str, start: int, end: int) -> bytes:
        """Read as the store does, then perhaps flip a bit."""
        self.ranges += 1
        data = bytearray(super().read_range(name, start, end))
        if self.spoil:
            self.spoil -= 1
            data[len(data) // 2] ^= 1
        return bytes(data)
