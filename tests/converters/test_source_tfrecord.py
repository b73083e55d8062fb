"""Test reading TFRecord files."""

from __future__ import annotations

import gzip
import pickle
import zlib
from pathlib import Path

import numpy as np
import pytest
import zstandard
from source_contract import Row, SourceContract, check_form, rows_of
from tiny import Value, example, frame, framed, part, varint

from datafeed._native import masked_crc32c
from datafeed.converters import tfrecord
from datafeed.converters.detect import open_source
from datafeed.converters.options import SourceOptions
from datafeed.converters.record_pieces import pieces, unpacked
from datafeed.converters.tfrecord import TFRecords
from datafeed.errors import BadItem, CorruptRecord, EmptySource, SourceError
from datafeed.framing import LARGEST_NBYTES
from datafeed.schema import Schema, stored

PLAIN = SourceOptions()


def sample(number: int) -> dict[str, Value]:
    """Return what record `number` holds."""
    return {"few": list(range(number % 4)), "label": [number], "text": f"é{number}".encode()}


def row(number: int) -> Row:
    """Return the same as a source gives it back."""
    return {"few": list(range(number % 4)), "label": number, "text": f"é{number}"}


def raw(numbers: range) -> bytes:
    """Return the bytes of a plain file of records."""
    return framed([example(sample(number)) for number in numbers])


