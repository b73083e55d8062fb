"""Plain TFRecords, read where they lie."""

from __future__ import annotations

import gzip
import logging
import struct
import zlib
from pathlib import Path

import pytest
import tiny

from datafeed.blockindex import read_index
from datafeed.errors import CorruptRecord, EmptySource, NotAShard, OutputDiffers, RecordTooLarge, SchemaError
from datafeed.foreign import index_foreign
from datafeed.frames import compress
from datafeed.manifest import read_manifest
from datafeed.reader import BlockReader
from datafeed.storage import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Give an empty local store."""
    return open_store(tmp_path)


def _records(store: Store) -> list[bytes]:
    manifest = read_manifest(store)
    index = read_index(store, manifest)
    reader = BlockReader(store, manifest, index)
    blocks = [reader.read(number) for number in range(len(index))]
    return [bytes(block.record(row)) for block in blocks for row in range(len(block))]


def test_index_reads_files_in_place(store: Store) -> None:
    """Files of any name whose content is TFRecord are taken, in the order of their names; others are left alone."""
    records = [tiny.record(number) for number in range(30)]
    tiny.damage(store, "train-00001-of-00002", tiny.framed(records[10:]))
    tiny.damage(store, "train-00000-of-00002", tiny.framed(records[:10]))
    tiny.damage(store, "README.md", b"# words")
    tiny.damage(store, "labels.txt", b"")
    manifest = index_foreign(store, block_size=200)
    assert manifest.codec == "none"
    assert [shard.name for shard in manifest.shards] == ["train-00000-of-00002", "train-00001-of-00002"]
    assert manifest.schema == tiny.SCHEMA.select(["name", "x"])
    assert read_manifest(store) == manifest
    assert _records(store) == records
    assert index_foreign(store, block_size=200) == manifest


def test_blocks_hold_whole_records_up_to_their_size(store: Store) -> None:
    """A block takes records until one more would pass its size, and at least one."""
    sizes = [10, 10, 10, 500, 10, 84, 10]
    tiny.damage(store, "a.tfrecord", tiny.framed([tiny.example({"b": bytes(size)}) for size in sizes]))
    frames = [len(tiny.frame(tiny.example({"b": bytes(size)}))) for size in sizes]
    manifest = index_foreign(store, block_size=sum(frames[:3]))
    index = read_index(store, manifest)
    assert index.records.tolist() == [3, 1, 1, 1, 1]
    assert index.raw.tolist() == [sum(frames[:3]), *frames[3:]]
    assert index.stored.tolist() == index.raw.tolist()


def test_records_larger_than_one_read_are_indexed(store: Store) -> None:
    """Records that straddle reads of 8 MiB, or are longer, are whole."""
    records = [
        tiny.example({"b": bytes([number]) * size}) for number, size in enumerate([5_000_000] * 3 + [9_000_000, 5])
    ]
    tiny.damage(store, "a.tfrecord", tiny.framed(records))
    index_foreign(store)
    assert _records(store) == records


def test_f92_empty_files_are_kept(store: Store) -> None:
    """An empty file first, in the middle or last holds no record and harms none."""
    for name in ("a.tfrecord", "c.tfrecord", "e.tfrecord"):
        tiny.damage(store, name, b"")
    for number, name in enumerate(("b.tfrecord", "d.tfrecord")):
        tiny.damage(store, name, tiny.framed([tiny.record(number)]))
    assert [shard.records for shard in index_foreign(store).shards] == [0, 1, 0, 1, 0]
    assert _records(store) == [tiny.record(0), tiny.record(1)]


def test_no_file_of_records_is_an_error(store: Store) -> None:
    """Other files, or none, are no data set."""
    tiny.damage(store, "a.jpg", b"\xff\xd8\xff" + bytes(100))
    with pytest.raises(EmptySource, match="no plain TFRecord file"):
        index_foreign(store)


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "a.tfrecord-00000-of-00001"])
def test_f96_compressed_files_are_refused(store: Store, name: str) -> None:
    """gzip, zlib and zstd are recognised by their first bytes; each is told what reads it."""
    raw = tiny.framed([tiny.record(0)] * 50)
    convert = "run `datafeed convert`"
    for data, codec, advice in (
        (gzip.compress(raw), "gzip", convert),
        (zlib.compress(raw), "zlib", convert),
        (compress(raw, 3), "zstd", "unpack it with `zstd -d`"),
    ):
        tiny.damage(store, name, data)
        with pytest.raises(NotAShard, match=f"packed with {codec}.*{advice}") as caught:
            index_foreign(store)
        assert caught.value.shard == name


def test_f46_flipped_byte_is_found_wherever_it_is(store: Store) -> None:
    """In a length, in its CRC, in the data or in its CRC: file, record and offset are named."""
    frames = [tiny.frame(tiny.record(number)) for number in range(3)]
    good = b"".join(frames)
    for byte in range(len(good)):
        wrong = bytearray(good)
        wrong[byte] ^= 16
        tiny.damage(store, "a.tfrecord", bytes(wrong))
        with pytest.raises(CorruptRecord) as caught:
            index_foreign(store)
        row = byte // len(frames[0])
        assert (caught.value.shard, caught.value.record) == ("a.tfrecord", row)
        assert len(frames[0]) * row <= caught.value.offset <= byte


def test_f44_file_cut_inside_a_record_is_found(store: Store) -> None:
    """Every length that is not the end of a record is an error with its place."""
    frames = [tiny.frame(tiny.record(number)) for number in range(2)]
    good = b"".join(frames)
    for nbytes in set(range(1, len(good))) - {len(frames[0])}:
        tiny.damage(store, "a.tfrecord", good[:nbytes])
        with pytest.raises(CorruptRecord) as caught:
            index_foreign(store)
        assert (caught.value.shard, caught.value.record) == ("a.tfrecord", nbytes // len(frames[0]))


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**31, 100])
def test_f47_length_past_the_end_allocates_nothing(store: Store, length: int) -> None:
    """A length whose CRC is right is still held against the file's size."""
    head = struct.pack("<Q", length)
    wrong = head + struct.pack("<I", tiny.mask(tiny.crc32c(head))) + bytes(50)
    tiny.damage(store, "a.tfrecord", tiny.framed([tiny.record(0)]) + wrong)
    with pytest.raises(CorruptRecord, match=f"{length:,} bytes by its head") as caught:
        index_foreign(store)
    assert caught.value.record == 1


