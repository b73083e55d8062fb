"""Test reading comma- and tab-separated text."""

from __future__ import annotations

import csv
import gzip
import io
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_contract import Row, SourceContract, rows_of

from datafeed.converters.csv import Csv
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, ConfigError, EmptySource, SourceError

PLAIN = SourceOptions()


def read(path: Path, options: SourceOptions = PLAIN) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    source, bad = Csv(str(path), options), []
    features = source.schema().features
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append)]
    return [row for chunk in chunks for row in rows_of(features, chunk)], bad


def column(tmp_path: Path, *cells: str, options: SourceOptions = PLAIN) -> tuple[str, list[object]]:
    """Write one column beside another, and read it back."""
    (tmp_path / "t.csv").write_text("n,x\n" + "".join(f"0,{cell}\n" for cell in cells))
    rows, bad = read(tmp_path, options)
    assert not bad
    return Csv(str(tmp_path), options).schema()["x"].dtype, [row["x"] for row in rows]


class TestCsv(SourceContract):
    """Hold a folder of csv files, plain and packed, to what every source promises."""

    def open(self, path: Path) -> Csv:
        """Open it."""
        return Csv(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write files of 0 bytes first and last, one of a header alone in the middle."""
        (folder / "a.csv").touch()
        (folder / "b.csv").write_text('id,text,score\n0,"a ""b"", c",1.5\n1,"two\nlines",\n2,,nan\n')
        (folder / "c.csv").write_text("id,text,score\n")
        (folder / "d.csv.gz").write_bytes(gzip.compress(b"id,text,score\n3,\xc3\xa9,-2\n"))
        (folder / "e.csv").touch()
        return [
            {"id": 0, "text": 'a "b", c', "score": 1.5},
            {"id": 1, "text": "two\nlines", "score": None},
            {"id": 2, "text": "", "score": math.nan},
            {"id": 3, "text": "é", "score": -2.0},
        ]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Put a row of four cells behind one that takes two lines."""
        text = 'id,text,score\n0,"two\nlines",1\n7,ragged,1,2\n8,fine,2\n'
        (folder / "b.csv").write_text(text)
        good: list[Row] = [
            {"id": 0, "text": "two\nlines", "score": 1},
            {"id": 8, "text": "fine", "score": 2},
            {"id": 3, "text": "é", "score": -2},
        ]
        return "b.csv:4", "expected 3 cells as in the header, found 4", good


@pytest.mark.parametrize(
    ("cells", "dtype", "values"),
    [
        (["1", "-5", "9223372036854775807"], "int64", [1, -5, 2**63 - 1]),
        (["1", "", "3"], "int64", [1, None, 3]),
        (["1", "2.5", "1e3", ".5"], "float64", [1.0, 2.5, 1000.0, 0.5]),
        (["1", "inf", "-Infinity"], "float64", [1.0, math.inf, -math.inf]),
        (["9223372036854775809", "1"], "utf8", ["9223372036854775809", "1"]),
        (["9007199254740993", "0.5"], "utf8", ["9007199254740993", "0.5"]),
        (["0.5", "9007199254740993"], "utf8", ["0.5", "9007199254740993"]),
        (["12345678901234567.5", "0.1"], "utf8", ["12345678901234567.5", "0.1"]),
        (["1234567890123456.5", "1e300", "0.99999999999999999"], "float64", [1234567890123456.5, 1e300, 1.0]),
        (["007", "12"], "utf8", ["007", "12"]),
        (["12", "007"], "utf8", ["12", "007"]),
        (["1", "x", ""], "utf8", ["1", "x", ""]),
        (["1 ", "2"], "utf8", ["1 ", "2"]),
        (["0x10", "1"], "utf8", ["0x10", "1"]),
        (["1_000", "1"], "utf8", ["1_000", "1"]),
        (["٣", "1"], "utf8", ["٣", "1"]),
        (["+1", "2"], "float64", [1.0, 2.0]),
        (["-0", "1"], "float64", [-0.0, 1.0]),
        (["1e400", "1"], "utf8", ["1e400", "1"]),
        (["NA", "None"], "utf8", ["NA", "None"]),
    ],
    ids=str,
)
def test_a_type_is_taken_only_where_no_cell_loses_by_it(
    tmp_path: Path, cells: list[str], dtype: str, values: list[object]
) -> None:
    """Whatever the order of the rows; text is the way out."""
    assert column(tmp_path, *cells) == (dtype, values)


def test_types_may_be_given(tmp_path: Path) -> None:
    """For a column that is there."""
    for dtype, values in (
        ("utf8", ["1", "0"]),
        ("bytes", [b"1", b"0"]),
        ("bool", [True, False]),
        ("uint8", [1, 0]),
        ("float32", [1.0, 0.0]),
    ):
        assert column(tmp_path, "1", "0", options=SourceOptions(types={"x": dtype})) == (dtype, values)
    with pytest.raises(ConfigError, match="no column 'y'; there are n, x"):
        Csv(str(tmp_path), SourceOptions(types={"y": "utf8"})).schema()


def test_an_empty_cell_of_bytes_is_empty(tmp_path: Path) -> None:
    """As one of text is."""
    found = column(tmp_path, "a_b", "", options=SourceOptions(types={"x": "bytes"}))
    assert found == ("bytes", [b"a_b", b""])


def test_f98_cells_past_a_given_type_are_bad_items(tmp_path: Path) -> None:
    """With line, column and cell."""
    (tmp_path / "t.csv").write_text("ids\n1\n65536\nx\n-1\n6_5\n65535\n")
    rows, bad = read(tmp_path, SourceOptions(types={"ids": "uint16"}))
    assert [row["ids"] for row in rows] == [1, 65535]
    assert [item.where for item in bad] == [f"{tmp_path / 't.csv'}:{line}" for line in (3, 4, 5, 6)]
    assert all("'ids'" in item.reason for item in bad)


def test_a_byte_order_mark_is_dropped_and_line_ends_of_both_kinds_taken(tmp_path: Path) -> None:
    """Spreadsheets write both."""
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,x\r\n\r\n2,y")
    assert read(tmp_path) == ([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}], [])