def read(path: Path, options: SourceOptions = PLAIN, given: Schema | None = None) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items, checking the form of every column."""
    source, bad = TFRecords(str(path), options, given), []
    schema, rows = source.schema(), []
    for unit in source.units():
        for chunk in source.read(unit, bad.append):
            for feature in schema:
                check_form(feature, chunk.columns[feature.name], chunk.rows)
            rows += rows_of(schema.features, chunk)
    return rows, bad


def labels(rows: list[Row]) -> list[object]:
    """Return what tells the records apart."""
    return [found["label"] for found in rows]


class TestTFRecords(SourceContract):
    """Hold a folder of plain, gzip and zlib files to what every source promises."""

    def open(self, path: Path) -> TFRecords:
        """Open it."""
        return TFRecords(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write empty files first, in the middle and last, and three with records."""
        (folder / "a.tfrecord").touch()
        (folder / "b.tfrecord").write_bytes(raw(range(5)))
        (folder / "c.tfrecord.gz").write_bytes(gzip.compress(b""))
        (folder / "d.tfrecord-00000-of-00001").write_bytes(gzip.compress(raw(range(5, 9)), mtime=0))
        (folder / "e.tfrecords").write_bytes(zlib.compress(raw(range(9, 12))))
        (folder / "f.tfrecord").touch()
        return [row(number) for number in range(12)]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Flip a byte in the data of the second record of the plain file."""
        data = bytearray((folder / "b.tfrecord").read_bytes())
        data[len(raw(range(1))) + 20] ^= 1
        (folder / "b.tfrecord").write_bytes(data)
        where = f"b.tfrecord: record 1, byte {len(raw(range(1)))}"
        return where, "the CRC of its data is wrong", [row(number) for number in range(12) if number != 1]


@pytest.mark.parametrize("packed", ["plain", "gzip", "zlib"])
def test_f95_a_flipped_byte_anywhere_is_found(tmp_path: Path, packed: str) -> None:
    """Of data and its CRC: that record, with file, record and byte. Of a length and its CRC: all from there on."""
    whole, path = raw(range(4)), tmp_path / "t.tfrecord"
    pack = {"plain": bytes, "gzip": gzip.compress, "zlib": zlib.compress}[packed]
    starts = [len(raw(range(number))) for number in range(5)]
    for number in range(4):
        for position in range(starts[number], starts[number + 1], 1 if packed == "plain" else 7):
            path.write_bytes(pack(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :]))
            if position < 12 and packed == "plain":
                assert not rows_left(path)
                continue
            in_head = position - starts[number] < 12
            left = [other for other in range(4) if other < number or (other > number and not in_head)]
            if not left:
                continue
            rows, bad = read(path)
            assert labels(rows) == left
            assert [item.where for item in bad] == [f"{path}: record {number}, byte {starts[number]}"]
            assert ("length" if in_head else "data") in bad[0].reason


def rows_left(path: Path) -> bool:
    """Whether a file has a record that can be read."""
    try:
        return bool(read(path)[0])
    except (EmptySource, SourceError):
        return False


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
def test_f95_a_file_cut_at_any_length_gives_its_whole_records(tmp_path: Path, pack: type[bytes]) -> None:
    """The cut is a bad item, but where it falls between two records of a plain file."""
    (tmp_path / "a.tfrecord").write_bytes(raw(range(2)))
    data, path = pack(raw(range(2, 6))), tmp_path / "b.tfrecord"
    clean = {len(raw(range(2, 2 + number))) for number in range(5)} if pack is bytes else {0, len(data)}
    for stop in range(0, len(data) + 1, 1 if pack is bytes else 5):
        path.write_bytes(data[:stop])
        rows, bad = read(tmp_path)
        assert labels(rows) == list(range(len(rows)))
        assert len(bad) == (stop not in clean), stop
        assert all(str(path) in item.where for item in bad)


@pytest.mark.parametrize("unit_nbytes", [100, 10**9])
def test_f96_no_record_is_lost_between_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit_nbytes: int) -> None:
    """Two files of 1,000 records give 2,000, however many units read them."""
    monkeypatch.setattr(tfrecord, "UNIT_NBYTES", unit_nbytes)
    (tmp_path / "a.tfrecord").write_bytes(raw(range(1000)))
    (tmp_path / "b.tfrecord").write_bytes(raw(range(1000, 2000)))
    assert (len(TFRecords(str(tmp_path), PLAIN).units()) > 100) == (unit_nbytes == 100)
    assert read(tmp_path) == ([row(number) for number in range(2000)], [])


def test_f95_a_record_damaged_in_a_later_unit_keeps_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers and bytes count from the file's beginning; a wrong length ends the listing, not what comes before it."""
    monkeypatch.setattr(tfrecord, "UNIT_NBYTES", 300)
    data = bytearray(raw(range(100)))
    data[len(raw(range(60))) + 20] ^= 1
    data[len(raw(range(80)))] ^= 1
    (tmp_path / "t.tfrecord").write_bytes(data)
    rows, bad = read(tmp_path / "t.tfrecord")
    assert labels(rows) == [number for number in range(80) if number != 60]
    assert [item.where.partition(": ")[2] for item in bad] == [
        f"record {number}, byte {len(raw(range(number)))}" for number in (60, 80)
    ]


def test_f96_packing_is_told_by_the_content(tmp_path: Path) -> None:
    """A gzip file without the suffix, several in one, and a plain file whose first bytes look like zlib's."""
    (tmp_path / "t.tfrecord").write_bytes(gzip.compress(raw(range(3))) + gzip.compress(raw(range(3, 5))))
    assert labels(read(tmp_path)[0]) == [0, 1, 2, 3, 4]
    length = next(size for size in range(0x78, 2**20, 256) if int.from_bytes(size.to_bytes(8, "little")[:2]) % 31 == 0)
    (tmp_path / "t.tfrecord").write_bytes(frame(bytes(length)))
    assert [unit.name for unit in TFRecords(str(tmp_path), PLAIN).units()] == [f"{tmp_path}/t.tfrecord#0"]


def test_a_file_packed_with_zstd_is_refused(tmp_path: Path) -> None:
    """Whatever its name, before anything is converted: it is not called damaged."""
    (tmp_path / "a.tfrecord").write_bytes(raw(range(2)))
    (tmp_path / "b.tfrecord").write_bytes(zstandard.compress(raw(range(2))))
    with pytest.raises(SourceError, match=r"b\.tfrecord is packed with zstd.*`zstd -d .*/b\.tfrecord`"):
        TFRecords(str(tmp_path), PLAIN).units()


