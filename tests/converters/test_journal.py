"""Test what a conversion remembers of its finished shards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import SCHEMA, record, write_shard

from datafeed.converters.journal import BadLine, Finished, Journal, bad_lines, read_plan
from datafeed.footer import Place, read_footer
from datafeed.header import DatasetHeader, make_header
from datafeed.storage import Store, open_store

HEADER = make_header(SCHEMA, block_size=1000, level=3, provenance={})


def _write(store: Store, header: DatasetHeader, number: int, *, last: bool) -> Finished:
    info, blocks = write_shard(store, header, number, [[record(number)]], last=last)
    end = read_footer(store, info.name).end
    return Finished(info, end, last, blocks, (BadLine("a:1", "bad"),), "skip")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with three finished shards, the last of which ends the dataset."""
    opened = open_store(tmp_path)
    journal = Journal(opened, HEADER)
    journal.begin()
    for number in range(3):
        journal.add(number, _write(opened, HEADER, number, last=number == 2))
    return opened


def test_finished_shards_come_back(store: Store) -> None:
    """What was written down comes back, with the footer's places and blocks."""
    found = Journal(store, HEADER).finished()
    assert [done.info.name for done in found] == [f"shard-00000{number}.tfrecord.zst" for number in range(3)]
    assert [done.last for done in found] == [False, False, True]
    assert all(isinstance(done.end, Place) and len(done.blocks) == 1 for done in found)
    assert bad_lines(found) == [BadLine("a:1", "bad")] * 3
    assert read_plan(store) == HEADER


def test_gap_ends_what_counts(store: Store) -> None:
    """Without the second shard, only the first counts."""
    store.delete("shard-000001.tfrecord.zst")
    assert len(Journal(store, HEADER).finished()) == 1


@pytest.mark.parametrize("entry", [b"", b"{}", b"[1]", b"\xff", b'{"shard": {}}', b"{" * 3000])
def test_damaged_entry_does_not_count(store: Store, entry: bytes) -> None:
    """An entry that cannot be read makes its shard be written again."""
    with store.writer("journal/000001.json") as sink:
        sink.write(entry)
    assert len(Journal(store, HEADER).finished()) == 1


@pytest.mark.parametrize(("field", "value"), [("plan", "0" * 32), ("nbytes", 1)])
def test_entry_that_does_not_fit_does_not_count(store: Store, field: str, value: object) -> None:
    """An entry of another plan, or of another size than the shard's, does not count."""
    entry = json.loads(store.read("journal/000000.json"))
    (entry if field == "plan" else entry["shard"])[field] = value
    with store.writer("journal/000000.json") as sink:
        sink.write(json.dumps(entry).encode())
    assert Journal(store, HEADER).finished() == []


def test_shard_of_another_dataset_does_not_count(store: Store) -> None:
    """A shard whose own footer speaks of another dataset does not count, whatever its entry says."""
    other = make_header(SCHEMA, block_size=1001, level=3, provenance={})
    Journal(store, HEADER).add(1, _write(store, other, 1, last=False))
    assert len(Journal(store, HEADER).finished()) == 1


def test_removed_journal_leaves_the_shards(store: Store, tmp_path: Path) -> None:
    """After the commit nothing of the journal stays, even where an entry is gone already."""
    store.delete("journal/000001.json")
    Journal(store, HEADER).remove(3)
    assert not (tmp_path / "journal").exists()
    assert len(list(tmp_path.iterdir())) == 3
    assert read_plan(store) is None
