"""Test reading LMDB environments, written by the lmdb package."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import fsspec
import lmdb
import pytest
from source_contract import Row, SourceContract, check_form, rows_of

from datafeed.converters import lmdb as source
from datafeed.converters.detect import open_source
from datafeed.converters.lmdb import Lmdb
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, EmptySource, SourceError

PLAIN = SourceOptions()
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
LARGE = 5000  # bytes of a value that fills pages of its own


def write(path: Path, values: Mapping[bytes, bytes], *, folder: bool = True) -> Path:
    """Write an environment, a folder or a single file, and return its data file."""
    with lmdb.open(str(path), map_size=2**28, subdir=folder) as environment, environment.begin(write=True) as put:
        for key, value in values.items():
            put.put(key, value)
    return path / "data.mdb" if folder else path


def read(path: Path | str) -> tuple[list[tuple[object, object]], list[BadItem]]:
    """Read all keys and values, with the bad items, checking the form of every column."""
    opened, bad = Lmdb(str(path), PLAIN), []
    schema, rows = opened.schema(), []
    for unit in opened.units():
        for chunk in opened.read(unit, bad.append):
            for feature in schema:
                check_form(feature, chunk.columns[feature.name], chunk.rows)
            rows += [(row["key"], row["value"]) for row in rows_of(schema.features, chunk)]
    return rows, bad


def many(count: int, nbytes: int = 30) -> dict[bytes, bytes]:
    """Return keys and values, some of them in pages of their own."""
    return {b"%06d" % i: b"%d" % i * (LARGE if i % 7 == 3 else nbytes) for i in range(count)}


def as_rows(values: Mapping[bytes, bytes]) -> list[Row]:
    """Return the samples of an environment."""
    return [{"key": key, "value": values[key]} for key in sorted(values)]


class TestLmdb(SourceContract):
    """Hold a folder of environments to what every source promises."""

    def open(self, path: Path) -> Lmdb:
        """Open it."""
        return Lmdb(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write two environments with keys, a folder and a file, and two without."""
        write(folder / "a.lmdb", {}, folder=False)
        write(folder / "b", many(10))
        write(folder / "c.mdb", {b"\xff\0": b"", b"k": b"v"}, folder=False)
        write(folder / "d", {})
        assert (folder / "b" / "lock.mdb").exists()
        return [*as_rows(many(10)), *self._others()]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Damage the first page of the value under the key 000003."""
        data = bytearray((folder / "b" / "data.mdb").read_bytes())
        place = data.index(b"3" * LARGE) - 16
        data[place] ^= 1
        (folder / "b" / "data.mdb").write_bytes(data)
        left = {key: value for key, value in many(10).items() if key != b"000003"}
        return "data.mdb: key b'000003'", "which is damaged", [*as_rows(left), *self._others()]

    @staticmethod
    def _others() -> list[Row]:
        return [{"key": b"k", "value": b"v"}, {"key": b"\xff\0", "value": b""}]


def test_a_tree_of_several_levels_is_read_as_lmdb_reads_it(tmp_path: Path) -> None:
    """Keys of all lengths, values rewritten and deleted in several transactions, files shorter than their last page."""
    short = 0
    for seed in range(12):
        draw = random.Random(seed)
        with lmdb.open(str(tmp_path / str(seed)), map_size=2**27) as environment:
            for _ in range(4):
                with environment.begin(write=True) as put:
                    keys = [draw.randbytes(draw.randrange(1, 300)) for _ in range(draw.randrange(1, 300))]
                    for key in keys:
                        put.put(key, draw.randbytes(draw.choice([0, 9, 900, LARGE, 4 * LARGE])))
                    for key in draw.sample(keys, len(keys) * draw.choice([0, 1, 3]) // 4):
                        put.delete(key)
            with environment.begin() as view:
                expected = list(view.cursor())
            pages = environment.info()["last_pgno"] + 1
        short += (tmp_path / str(seed) / "data.mdb").stat().st_size < pages * 4096
        assert read(tmp_path / str(seed)) == (expected, [])
    assert short


@pytest.mark.parametrize(
    ("values", "least"), [(many(7000, 8), 30), ({b"%04d" % i: bytes(LARGE) for i in range(99)}, 4)]
)
def test_runs_of_keys_are_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[bytes, bytes], least: int
) -> None:
    """Their sizes are those of keys and values, wherever the values lie; one leaf of large values is several units."""
    total = sum(len(key) + len(value) for key, value in values.items())
    monkeypatch.setattr(source, "UNIT_NBYTES", max(total // 40, 4 * LARGE))
    monkeypatch.setattr(source, "CHUNK_NBYTES", 3 * LARGE)
    write(tmp_path / "e", values)
    units = Lmdb(str(tmp_path), PLAIN).units()
    assert least < len(units) < 90
    assert max(unit.nbytes for unit in units) <= source.UNIT_NBYTES
    assert sum(unit.nbytes for unit in units) == total
    assert read(tmp_path) == (list(values.items()), [])


def test_small_values_are_cut_by_their_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at them; the estimate is what the pages hold at most."""
    monkeypatch.setattr(source, "UNIT_NBYTES", 100_000)
    values = {b"%06d" % i: b"%d" % i for i in range(20_000)}
    write(tmp_path / "e", values)
    units = Lmdb(str(tmp_path), PLAIN).units()
    assert len(units) > 3
    assert {unit.nbytes for unit in units[:-1]} == {24 * 4096}
    assert read(tmp_path) == (list(values.items()), [])