@pytest.mark.parametrize(
    ("name", "mark"), [("t.tsv", "\t"), ("T.TSV", "\t"), ("a\n.tsv", "\t"), ("t.csv", ";"), ("t.csv", "|")]
)
def test_the_delimiter_is_told_by_the_header(tmp_path: Path, name: str, mark: str) -> None:
    """A tab in .tsv, whatever else is frequent there; a quoted name does not count."""
    odd = "d|d|d" if name != "t.csv" else "d"
    (tmp_path / name).write_text(f'"a,b,c"{mark}{odd}\n1{mark}2\n')
    assert read(tmp_path) == ([{"a,b,c": 1, odd: 2}], [])


@pytest.mark.parametrize("header", ["a,b,a", "a,,b"])
def test_names_that_are_empty_or_double_are_refused(tmp_path: Path, header: str) -> None:
    """By name, with the file's first line."""
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n")
    with pytest.raises(SourceError, match=r"t\.csv:1: the column name '(a|)' must be filled and stand there once"):
        Csv(str(tmp_path), PLAIN).schema()


@pytest.mark.parametrize("before", ["\n", "\n\n", "\r\n"])
def test_an_empty_line_is_no_header(tmp_path: Path, before: str) -> None:
    """The error says what to do."""
    (tmp_path / "t.csv").write_text(f"{before}a,b\n1,2\n")
    with pytest.raises(SourceError, match=r"t\.csv:1: expected the header line, found an empty one: delete"):
        Csv(str(tmp_path), PLAIN).schema()