def test_f99_record_over_the_limit_is_refused(store: Store, tmp_path: Path) -> None:
    """A record of 2**31 bytes in a sparse file is refused before its data is read."""
    head = struct.pack("<Q", 2**31)
    with (tmp_path / "a.tfrecord").open("wb") as file:
        file.write(head + struct.pack("<I", tiny.mask(tiny.crc32c(head))))
        file.truncate(2**31 + 16)
    with pytest.raises(RecordTooLarge, match="the limit is 2,147,483,647"):
        index_foreign(store)


def test_converted_dataset_is_not_overwritten() -> None:
    """A zstd dataset has an index of its own."""
    store, manifest = tiny.write_dataset("memory://foreign/converted")
    with pytest.raises(OutputDiffers, match="--rebuild"):
        index_foreign(store)
    assert read_manifest(store) == manifest


@pytest.mark.parametrize("damaged", [False, True])
def test_converted_shards_without_their_manifest_are_refused(store: Store, *, damaged: bool) -> None:
    """They are packed with zstd, but to unpack them is no advice."""
    tiny.write_dataset(store.url)
    if damaged:
        tiny.damage(store, "dataset.json", b"{}")
    else:
        store.delete("dataset.json")
    with pytest.raises(OutputDiffers, match=r"2 shards of a converted dataset .* run `datafeed index --rebuild"):
        index_foreign(store)


def test_an_unfinished_conversion_is_refused(store: Store) -> None:
    """Whether or not a shard is finished."""
    tiny.damage(store, "journal/plan.json", b"{}")
    for count in range(2):
        with pytest.raises(OutputDiffers, match=f"with {count} shards? so far: run the same `datafeed convert` again"):
            index_foreign(store)
        tiny.damage(store, "shard-000000.tfrecord.zst", b"anything")


def test_zstd_files_named_like_shards_are_not_taken_for_shards(store: Store) -> None:
    """Somebody else's stream under such a name has no footer of ours."""
    tiny.damage(store, "shard-000000.tfrecord.zst", compress(tiny.framed([tiny.record(0)] * 50), 3))
    with pytest.raises(NotAShard, match="unpack it with `zstd -d`"):
        index_foreign(store)


def test_f56_odd_names_are_kept(store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Newlines, bytes that are no UTF-8 and 255 bytes work; names that differ by case alone are reported."""
    names = ["a\nb.tfrecord", "\udcff.tfrecord", "x" * 246 + ".tfrecord", "A.tfrecord", "a.tfrecord"]
    for number, name in enumerate(sorted(names)):
        (tmp_path / name).write_bytes(tiny.framed([tiny.record(number)]))
    with caplog.at_level(logging.WARNING):
        manifest = index_foreign(store)
    assert [shard.name for shard in manifest.shards] == sorted(names)
    assert _records(open_store(tmp_path)) == [tiny.record(number) for number in range(5)]
    assert "'A.tfrecord' and 'a.tfrecord' differ by case alone" in caplog.text
    (tmp_path / "a\nb.tfrecord").write_bytes(b"x" * 20)
    with pytest.raises(CorruptRecord) as caught:
        index_foreign(store)
    assert "\n" not in str(caught.value)


def test_a_schema_that_does_not_fit_is_refused(store: Store) -> None:
    """The record is named, and no index is written."""
    records = [tiny.record(number) for number in range(1500)]
    records[3] = records[1400] = tiny.example({"x": [1]})
    tiny.damage(store, "a.tfrecord", tiny.framed(records[:2]))
    tiny.damage(store, "b.tfrecord", tiny.framed(records[2:]))
    with pytest.raises(SchemaError, match=r"'name': record 1 of 'b\.tfrecord' does not fit the schema given: expected"):
        index_foreign(store, schema=tiny.SCHEMA, block_size=200)
    assert not store.exists("dataset.json")
    records[3] = records[0]
    tiny.damage(store, "b.tfrecord", tiny.framed(records[2:]))
    assert index_foreign(store, schema=tiny.SCHEMA, block_size=200).schema == tiny.SCHEMA  # the 1,401st is not read


def test_feature_lists_are_not_dropped_in_silence(store: Store) -> None:
    """An index would show the context alone."""
    record = tiny.example({"x": [1]}) + tiny.part(2, tiny.part(1, tiny.part(1, b"steps")))
    tiny.damage(store, "sequence.tfrecord", tiny.frame(record))
    with pytest.raises(SchemaError, match=r"tf\.train\.SequenceExamples, .*: convert them"):
        index_foreign(store)


def test_schema_is_drawn_from_the_first_records(store: Store) -> None:
    """Records that are no Example say so."""
    tiny.damage(store, "a.tfrecord", tiny.framed([b"\xff\xff"]))
    with pytest.raises(SchemaError) as caught:
        index_foreign(store)
    assert caught.value.row == 0
