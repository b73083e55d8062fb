"""The manifest: its bytes, and what reading it refuses."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from crc32c import crc32c

from datafeed.errors import CorruptIndex, DatasetNotFound, UnsupportedVersion
from datafeed.header import Fields, canonical, make_header
from datafeed.manifest import Manifest, check_name, read_manifest
from datafeed.schema import Schema, stored
from datafeed.shard import ShardInfo, shard_name
from datafeed.storage import open_store

_HEADER = make_header(Schema([stored("é", "utf8", optional=True)]), block_size=1, level=3, provenance={"a": [1, 2.5]})
_SHARD = ShardInfo(shard_name(0), 100, 200, 3, 2, "0" * 64, 1)
_MANIFEST = Manifest(_HEADER, "zstd", (_SHARD, replace(_SHARD, name=shard_name(1))), "blocks.idx", 10, "f" * 64)


def _resealed(**changes: object) -> bytes:
    fields = json.loads(_MANIFEST.to_bytes())
    del fields["crc32c"]
    fields.update(changes)
    return canonical({**fields, "crc32c": crc32c(canonical(fields))}) + b"\n"


def _with_shard(**changes: object) -> bytes:
    shards = json.loads(_MANIFEST.to_bytes())["shards"]
    shards[1].update(changes)
    totals = {key: sum(shard[key] for shard in shards) for key in ("nbytes", "raw_bytes", "records", "skipped")}
    return _resealed(shards=shards, totals=totals)


def test_manifest_round_trips() -> None:
    """Everything comes back, and totals are sums."""
    assert Manifest.from_bytes(_MANIFEST.to_bytes()) == _MANIFEST
    assert (_MANIFEST.nbytes, _MANIFEST.raw_bytes, _MANIFEST.records, _MANIFEST.skipped) == (200, 400, 6, 2)
    assert _MANIFEST.digest == hashlib.sha256(_MANIFEST.to_bytes()).hexdigest()
    assert _MANIFEST.schema == _HEADER.schema
    assert _resealed() == _MANIFEST.to_bytes()


def test_dataset_id_depends_on_everything_else() -> None:
    """Equal settings give one id, any other setting another."""
    schema = Schema([stored("x", "int64")])

    def made(**changes: object) -> str:
        settings: dict[str, object] = {"block_size": 1, "level": 3, "provenance": {}, "extent_size": 2, **changes}
        return make_header(schema, **settings).dataset_id  # type: ignore[arg-type]  # each test value fits

    assert made() == made()
    others = [made(block_size=2), made(level=1), made(provenance={"a": 1}), made(extent_size=3)]
    assert len({made(), *others}) == 5


def test_f48_every_flipped_bit_is_found() -> None:
    """No bit of dataset.json can turn over unseen."""
    data = _MANIFEST.to_bytes()
    for bit in range(len(data) * 8):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises((CorruptIndex, UnsupportedVersion), match=r"dataset\.json"):
            Manifest.from_bytes(bytes(wrong))


def test_f48_every_shorter_manifest_is_refused() -> None:
    """No end can go missing unseen."""
    data = _MANIFEST.to_bytes()
    for nbytes in range(len(data)):
        with pytest.raises(CorruptIndex, match=r"dataset\.json"):
            Manifest.from_bytes(data[:nbytes])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_resealed(format="other"), "the format 'datafeed', found 'other'"),
        (_resealed(codec="lz4"), "found 'lz4'"),
        (_resealed(shards=5), "an array"),
        (_resealed(shards=[5]), "a JSON object"),
        (_resealed(header={}), "'dataset_id' is missing"),
        (_resealed(totals={"nbytes": 1}), "the total nbytes is 1, the shards add up to 200"),
        (_with_shard(records=-1), "'records', found -1"),
        (_with_shard(records=2**64), "'records', found"),
        (_with_shard(nbytes=True), "'nbytes', found True"),
        (_with_shard(sha256="0" * 63), "64 hexadecimal digits"),
        (b"[" * 100_000, "no JSON"),
        (b"{}", "'format' is missing"),
        (b"\xff\xfe", "no JSON"),
        (_MANIFEST.to_bytes().replace(b":", b": "), "CRC32C"),
    ],
)
def test_f51_manifest_that_contradicts_itself_is_refused(data: bytes, reason: str) -> None:
    """A right CRC does not make a count right."""
    with pytest.raises(CorruptIndex, match=reason):
        Manifest.from_bytes(data)


@pytest.mark.parametrize(
    "name", ["../shard", "/etc/passwd", "a/b", "C:\\x", "a\0b", "", ".", "..", "x" * 256, "\ud800"]
)
def test_f55_names_that_leave_the_directory_are_refused(name: str) -> None:
    """A manifest cannot name a file elsewhere, nor one that cannot be."""
    assert check_name(name)
    with pytest.raises(CorruptIndex, match="refused"):
        Manifest.from_bytes(_with_shard(name=name))
    index = json.loads(_MANIFEST.to_bytes())["index"]
    with pytest.raises(CorruptIndex, match="refused"):
        Manifest.from_bytes(_resealed(index={**index, "name": name}))


def test_f56_odd_names_are_kept_and_escaped() -> None:
    """Bytes that are no UTF-8, newlines and control characters survive in a manifest of plain files, as ASCII."""
    names = ["a\nb", "\udcff\udcfe.tfrecord", "x" * 255, "é", "A", "a"]
    shards = tuple(replace(_SHARD, name=name) for name in names)
    manifest = replace(_MANIFEST, codec="none", shards=shards)
    assert manifest.to_bytes().isascii()
    assert manifest.to_bytes().count(b"\n") == 1
    assert [shard.name for shard in Manifest.from_bytes(manifest.to_bytes()).shards] == names


def test_f56_shard_names_of_ours_are_fixed() -> None:
    """A converted dataset's shard stands under its own number's name, once."""
    with pytest.raises(CorruptIndex, match="expected 'shard-000001"):
        Manifest.from_bytes(_with_shard(name="other"))
    for name in (shard_name(0), "dataset.json", "blocks.idx"):
        with pytest.raises(CorruptIndex, match="twice"):
            Manifest.from_bytes(_with_shard(name=name))


def test_later_version_is_refused_by_its_number() -> None:
    """Even where nothing else of it is understood."""
    with pytest.raises(UnsupportedVersion, match="version 2 of the format is unknown, the latest known is 1"):
        Manifest.from_bytes(b'{"format":"datafeed","version":2,"crc":"other"}')


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        ([], "nothing stands there"),
        ([".hidden"], "nothing stands there"),
        (["a.jpg", "b.jpg"], "'a.jpg' and 1 more.*: run `datafeed convert"),
        (["cat/a.jpg", "dog/b.jpg"], "'cat/' and 1 more.*: run `datafeed convert"),
        (["a.tfrecord"], "run `datafeed index"),
        (
            [shard_name(0)],
            "^[^:]*: 1 shard of .*`datafeed index --rebuild .*, or else the same `datafeed convert` again",
        ),
        ([shard_name(0), shard_name(1), "journal/plan.json"], "with 2 shards so far: run the same `datafeed convert`"),
        (["journal/000000.json", ".convert.lock"], "a journal alone, .*: run the same `datafeed convert` again"),
        (["journal/plan.json"], "with 0 shards so far: run the same `datafeed convert` again"),
        (["train/dataset.json", "val/dataset.json"], "in 'train', 'val' there: name that folder"),
    ],
)
def test_place_without_a_dataset_gets_advice(tmp_path: Path, names: list[str], advice: str) -> None:
    """What stands there decides what to do next."""
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(DatasetNotFound, match=advice):
        read_manifest(open_store(tmp_path))


def test_journal_in_place_of_a_dataset_gets_advice(tmp_path: Path) -> None:
    """It looks like json files, and lies in the directory that is meant."""
    journal = tmp_path / "journal"
    journal.mkdir()
    for name in ("plan.json", "000000.json"):
        (journal / name).write_bytes(b"{}")
    with pytest.raises(DatasetNotFound, match="the journal of an unfinished conversion: name the directory above it"):
        read_manifest(open_store(journal))


def test_file_in_place_of_a_dataset_gets_advice(tmp_path: Path) -> None:
    """A path to a file is no directory."""
    (tmp_path / "x.parquet").write_bytes(b"")
    with pytest.raises(DatasetNotFound, match="it is a file"):
        read_manifest(open_store(tmp_path / "x.parquet"))


def test_read_manifest_reads_a_dataset() -> None:
    """What was committed is what is read."""
    store, manifest = tiny.write_dataset("memory://manifest")
    assert read_manifest(store) == manifest


def test_fields_check_kinds() -> None:
    """A flag is no integer, an object no array."""
    fields = Fields({"a": 1, "b": [], "c": "x"}, "file")
    for read in (lambda: fields.flag("a"), lambda: fields.mapping("b"), lambda: fields.hex("c", 1)):
        with pytest.raises(CorruptIndex, match="file: expected"):
            read()