@pytest.mark.parametrize("name", ["a.tfrec", "a.record-00000-of-00002", "a.TFRecord.zlib", "v1.0 (b).tfrecords.gz"])
def test_names_of_tfrecords_tell_their_kind(tmp_path: Path, name: str) -> None:
    """The same ones when the kind is told as when a folder is listed."""
    (tmp_path / name).write_bytes(zlib.compress(raw(range(2))))
    (tmp_path / "notes.txt").touch()
    source = open_source(str(tmp_path), None, PLAIN)
    assert source.kind == "tfrecord"
    assert [unit.name for unit in source.units()] == [str(tmp_path / name)]


def test_unpacking_yields_little_at_a_time(tmp_path: Path) -> None:
    """A file that grows a thousandfold is never held whole."""
    (tmp_path / "bomb").write_bytes(gzip.compress(bytes(40 * 2**20)))
    with (tmp_path / "bomb").open("rb") as file:
        sizes = [len(data) for data in unpacked(file)]
    assert sum(sizes) == 40 * 2**20
    assert max(sizes) <= 4 * 2**20


def test_a_length_past_the_limit_is_refused_before_it_is_read() -> None:
    """Its CRC may be right all the same."""
    for length in (LARGEST_NBYTES + 1, 2**63, 2**64 - 1):
        size = length.to_bytes(8, "little")
        head = size + masked_crc32c(size).to_bytes(4, "little")
        with pytest.raises(CorruptRecord, match=f"{length:,} bytes by its head, the limit is") as caught:
            list(pieces([raw(range(2)) + head]))
        assert (caught.value.record, caught.value.offset) == (2, len(raw(range(2))))


def test_chunks_of_any_size_give_the_same_records() -> None:
    """A record may begin, end, or be cut anywhere in them."""
    data = raw(range(6))
    for size in (1, 3, 16, 50, len(data)):
        chunks = [data[start : start + size] for start in range(0, len(data), size)]
        found = [bytes(piece.payload(i)) for piece in pieces(chunks) for i in range(len(piece))]
        assert found == [example(sample(number)) for number in range(6)]


def test_records_that_do_not_fit_are_bad_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Example, a feature missing, of another kind or length, unknown to the first records, or no text."""
    monkeypatch.setattr(tfrecord, "SAMPLE_RECORDS", 3)
    odd = [
        b"\xff\xff",
        example({"few": [1], "text": b"x"}),
        example({**sample(5), "label": b"five"}),
        example({**sample(6), "label": [6, 6]}),
        example({**sample(7), "more": [1]}),
        example({**sample(8), "text": "é".encode()[:1]}),
    ]
    good = [example(sample(number)) for number in range(4)]
    (tmp_path / "t.tfrecord").write_bytes(framed([*good, *odd, example(sample(9))]))
    rows, bad = read(tmp_path)
    assert labels(rows) == [0, 1, 2, 3, 9]
    assert [item.where.split()[2] for item in bad] == ["4,", "5,", "6,", "7,", "8,", "9,"]
    assert [item.data for item in bad] == odd
    assert [item.reason.partition(":")[0] for item in bad[1:4]] == ["feature 'label'"] * 3
    assert bad[4].reason == "it has the feature 'more', which the first records lack"
    assert bad[5].reason == "feature 'text': it is text in the first records, and no UTF-8 here"


def test_records_written_in_other_forms_are_read(tmp_path: Path) -> None:
    """Lists that are not packed and entries in another order take other bytes, and hold the same."""
    entry = part(1, part(1, b"label") + part(2, part(3, varint(1 << 3) + varint(7))))
    text = part(1, part(1, b"text") + part(2, part(1, part(1, b"x"))))
    few = part(1, part(1, b"few") + part(2, part(3, b"")))
    (tmp_path / "t.tfrecord").write_bytes(framed([example(sample(1)), part(1, text + entry + few)]))
    rows, bad = read(tmp_path)
    assert rows == [row(1), {"few": [], "label": 7, "text": "x"}]
    assert not bad


def test_f92_files_of_bad_records_alone_name_the_first(tmp_path: Path) -> None:
    """That there is no record is told with what is wrong with the first."""
    (tmp_path / "t.tfrecord").write_bytes(b"text of some other kind")
    with pytest.raises(EmptySource, match=r"can be read; the first bad item is .*t\.tfrecord: record 0, byte 0"):
        TFRecords(str(tmp_path), PLAIN).schema()


def test_f93_a_list_always_empty_at_first_may_fill_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No length is concluded from none; a feature without a kind is no feature."""
    monkeypatch.setattr(tfrecord, "SAMPLE_RECORDS", 2)
    empty = part(1, part(1, part(1, b"x") + part(2, part(3, b""))) + part(1, part(1, b"y") + part(2, b"")))
    (tmp_path / "t.tfrecord").write_bytes(framed([empty, empty, example({"x": [5, 6]})]))
    rows, bad = read(tmp_path)
    assert rows == [{"x": []}, {"x": []}, {"x": [5, 6]}]
    assert not bad


