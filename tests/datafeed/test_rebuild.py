"""Rebuilding the index: the same bytes again, or what keeps it from that."""

from __future__ import annotations

import pytest
import tiny

from datafeed.errors import CorruptData, CorruptFrame, DatasetNotFound, IndexMismatch, ShardMissing
from datafeed.footer import Place
from datafeed.manifest import Manifest
from datafeed.rebuild import rebuild_index
from datafeed.shard import ShardWriter, shard_name
from datafeed.storage import Store, open_store


@pytest.fixture
def dataset() -> tuple[Store, Manifest]:
    """Give a dataset of three shards whose index is gone."""
    store, manifest = tiny.write_dataset("memory://rebuild", shards=3)
    for name in set(store.names()) - {shard.name for shard in manifest.shards}:
        store.delete(name)
    return store, manifest


def test_rebuild_gives_the_same_bytes(dataset: tuple[Store, Manifest]) -> None:
    """Index and manifest are byte for byte what the conversion wrote."""
    store, manifest = dataset
    written, _ = tiny.write_dataset("memory://rebuild/again", shards=3)
    assert rebuild_index(store) == manifest
    for name in ("blocks.idx", "dataset.json"):
        assert store.read(name) == written.read(name)


def test_rebuild_without_shards_finds_no_dataset() -> None:
    """Nothing comes of nothing."""
    with pytest.raises(DatasetNotFound, match="no shards"):
        rebuild_index(open_store("memory://rebuild/nothing"))


@pytest.mark.parametrize("number", [0, 1, 2])
def test_rebuild_names_a_missing_shard(dataset: tuple[Store, Manifest], number: int) -> None:
    """First, middle or last: its name is in the error, and no index is written."""
    store, _ = dataset
    store.delete(shard_name(number))
    with pytest.raises(ShardMissing, match=shard_name(number)):
        rebuild_index(store)
    assert not store.exists("dataset.json")


def test_f50_rebuild_refuses_a_shard_of_another_dataset(dataset: tuple[Store, Manifest]) -> None:
    """Both ids are named."""
    store, manifest = dataset
    other, theirs = tiny.write_dataset("memory://rebuild/other", shards=3, seed="x")
    tiny.damage(store, shard_name(1), other.read(shard_name(1)))
    with pytest.raises(IndexMismatch, match=f"{theirs.dataset_id}.*{manifest.dataset_id}"):
        rebuild_index(store)


def test_f52_rebuild_refuses_copied_and_swapped_shards(dataset: tuple[Store, Manifest]) -> None:
    """A shard says its number itself."""
    store, _ = dataset
    first, second = store.read(shard_name(0)), store.read(shard_name(1))
    tiny.damage(store, shard_name(1), first)
    with pytest.raises(IndexMismatch, match="it says that it is 'shard-000000"):
        rebuild_index(store)
    tiny.damage(store, shard_name(0), second)
    with pytest.raises(IndexMismatch, match="shard-000000"):
        rebuild_index(store)


def test_f50_rebuild_refuses_shards_of_two_runs(dataset: tuple[Store, Manifest]) -> None:
    """A left-over behind the last shard, and a cut made elsewhere, are both named."""
    store, manifest = dataset
    tiny.write_shard(store, manifest.header, 3, [[tiny.record(0)]], last=True)
    with pytest.raises(IndexMismatch, match="the shard before it ends run 0: delete 'shard-000003"):
        rebuild_index(store)
    store.delete(shard_name(3))
    rebuild_index(store)
    with store.writer(shard_name(2)) as sink:
        writer = ShardWriter(sink, manifest.header, 2)
        writer.finish(begin=Place(2, 1), end=Place(9, 0), skipped=0, last=True)
    with pytest.raises(IndexMismatch, match="of different runs"):
        rebuild_index(store)


def test_f45_rebuild_refuses_damaged_blocks(dataset: tuple[Store, Manifest]) -> None:
    """A flip in a header, in a payload, or in a checksum stops it, with shard and block."""
    store, manifest = dataset
    data = store.read(shard_name(1))
    size = manifest.shards[1].nbytes
    for byte in (0, 5, 40, size // 3):
        wrong = bytearray(data)
        wrong[byte] ^= 1
        tiny.damage(store, shard_name(1), bytes(wrong))
        with pytest.raises(CorruptData) as caught:
            rebuild_index(store)
        assert caught.value.shard == shard_name(1)
    wrong = bytearray(data)
    wrong[60] ^= 1
    tiny.damage(store, shard_name(1), bytes(wrong))
    with pytest.raises(CorruptFrame, match="SHA-256"):
        rebuild_index(store)
