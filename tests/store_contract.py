"""What every store promises, as tests that each one subclasses."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from datafeed.errors import ShardMissing, TruncatedShard
from datafeed.storage import Store

_DATA = bytes(range(256)) * 8


class StoreContract:
    """Subclass this and give a fixture `store` that is empty at first."""

    def test_read_returns_what_was_written(self, store: Store) -> None:
        """An object is the writes end to end, of any kind of buffer."""
        with store.writer("a.bin") as sink:
            sink.write(b"one")
            sink.write(bytearray(b"two"))
            sink.write(memoryview(b"three"))
        assert store.read("a.bin") == b"onetwothree"
        assert store.size("a.bin") == 11
        assert store.exists("a.bin")

    def test_read_range_returns_each_part(self, store: Store) -> None:
        """Ranges are half-open, at both ends of the object too, and may be empty."""
        _put(store, "a.bin")
        for start, end in ((0, 2048), (0, 1), (2047, 2048), (100, 777), (5, 5)):
            assert store.read_range("a.bin", start, end) == _DATA[start:end]

    def test_read_into_fills_a_view(self, store: Store) -> None:
        """The caller's buffer holds the bytes, and nothing beside it is touched."""
        _put(store, "a.bin")
        buffer = bytearray(12)
        store.read_into("a.bin", 250, memoryview(buffer)[1:11])
        assert bytes(buffer) == b"\0" + _DATA[250:260] + b"\0"

    def test_f44_read_range_past_the_end_raises(self, store: Store) -> None:
        """Fewer bytes than asked are an error that says where the object ends."""
        _put(store, "a.bin")
        for read in (
            lambda: store.read_range("a.bin", 2000, 2049),
            lambda: store.read_range("a.bin", 5000, 5001),
            lambda: store.read_into("a.bin", 2040, memoryview(bytearray(9))),
        ):
            with pytest.raises(TruncatedShard, match="2048") as caught:
                read()
            assert caught.value.shard == "a.bin"

    def test_missing_object_raises(self, store: Store) -> None:
        """Each way to reach an object that is not there is a FileNotFoundError; for ranges, a ShardMissing."""
        for reach in (store.read, store.size, store.delete):
            with pytest.raises(FileNotFoundError):
                reach("nope")
        with pytest.raises(ShardMissing, match="nope"):
            store.read_range("nope", 0, 1)
        assert not store.exists("nope")

    def test_names_lists_plain_names_sorted(self, store: Store) -> None:
        """Nested objects are listed by nobody but a store of their own."""
        assert store.names() == []
        for name in ("b", "a", "journal/000001.json"):
            _put(store, name)
        assert store.names() == ["a", "b"]
        assert store.read("journal/000001.json") == _DATA
        store.delete("a")
        assert store.names() == ["b"]

    def test_folders_lists_directories_sorted(self, store: Store) -> None:
        """Those right inside, by their plain names."""
        assert store.folders() == []
        for name in ("b", "val/a", "train/c/d"):
            _put(store, name)
        assert store.folders() == ["train", "val"]

    def test_writer_replaces_the_whole_object(self, store: Store) -> None:
        """Nothing of a longer predecessor is left, not even for a reader that has read it before."""
        _put(store, "a.bin")
        assert store.read_range("a.bin", 0, 2) == _DATA[:2]
        with store.writer("a.bin") as sink:
            sink.write(b"new")
        assert store.read("a.bin") == b"new"
        assert store.read_range("a.bin", 0, 3) == b"new"

    def test_f01_writer_leaves_nothing_after_an_exception(self, store: Store) -> None:
        """A predecessor stays as it was, and a new name does not appear."""
        _put(store, "a.bin")
        for name in ("a.bin", "b.bin"):
            with pytest.raises(KeyError):
                _fail_in_the_middle(store, name)
        assert store.names() == ["a.bin"]
        assert store.read("a.bin") == _DATA

    def test_f01_writer_shows_nothing_before_the_end(self, store: Store) -> None:
        """An object appears at the end of the with block only."""
        with store.writer("a.bin") as sink:
            sink.write(_DATA)
            assert not store.exists("a.bin")
            assert store.names() == []
        assert store.exists("a.bin")

    def test_store_reads_from_many_threads(self, store: Store) -> None:
        """Threads share one store, over more objects than it keeps open."""
        for number in range(150):
            with store.writer(f"{number:03d}") as sink:
                sink.write(number.to_bytes(2, "little") * 100)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda number: store.read_range(f"{number % 150:03d}", 20, 22), range(600)))
        assert found == [(number % 150).to_bytes(2, "little") for number in range(600)]

    def test_store_survives_pickling(self, store: Store) -> None:
        """A copy reads the same objects."""
        _put(store, "a.bin")
        store.read_range("a.bin", 0, 1)
        copy = pickle.loads(pickle.dumps(store))  # noqa: S301  (our own bytes)
        assert copy.read("a.bin") == _DATA
        assert copy.url == store.url


def _put(store: Store, name: str) -> None:
    with store.writer(name) as sink:
        sink.write(_DATA)


def _fail_in_the_middle(store: Store, name: str) -> None:
    with store.writer(name) as sink:
        sink.write(b"half")
        raise KeyError