def test_headers_that_differ_are_refused(tmp_path: Path) -> None:
    """Another order is another header: which column is which is not guessed."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    with pytest.raises(SourceError, match=r"b\.csv: expected the columns \['x', 'y'\], found \['y', 'x'\]"):
        Csv(str(tmp_path), PLAIN).schema()


def test_bytes_that_are_no_utf8_are_a_bad_item(tmp_path: Path) -> None:
    """The line and the column are named."""
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,x\n2,\xff\n3,z\n")
    rows, bad = read(tmp_path)
    assert [row["a"] for row in rows] == [1, 3]
    assert [item.where for item in bad] == [f"{tmp_path / 't.csv'}:3"]
    assert "'b' is not UTF-8" in bad[0].reason


def test_a_quotation_that_never_ends_is_a_bad_item(tmp_path: Path) -> None:
    """It does not swallow the rest of the file into a cell."""
    (tmp_path / "t.csv").write_text('a,b\n1,x\n2,"open\n3,y\n')
    rows, bad = read(tmp_path)
    assert rows == [{"a": 1, "b": "x"}]
    assert [item.where for item in bad] == [f"{tmp_path / 't.csv'}:3"]


def test_f95_a_packed_file_that_is_cut_is_a_bad_item(tmp_path: Path) -> None:
    """Every row before the cut is kept, and it does not stop the schema from being drawn."""
    body = "a,b\n" + "".join(f"{number},{number * 7919 % 1000}\n" for number in range(20_000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(body.encode())[:-2000])
    rows, bad = read(tmp_path)
    assert [row["a"] for row in rows] == list(range(len(rows)))
    assert [(item.where, item.reason[:30]) for item in bad] == [
        (f"{tmp_path / 't.csv.gz'}:{len(rows) + 2}", "the rest of it cannot be read:")
    ]


def test_a_packed_file_that_is_damaged_is_a_bad_item(tmp_path: Path) -> None:
    """What zlib refuses is one too."""
    packed = bytearray(gzip.compress(b"a\n" + b"".join(b"%d\n" % (n * 7919 % 99_991) for n in range(50_000))))
    middle = len(packed) // 2
    packed[middle : middle + 64] = b"\xff" * 64
    (tmp_path / "t.csv.gz").write_bytes(packed)
    rows, bad = read(tmp_path)
    assert len(rows) > 10_000
    assert len([item for item in bad if "the rest of it cannot be read" in item.reason]) == 1


def test_names_that_are_no_utf8_are_refused(tmp_path: Path) -> None:
    """A file of UTF-16, say, which no feature could be named after."""
    (tmp_path / "t.csv").write_bytes("a,b\n1,2\n".encode("utf-16"))
    with pytest.raises(SourceError, match=r"t\.csv:1: the column name .* is not UTF-8"):
        Csv(str(tmp_path), PLAIN).schema()


def test_f92_rows_that_are_all_bad_name_the_first(tmp_path: Path) -> None:
    """A quotation that never ends takes all rows with it, and is what the error speaks of."""
    (tmp_path / "t.csv").write_text('a,b\n"x,1\n2,3\n')
    with pytest.raises(EmptySource, match=r"no file has a row; the first bad item is .*t\.csv:2: cannot be parsed"):
        Csv(str(tmp_path), PLAIN).schema()


def test_a_quotation_that_never_ends_takes_no_more_than_a_cell_may_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is one bad item, and the lines behind that are rows again: a large file is never held as one cell."""
    monkeypatch.setattr("datafeed.converters.csv.CELL_CHARS", 40)
    (tmp_path / "t.csv").write_text('n,x\n1,a\n2,"b\n' + "".join(f"{number},c\n" for number in range(3, 50)))
    rows, (bad,) = read(tmp_path)
    assert "t.csv:3: cannot be parsed: field larger than field limit" in str(bad)
    numbers = [row["n"] for row in rows]
    assert numbers[0] == 1
    assert numbers[1:] == list(range(13, 50))  # the line in which it grew too long is lost with it


def test_f92_files_without_rows_alone_are_an_empty_source(tmp_path: Path) -> None:
    """A header is no row."""
    (tmp_path / "a.csv").write_text("x,y\n")
    (tmp_path / "b.csv").touch()
    with pytest.raises(EmptySource, match="no file has a row"):
        Csv(str(tmp_path), PLAIN).schema()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(rows=st.lists(st.tuples(TEXT, TEXT, st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=8))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]]) -> None:
    """Quotes, delimiters, line ends and control characters, as the standard library writes them."""
    folder = tmp_path_factory.mktemp("csv")
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("a", "b", "n"), *rows])
    (folder / "t.csv").write_bytes(out.getvalue().encode())
    found, bad = read(folder, SourceOptions(types={"a": "utf8", "b": "utf8"}))
    assert not bad
    assert [tuple(row.values()) for row in found] == rows
