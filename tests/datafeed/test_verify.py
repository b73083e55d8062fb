"""Verifying: every flip, cut, swap and copy is found, counted here over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import tiny

from datafeed.blockindex import BlockIndex, read_index
from datafeed.errors import (
    CorruptData,
    CorruptFrame,
    CorruptIndex,
    CorruptRecord,
    DatasetNotFound,
    IndexMismatch,
    SchemaError,
    ShardMissing,
    StaleIndex,
)
from datafeed.foreign import index_foreign
from datafeed.frames import compress
from datafeed.manifest import Manifest, read_manifest
from datafeed.reader import BlockReader
from datafeed.shard import shard_name
from datafeed.storage import Store, open_store
from datafeed.verify import verify

_SHARD = shard_name(0)


def _dataset() -> tuple[Store, Manifest]:
    return tiny.write_dataset("memory://verify", shards=1, blocks=3, records=1)


def _samples(store: Store, known: tuple[Manifest, BlockIndex] | None) -> list[bytes]:
    """Open the dataset, unless it is open already, and read all that it holds."""
    manifest = read_manifest(store) if known is None else known[0]
    index = read_index(store, manifest) if known is None else known[1]
    reader = BlockReader(store, manifest, index)
    blocks = [reader.read(number) for number in range(len(index))]
    return [bytes(block.record(row)) for block in blocks for row in range(len(block))]


def _check(store: Store, name: str, data: bytes, known: tuple[Manifest, BlockIndex] | None = None) -> bool:
    """Put wrong bytes in place: verify must name the object, reading must fail or give the right samples.

    Args:
        store: Where the dataset is.
        name: The object.
        data: The wrong bytes.
        known: The dataset as opened before, where the wrong bytes are a shard's.

    Returns:
        Whether reading failed.
    """
    tiny.damage(store, name, data)
    report = verify(store)
    assert not report.ok
    assert any(name in str(problem) for problem in report.problems), report
    try:
        found = _samples(store, known)
    except CorruptData as exc:
        return bool(exc.shard)
    assert found == [tiny.record(number) for number in range(3)]
    return False


def _flips(data: bytes, dense: Callable[[int], bool]) -> Iterator[bytes]:
    """Flip every bit of the bytes that `dense` picks, one bit of each other byte."""
    for bit in range(len(data) * 8):
        if dense(bit // 8) or bit % 8 == bit // 8 % 8:
            wrong = bytearray(data)
            wrong[bit // 8] ^= 1 << bit % 8
            yield bytes(wrong)


def _swaps(store: Store, manifest: Manifest) -> Iterator[bytes]:
    index = read_index(store, manifest)
    data = store.read(_SHARD)
    ends = (index.offset + index.stored).tolist()
    frames = [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    rest = data[ends[-1] :]
    for order in ((1, 0, 2), (0, 2, 1), (2, 1, 0), (0, 0, 2), (0, 1, 1), (0, 1), (0, 1, 2, 2), (1, 2), (0, 0, 1, 2)):
        yield b"".join(frames[place] for place in order) + rest


def test_verify_finds_nothing_wrong_with_a_whole_dataset() -> None:
    """Counts are those of the manifest."""
    store, manifest = tiny.write_dataset("memory://verify/whole", shards=3)
    report = verify(store)
    assert report.ok
    assert report.problems == ()
    assert (report.shards, report.blocks, report.records) == (3, 9, 36)
    assert report.nbytes == manifest.nbytes


def test_f45_every_flipped_bit_of_a_shard_is_found_or_harmless() -> None:
    """T4: each bit of blocks and seek table, a bit of each footer byte (test_shard flips the others).

    A flip in the blocks fails the read; one behind them leaves every sample right, and verify finds it.
    """
    store, manifest = _dataset()
    index = read_index(store, manifest)
    data = store.read(_SHARD)
    end, table = int(index.stored.sum()), data.rindex(b"\x5e\x2a\x4d\x18")
    flips = _flips(data, lambda byte: byte < end or byte >= table)
    assert sum(_check(store, _SHARD, wrong, (manifest, index)) for wrong in flips) == end * 8


@pytest.mark.parametrize("name", ["blocks.idx", "dataset.json"])
def test_f48_every_flipped_byte_of_the_index_is_found(name: str) -> None:
    """T4: the dataset does not open, and verify says why (test_blockindex, test_manifest flip every bit)."""
    store, _ = _dataset()
    data = store.read(name)
    assert sum(_check(store, name, wrong) for wrong in _flips(data, lambda _: False)) == len(data)


@pytest.mark.parametrize("name", [_SHARD, "blocks.idx", "dataset.json"])
def test_f44_every_shorter_object_is_found_or_harmless(name: str) -> None:
    """T4: cut at each length; only the loss of what describes a shard leaves its samples readable."""
    store, _ = _dataset()
    data = store.read(name)
    failed = sum(_check(store, name, data[:nbytes]) for nbytes in range(len(data)))
    blocks = int(read_index(*_dataset()).stored.sum())
    assert failed == (blocks if name == _SHARD else len(data))


def test_f52_swapped_repeated_and_lost_blocks_are_found() -> None:
    """T4: whole frames in another order, twice, or gone, never give a wrong sample."""
    store, manifest = _dataset()
    wrongs = list(_swaps(store, manifest))
    assert sum(_check(store, _SHARD, wrong) for wrong in wrongs) == len(wrongs) - 1  # (0, 1, 2, 2): all are in place


def test_verify_reports_every_problem() -> None:
    """A bad block, a missing shard, a left-over and a damaged index stand in one report."""
    store, manifest = tiny.write_dataset("memory://verify/many", shards=4)
    index = read_index(store, manifest)
    data = bytearray(store.read(shard_name(1)))
    for block in (0, 2):
        data[int(index.offset[block]) + 30] ^= 1
    tiny.damage(store, shard_name(1), bytes(data))
    store.delete(shard_name(2))
    tiny.write_shard(store, manifest.header, 4, [[tiny.record(0)]], last=True)
    tiny.damage(store, "blocks.idx", store.read("blocks.idx")[:-1])
    report = verify(store)
    found = [
        (type(problem), getattr(problem, "shard", ""), getattr(problem, "block", -1)) for problem in report.problems
    ]
    assert (CorruptIndex, "blocks.idx", -1) in found
    assert (CorruptFrame, shard_name(1), 0) in found
    assert (CorruptFrame, shard_name(1), 2) in found
    assert (CorruptFrame, shard_name(1), 1) not in found
    assert ShardMissing in {kind for kind, _, _ in found}
    assert (IndexMismatch, shard_name(4), -1) in found
    assert (report.shards, report.records) == (3, 4 * 3 * 3 - 2 * 4)


def test_verify_goes_on_without_a_manifest() -> None:
    """Shards are checked by what they say of themselves."""
    store, _ = tiny.write_dataset("memory://verify/blind", shards=3)
    tiny.damage(store, "dataset.json", b"{}")
    tiny.damage(store, shard_name(1), store.read(shard_name(2)))
    tiny.damage(store, shard_name(2), store.read(shard_name(2))[:50])
    report = verify(store)
    assert [problem.shard for problem in report.problems if isinstance(problem, CorruptData)] == [
        "dataset.json",
        shard_name(1),
        shard_name(2),
    ]
    assert report.shards == 2


def test_verify_compares_footer_and_manifest() -> None:
    """A rewritten shard is stale, one of another dataset a mismatch."""
    store, manifest = tiny.write_dataset("memory://verify/stale", shards=2)
    tiny.write_shard(store, manifest.header, 0, [[tiny.record(99)]], last=True)
    other, _ = tiny.write_dataset("memory://verify/other", shards=2, seed="x")
    tiny.damage(store, shard_name(1), other.read(shard_name(1)))
    kinds = {(type(problem), getattr(problem, "shard", "")) for problem in verify(store).problems}
    assert (StaleIndex, shard_name(0)) in kinds
    assert (IndexMismatch, shard_name(1)) in kinds


def test_f46_verify_checks_payloads_inside_frames() -> None:
    """A record that was damaged before it was compressed has a right frame and a wrong CRC."""
    store, manifest = tiny.write_dataset("memory://verify/payload", shards=1, blocks=1)
    raw = bytearray(tiny.framed([tiny.record(number) for number in range(4)]))
    raw[len(tiny.frame(tiny.record(0))) + 14] ^= 1
    assert manifest.shards[0].records == 4
    writing = tiny.shard_of(store, manifest.header, [(compress(bytes(raw), 3), len(raw), 4)])
    assert writing.records == 4
    report = verify(store)
    (problem,) = [problem for problem in report.problems if isinstance(problem, CorruptRecord)]
    assert (problem.shard, problem.block, problem.record) == (_SHARD, 0, 1)


def _misfits(records: list[bytes], name: str) -> list[tuple[str, int, str]]:
    """Put records of any form in a dataset whose checksums are right, and return the problems with their fields."""
    store, manifest = tiny.write_dataset(f"memory://verify/{name}", shards=1, blocks=1)
    raw = tiny.framed(records)
    tiny.shard_of(store, manifest.header, [(compress(raw, 3), len(raw), len(records))] * 2)
    report = verify(store)
    assert report.records == 2 * len(records)
    assert not report.ok
    return [(str(found), found.row, found.feature) for found in report.problems if isinstance(found, SchemaError)]


@pytest.mark.parametrize(
    ("record", "feature", "reason"),
    [
        (tiny.example({"x": [1.5], "name": b"a"}), "x", "float"),
        (tiny.example({"x": [1, 2], "name": b"a"}), "x", "2"),
        (tiny.example({"name": b"a"}), "x", "found none"),
        (tiny.example({"x": [1], "name": b"\xff"}), "name", "UTF-8"),
        (b"\xff\xff", "", ""),
    ],
)
def test_f58_a_record_that_does_not_fit_the_schema_is_named(record: bytes, feature: str, reason: str) -> None:
    """Of another kind, another length, without a feature, with text that is none, no Example: its CRC is right."""
    found = _misfits([tiny.record(0), record, tiny.record(2)], "misfit")
    for block, (text, row, name) in enumerate(found):
        assert f"{_SHARD}, block {block}, record 1: " in text
        assert reason in text
        assert (row, name) == (1, feature)
    assert len(found) == 2


def test_records_that_do_not_fit_are_counted_by_block() -> None:
    """The first of a block is named, so that a wholly wrong dataset does not fill the memory."""
    wrong = tiny.example({"name": b"a"})
    ((text, row, _), _) = _misfits([tiny.record(0), wrong, tiny.record(2), wrong, wrong], "misfits")
    assert row == 1
    assert text.endswith("; 2 more of the block's 5 records do not fit")


def test_verify_parses_what_shards_say_without_a_manifest() -> None:
    """By the schema in each one's footer."""
    store, manifest = tiny.write_dataset("memory://verify/alone", shards=1, blocks=1)
    raw = tiny.framed([tiny.example({"name": b"a"})])
    tiny.shard_of(store, manifest.header, [(compress(raw, 3), len(raw), 1)])
    tiny.damage(store, "dataset.json", b"{}")
    assert [type(problem) for problem in verify(store).problems] == [CorruptIndex, SchemaError]


def test_verify_checks_plain_files() -> None:
    """Codec "none": payloads, places and SHA-256."""
    store = open_store("memory://verify/plain")
    tiny.damage(store, "a.tfrecord", tiny.framed([tiny.record(number) for number in range(9)]))
    index_foreign(store, block_size=100)
    assert verify(store).ok
    data = bytearray(store.read("a.tfrecord"))
    data[-1] ^= 1
    tiny.damage(store, "a.tfrecord", bytes(data))
    kinds = [type(problem) for problem in verify(store).problems]
    assert kinds == [CorruptRecord, CorruptFrame]
    tiny.damage(store, "a.tfrecord", tiny.framed([tiny.record(8 - number) for number in range(9)]))
    assert StaleIndex in {type(problem) for problem in verify(store).problems}


def test_verify_without_a_dataset_says_so() -> None:
    """Nothing committed is no data problem."""
    with pytest.raises(DatasetNotFound):
        verify(open_store("memory://verify/nothing"))