def test_images_are_told_by_the_first_values(tmp_path: Path) -> None:
    """All must be; text beside them makes bytes of all."""
    write(tmp_path / "images", {b"a": PNG, b"b": b"\xff\xd8\xff\xe0" + bytes(20)})
    write(tmp_path / "mixed", {b"a": PNG, b"b": b"text"})
    assert Lmdb(str(tmp_path / "images"), PLAIN).schema()["value"].media == "image"
    assert Lmdb(str(tmp_path / "mixed"), PLAIN).schema()["value"].media == ""


def test_named_databases_are_refused(tmp_path: Path) -> None:
    """By their names, with the way to get at one."""
    with lmdb.open(str(tmp_path / "e"), max_dbs=2) as environment:
        environment.open_db(b"train")
        environment.open_db(b"val")
    with pytest.raises(SourceError, match=r"data\.mdb holds databases by name \(train, val\): .*mdb_dump -s NAME"):
        Lmdb(str(tmp_path), PLAIN).units()


def test_a_named_database_among_many_keys_is_a_bad_item(tmp_path: Path) -> None:
    """The keys beside it are read."""
    with lmdb.open(str(tmp_path / "e"), max_dbs=2, map_size=2**26) as environment:
        environment.open_db(b"000005x")
        with environment.begin(write=True) as put:
            for key, value in many(2000).items():
                put.put(key, value)
    rows, bad = read(tmp_path)
    assert rows == list(many(2000).items())
    assert [(item.where, item.reason[:20]) for item in bad] == [
        (f"{tmp_path}/e/data.mdb: key b'000005x'", "it names a database:")
    ]


def test_several_values_a_key_are_refused(tmp_path: Path) -> None:
    """A sample holds one; Python's lmdb cannot make such an environment, so the flag is set by hand."""
    data = bytearray(write(tmp_path / "e", {b"k": b"v"}).read_bytes())
    for page in (0, 4096):
        data[page + 92] |= 4
    (tmp_path / "e" / "data.mdb").write_bytes(data)
    with pytest.raises(SourceError, match=r"no LMDB environment can be read; .*several values each"):
        Lmdb(str(tmp_path), PLAIN).schema()


