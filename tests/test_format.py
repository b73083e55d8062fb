"""Read a dataset by what the README says of the format, with nothing of this package's readers."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import tiny
import zstandard
from crc32c import crc32c


def canonical(value: object) -> bytes:
    """Return canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def records_of(raw: bytes) -> list[bytes]:
    """Unframe the records of a block."""
    found = []
    at = 0
    while at < len(raw):
        length, head_crc = struct.unpack_from("<QI", raw, at)
        assert tiny.mask(crc32c(raw[at : at + 8])) == head_crc
        payload = raw[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", raw, at + 12 + length) == (tiny.mask(crc32c(payload)),)
        found.append(payload)
        at += 16 + length
    return found


def columns_of(index: bytes, dataset_id: str) -> list[list[tuple[int, ...]]]:
    """Return (stored, raw, records, checksum) of each block of each shard."""
    magic, version, shards, id_bytes = struct.unpack_from("<8sII16s", index)
    assert (magic, version, id_bytes.hex()) == (b"DFBLKIDX", 1, dataset_id)
    end = 32 + 16 * shards
    assert struct.unpack_from("<I", index, end) == (crc32c(index[:end]),)
    found = []
    for shard in range(shards):
        offset, nbytes, blocks = struct.unpack_from("<QII", index, 32 + 16 * shard)
        packed = zstandard.decompress(index[offset : offset + nbytes])
        columns = struct.unpack(f"<{4 * blocks}I", packed)
        found.append([columns[block::blocks] for block in range(blocks)])
    return found


def check_end(shard: bytes, blocks: list[tuple[int, ...]], header: object) -> None:
    """Compare a shard's footer and seek table with the index."""
    entries, descriptor, magic = struct.unpack_from("<IBI", shard, len(shard) - 9)
    assert (entries, descriptor, magic) == (len(blocks) + 1, 0x80, 0x8F92EAB1)
    table = len(shard) - 9 - 12 * entries - 8
    assert struct.unpack_from("<II", shard, table) == (0x184D2A5E, len(shard) - table - 8)
    rows = [struct.unpack_from("<III", shard, table + 8 + 12 * entry) for entry in range(entries)]
    assert rows[:-1] == [(stored, raw, checksum) for stored, raw, _, checksum in blocks]
    start = sum(stored for stored, *_ in blocks)
    assert rows[-1] == (table - start, 0, 0x51D8E999)
    assert struct.unpack_from("<II4sI", shard, start) == (0x184D2A5D, table - start - 8, b"DFSF", 1)
    (length,) = struct.unpack_from("<I", shard, start + 16)
    facts = json.loads(shard[start + 20 : start + 20 + length])
    assert facts["header"] == header
    at = start + 20 + length
    counts = [records for _, _, records, _ in blocks]
    assert struct.unpack_from(f"<I{len(blocks)}I", shard, at) == (len(blocks), *counts)
    at += 4 + 4 * len(blocks)
    assert shard[at : at + 32] == hashlib.sha256(shard[:start]).digest()
    assert struct.unpack_from("<I", shard, at + 32) == (crc32c(shard[start + 8 : at + 32]),)
    assert at + 36 == table


def test_a_second_reader_reads_what_was_written(tmp_path: Path) -> None:
    """Every rule of the README's format holds of what the writer writes."""
    tiny.write_dataset(str(tmp_path), shards=3, blocks=4, records=5)
    data = (tmp_path / "dataset.json").read_bytes()
    manifest = json.loads(data)
    sealed = {key: value for key, value in manifest.items() if key != "crc32c"}
    assert data == canonical(manifest) + b"\n"
    assert manifest["crc32c"] == crc32c(canonical(sealed))
    header = manifest["header"]
    identity = {key: value for key, value in header.items() if key != "dataset_id"}
    assert header["dataset_id"] == hashlib.sha256(canonical(identity)).hexdigest()[:32]
    index = (tmp_path / manifest["index"]["name"]).read_bytes()
    assert manifest["index"]["sha256"] == hashlib.sha256(index).hexdigest()
    found: list[bytes] = []
    columns = columns_of(index, header["dataset_id"])
    for info, blocks in zip(manifest["shards"], columns, strict=True):
        shard = (tmp_path / info["name"]).read_bytes()
        assert (info["nbytes"], info["sha256"]) == (len(shard), hashlib.sha256(shard).hexdigest())
        at = 0
        for stored, raw, records, checksum in blocks:
            frame = shard[at : at + stored]
            assert struct.unpack_from("<I", frame, stored - 4) == (checksum,)
            block = records_of(zstandard.decompress(frame))
            assert (len(block), sum(len(record) + 16 for record in block)) == (records, raw)
            found += block
            at += stored
        check_end(shard, blocks, header)
    assert found == [tiny.record(number) for number in range(60)]
    sums = {key: sum(info[key] for info in manifest["shards"]) for key in ("nbytes", "raw_bytes", "records", "skipped")}
    assert manifest["totals"] == sums