def test_integer_arrays_are_kept_as_asked(tmp_path: Path) -> None:
    """As raw bytes, or as the int64 lists that they are; the columns are the same."""
    (tmp_path / "t.tfrecord").write_bytes(framed([example({"x": [-1, 2**62]})] * 2))
    for lists, kind in ((False, "bytes"), (True, "int64")):
        source = TFRecords(str(tmp_path), SourceOptions(int64_lists=lists))
        assert source.schema()["x"] == stored("x", "int64", (2,), int64_lists=lists)
        assert source.schema()["x"].kind == kind
        (chunk,) = source.read(source.units()[0], pytest.fail)
        assert np.array_equal(chunk.columns["x"].values, [[-1, 2**62]] * 2)


def test_a_schema_may_be_given(tmp_path: Path) -> None:
    """Features that it does not name are left out on purpose."""
    (tmp_path / "t.tfrecord").write_bytes(raw(range(3)))
    assert read(tmp_path, given=Schema([stored("label", "int64")]))[0] == [{"label": number} for number in range(3)]


def test_files_of_a_folder_are_told_by_content_where_no_name_says_so(tmp_path: Path) -> None:
    """Others are passed over, and counted."""
    (tmp_path / "train-00000-of-00001").write_bytes(raw(range(2)))
    (tmp_path / "README").write_text("about the data")
    assert labels(read(tmp_path)[0]) == [0, 1]
    assert TFRecords(str(tmp_path), PLAIN).notes() == ["1 file passed over, by name no TFRecords"]


def test_files_are_walked_once(tmp_path: Path) -> None:
    """Finding units takes a look at each record; a worker is told what to read, and not of all files."""
    path = tmp_path / "t.tfrecord"
    path.write_bytes(raw(range(3)))
    source = TFRecords(str(tmp_path), PLAIN)
    units, notes = source.units(), source.notes()
    assert TFRecords((str(path), str(tmp_path)), PLAIN).units() == units  # named twice, listed once
    path.unlink()
    assert (source.units(), source.notes()) == (units, notes)
    assert str(path).encode() not in pickle.dumps(source)


def test_a_folder_without_an_example_is_refused(tmp_path: Path) -> None:
    """The message says what was found."""
    (tmp_path / "t.tfrecord").write_bytes(framed([b"\xff", b"no example"]))
    with pytest.raises(SourceError, match=r"expected tf\.train\.Example records with features, found none"):
        TFRecords(str(tmp_path), PLAIN).schema()
    (tmp_path / "t.tfrecord").write_bytes(b"")
    with pytest.raises(EmptySource, match="no TFRecord file holds a record"):
        TFRecords(str(tmp_path), PLAIN).schema()