def test_f44_a_file_cut_at_any_length_is_an_error(tmp_path: Path) -> None:
    """Never a crash, and never a value that was not written; what is behind the last value may be lost."""
    values = many(400)
    whole = write(tmp_path / "whole", values).read_bytes()
    cut = tmp_path / "cut.mdb"
    needed = max(whole.rindex(b"%d" % i * LARGE) + len(b"%d" % i * LARGE) for i in range(400) if i % 7 == 3)
    for length in [*range(0, 9000, 500), *range(9000, needed, 20_011), needed - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(SourceError, match=r"cut\.mdb: .*(cut short|no LMDB|damaged|cut off)"):
            read(cut)
    cut.write_bytes(whole[:needed])
    assert read(cut) == (list(values.items()), [])


def test_small_values_cut_off_are_named_as_a_whole(tmp_path: Path) -> None:
    """The tree needs pages that are not there."""
    whole = write(tmp_path / "whole", {b"%06d" % i: bytes(90) for i in range(3000)}).read_bytes()
    (tmp_path / "cut.mdb").write_bytes(whole[: len(whole) // 2])
    rows, bad = read(tmp_path)
    assert len(rows) == 3000
    assert [item.where for item in bad] == [str(tmp_path / "cut.mdb")]
    assert "cut short: its tree needs page" in bad[0].reason


def test_damaged_bytes_are_errors_or_bad_items(tmp_path: Path) -> None:
    """Whatever byte of a page's head, of a node or of the first pages is another."""
    values = many(300)
    whole = write(tmp_path / "whole", values).read_bytes()
    draw = random.Random(0)
    told = 0
    for _ in range(300):
        data = bytearray(whole)
        page = draw.randrange(len(data) // 4096)
        for _ in range(3):
            data[page * 4096 + draw.randrange(160)] = draw.randrange(256)
        (tmp_path / "bad.mdb").write_bytes(data)
        try:
            told += bool(read(tmp_path / "bad.mdb")[1])
        except SourceError:
            told += 1
    assert told > 30


def test_a_page_in_the_place_of_another_is_a_bad_item(tmp_path: Path) -> None:
    """Its keys would stand twice, and those of the other nowhere: each page tells its number."""
    values = {b"%06d" % i: bytes(90) for i in range(300)}
    path = write(tmp_path / "e", values)
    data = bytearray(path.read_bytes())
    pages = [page for page in range(2, len(data) // 4096) if data[page * 4096 + 10] == 2]
    first, second = (slice(page * 4096, (page + 1) * 4096) for page in pages[2:4])
    data[first] = data[second]
    path.write_bytes(data)
    rows, bad = read(tmp_path)
    assert [item.where for item in bad] == [f"{path}: page {pages[2]}"]
    assert f"it says to be page {pages[3]}" in bad[0].reason
    assert 200 < len(rows) == len(set(rows)) < 300


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut short"),
        (b"text" * 3000, "is no LMDB environment: expected 0xbeefc0de"),
        (bytes(16) + b"\xde\xc0\xef\xbe\x01" + bytes(9000), "is no LMDB environment"),
        (bytes(10) + b"\x08" + bytes(5) + b"\xde\xc0\xef\xbe\x02" + bytes(9000), "of version 2; version 1 is read"),
    ],
)
def test_files_that_are_no_environment_are_named(tmp_path: Path, data: bytes, reason: str) -> None:
    """Alone they are an error, beside others a bad item."""
    (tmp_path / "x.mdb").write_bytes(data)
    with pytest.raises(SourceError, match=rf"no LMDB environment can be read; .*x\.mdb: it {reason}|{reason}"):
        Lmdb(str(tmp_path), PLAIN).schema()
    write(tmp_path / "y", {b"k": b"v"})
    rows, bad = read(tmp_path)
    assert rows == [(b"k", b"v")]
    assert [item.where for item in bad] == [str(tmp_path / "x.mdb")]
    assert reason in bad[0].reason


def test_environments_without_keys_are_an_empty_source(tmp_path: Path) -> None:
    """And noted beside others."""
    write(tmp_path / "a", {})
    with pytest.raises(EmptySource, match="no LMDB environment holds a key"):
        Lmdb(str(tmp_path), PLAIN).units()
    write(tmp_path / "b", {b"k": b"v"})
    assert Lmdb(str(tmp_path), PLAIN).notes() == ["1 of the environments holds no key"]


def test_an_environment_is_told_and_read_from_a_url(tmp_path: Path) -> None:
    """As from a path: pages are asked for where they lie."""
    data = write(tmp_path / "e", many(50)).read_bytes()
    fsspec.filesystem("memory").pipe("/lmdb/e/data.mdb", data)
    assert open_source("memory://lmdb", None, PLAIN).kind == open_source(str(tmp_path), None, PLAIN).kind == "lmdb"
    assert read("memory://lmdb") == (list(many(50).items()), [])
