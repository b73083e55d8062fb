"""Test reading JSON lines."""

from __future__ import annotations

import gzip
import json
import math
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from source_contract import Row, SourceContract, rows_of

from datafeed.converters import lines
from datafeed.converters.jsonl import JsonLines
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem, ConfigError, EmptySource, SourceError
from datafeed.schema import Feature

PLAIN = SourceOptions()


def read(path: Path, options: SourceOptions = PLAIN) -> tuple[list[Row], list[BadItem]]:
    """Read all of a source, with its bad items."""
    source, bad = JsonLines(str(path), options), []
    features = source.schema().features
    chunks = [chunk for unit in source.units() for chunk in source.read(unit, bad.append)]
    return [row for chunk in chunks for row in rows_of(features, chunk)], bad


def column(tmp_path: Path, *values: str, options: SourceOptions = PLAIN) -> tuple[Feature, list[object]]:
    """Write the values of one name as they stand in the file, and read them back."""
    (tmp_path / "t.jsonl").write_text("".join(f'{{"x": {value}}}\n' for value in values))
    rows, bad = read(tmp_path, options)
    assert not bad
    return JsonLines(str(tmp_path), options).schema()["x"], [row["x"] for row in rows]


class TestJsonLines(SourceContract):
    """Hold a folder of jsonl files, plain and packed, to what every source promises."""

    def open(self, path: Path) -> JsonLines:
        """Open it."""
        return JsonLines(str(path), PLAIN)

    def write(self, folder: Path) -> list[Row]:
        """Write files of 0 bytes first and last, one of empty lines in the middle."""
        (folder / "a.jsonl").touch()
        (folder / "b.jsonl").write_text('{"id": 0, "o": {"t": "\\u00e9"}}\n{"o": {"t": null}, "id": 1, "l": [1, 2]}\n')
        (folder / "c.jsonl").write_text("\n \r\n")
        (folder / "d.jsonl.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"id": 2, "l": []}'))
        (folder / "e.ndjson").touch()
        return [
            {"id": 0, "o.t": "é", "l": None},
            {"id": 1, "o.t": None, "l": [1, 2]},
            {"id": 2, "o.t": None, "l": []},
        ]

    def spoil(self, folder: Path) -> tuple[str, str, list[Row]]:
        """Break the second line."""
        (folder / "b.jsonl").write_text('{"id": 0, "o": {"t": "x"}, "l": [1]}\n{"id": 1, \n{"id": 2}\n')
        good: list[Row] = [
            {"id": 0, "o.t": "x", "l": [1]},
            {"id": 2, "o.t": None, "l": None},
            {"id": 2, "o.t": None, "l": []},
        ]
        return "b.jsonl:2", "expected one JSON object", good


@pytest.mark.parametrize(
    ("values", "dtype", "found"),
    [
        (["true", "false"], "bool", [True, False]),
        (["1", str(2**63 - 1), str(-(2**63))], "int64", [1, 2**63 - 1, -(2**63)]),
        (["1", str(2**64 - 1)], "uint64", [1, 2**64 - 1]),
        (["1", "2.5", "NaN", "-Infinity"], "float64", [1.0, 2.5, math.nan, -math.inf]),
        (['"a"', '"\\u00e9"', '""'], "utf8", ["a", "é", ""]),
        (["1", "null"], "int64", [1, None]),
        (["[1, 2]", "[]", "[3]"], "int64", [[1, 2], [], [3]]),
        ([f"[{2**64 - 1}, 0]", "[1]"], "uint64", [[2**64 - 1, 0], [1]]),
        ([str(2**53), str(2**60), "0.5"], "float64", [2.0**53, 2.0**60, 0.5]),
        (["[1, 2.5]", "[NaN]"], "float64", [[1.0, 2.5], [math.nan]]),
        (["[true]", "[]"], "bool", [[True], []]),
        (['["a", ""]', "[]"], "utf8", [["a", ""], []]),
    ],
    ids=str,
)
def test_values_of_one_kind_have_its_type(tmp_path: Path, values: list[str], dtype: str, found: list[object]) -> None:
    """NaN and Infinity are floats; null is missing; an empty list is a list."""
    feature, back = column(tmp_path, *values)
    assert (feature.dtype, feature.media) == (dtype, "")
    assert repr(back) == repr(found)


@pytest.mark.parametrize(
    "values",
    [
        ["1", '"a"'],
        ["true", "1"],
        ["1", "[1]"],
        [str(2**64), "1"],
        [str(2**63), "-1"],
        [f"[{2**64}]", "[1]"],
        ["[[1, 2], [3]]"],
        ['[{"a": 1}]'],
        ["[1, null]"],
        ['["a", 1]'],
    ],
    ids=str,
)
def test_anything_else_is_kept_as_json_text(tmp_path: Path, values: list[str]) -> None:
    """Mixtures, integers that no 64 bits hold, lists of lists and of objects: no digit is lost, and it is noted."""
    feature, back = column(tmp_path, *values)
    assert (feature.dtype, feature.media) == ("utf8", "json")
    assert [json.loads(str(text)) for text in back] == [json.loads(value) for value in values]
    assert JsonLines(str(tmp_path), PLAIN).notes() == ["kept as JSON text: x"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"x": 1, "x": 2}', "'x' stands there twice"),
        ('{"o": {"x": 1, "x": 2}}', "'x' stands there twice"),
        ('{"a.b": 1, "a": {"b": 2}}', "'a.b' stands there twice"),
        ("[1, 2]", "a file that is one array"),
        ("5", "expected one JSON object"),
        ('{"x": 1} {"x": 2}', "expected one JSON object"),
        ('{"x": "\\ud800"}', "'x'"),
        ("[" * 100_000, "expected one JSON object"),
        ('{"x": -1e400}', "found -1e400, a number too large for a float64"),
        ('{"": 1}', "the name '' is no name"),
        ('{"\\udfff": 1}', "is no name"),
    ],
)
def test_lines_that_cannot_become_samples_are_bad_items(tmp_path: Path, line: str, reason: str) -> None:
    """With file, line, reason and bytes; those around them are read."""
    (tmp_path / "t.jsonl").write_text(f'{{"x": "1"}}\n{line}\n{{"x": "3"}}\n')
    rows, bad = read(tmp_path)
    assert [row["x"] for row in rows] == ["1", "3"]
    assert [item.where for item in bad] == [f"{tmp_path / 't.jsonl'}:2"]
    assert reason in bad[0].reason


def test_bytes_that_are_no_utf8_are_a_bad_item(tmp_path: Path) -> None:
    """They are kept for quarantine."""
    (tmp_path / "t.jsonl").write_bytes(b'{"x": "a"}\n{"x": "\xff"}\n')
    rows, bad = read(tmp_path)
    assert rows == [{"x": "a"}]
    assert bad[0].data == b'{"x": "\xff"}'


def test_f98_types_may_be_given(tmp_path: Path) -> None:
    """Values past them are bad items; a name that no line has is refused."""
    (tmp_path / "t.jsonl").write_text('{"ids": [0, 65535]}\n{"ids": [65536]}\n{"ids": [1.5]}\n')
    rows, bad = read(tmp_path, SourceOptions(types={"ids": "uint16"}))
    assert rows == [{"ids": [0, 65535]}]
    assert [item.where.rpartition(":")[2] for item in bad] == ["2", "3"]
    assert "65536" in bad[0].reason
    with pytest.raises(ConfigError, match="no line has the name 'y'; there are ids"):
        JsonLines(str(tmp_path), SourceOptions(types={"y": "int8"})).schema()


def test_integers_that_a_float_column_would_round_are_bad_items(tmp_path: Path) -> None:
    """The other rows are kept."""
    (tmp_path / "t.jsonl").write_text(f'{{"x": 0.5}}\n{{"x": {2**53 + 1}}}\n{{"x": 3}}\n')
    rows, bad = read(tmp_path)
    assert [row["x"] for row in rows] == [0.5, 3.0]
    assert [item.where.rpartition(":")[2] for item in bad] == ["2"]


@pytest.mark.parametrize("nbytes", [1, 30, 100, 10**6])
def test_units_are_cut_at_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nbytes: int) -> None:
    """No line is lost or doubled, and bad ones keep their numbers."""
    monkeypatch.setattr(lines, "UNIT_NBYTES", nbytes)
    texts = [json.dumps({"x": number, "pad": "é" * (number % 9)}) for number in range(40)]
    texts[25] = "broken"
    (tmp_path / "t.jsonl").write_text("\ufeff" + "\n".join(texts), encoding="utf-8")
    rows, bad = read(tmp_path)
    assert [row["x"] for row in rows] == [number for number in range(40) if number != 25]
    assert [item.where for item in bad] == [f"{tmp_path / 't.jsonl'}:26"]


@pytest.mark.parametrize("flaw", ["cut", "damaged"])
def test_f95_a_packed_file_with_a_flaw_is_a_bad_item(tmp_path: Path, flaw: str) -> None:
    """Drawing the schema does not stop at it; reading keeps the lines before it, and names it."""
    body = "".join(f'{{"x": {number}, "y": {number * 7919 % 99_991}}}\n' for number in range(20_000))
    packed = gzip.compress(body.encode())
    end = b"" if flaw == "cut" else b"\xff" * 2000
    (tmp_path / "t.jsonl.gz").write_bytes(packed[:-2000] + end)
    rows, bad = read(tmp_path)
    sure = len(rows) if flaw == "cut" else 10_000  # what is damaged may still unpack for a while
    assert [row["x"] for row in rows][:sure] == list(range(sure))
    assert [(item.where, item.reason[:30]) for item in bad][-1:] == [
        (str(tmp_path / "t.jsonl.gz"), "the rest of it cannot be read:")
    ]


def test_f92_lines_that_are_all_bad_name_the_first(tmp_path: Path) -> None:
    """That the source has no sample is told with what is wrong with its first line."""
    (tmp_path / "t.json").write_text('[{"x": 1}]\n')
    with pytest.raises(EmptySource, match=r"no line holds .* first bad item is .*t\.json:1: .*that is one array"):
        JsonLines(str(tmp_path), PLAIN).schema()


def test_f92_files_without_objects_alone_are_an_empty_source(tmp_path: Path) -> None:
    """Empty lines are no rows."""
    (tmp_path / "t.jsonl").write_text("\n\n")
    with pytest.raises(EmptySource, match="no line holds a JSON object"):
        JsonLines(str(tmp_path), PLAIN).schema()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def test_a_line_that_memory_may_not_hold_is_not_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One array that fills a file is refused; in a packed file, the rest of it is a bad item."""
    monkeypatch.setattr(lines, "UNIT_NBYTES", 10)
    monkeypatch.setattr(lines, "LINE_NBYTES", 20)
    data = b'{"x": 1}\n{"x": 2}\n[' + b"1, " * 100 + b"1]\n"
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(data))
    rows, (bad,) = read(tmp_path)
    assert rows == [{"x": 1}, {"x": 2}]
    assert "the rest of it cannot be read: line 3 has more than 20 bytes" in str(bad)
    (tmp_path / "u.jsonl").write_bytes(data)
    with pytest.raises(SourceError, match=r"u\.jsonl: line 3 has more than 20 bytes: expected one sample a line"):
        JsonLines(str(tmp_path), PLAIN).units()


def test_a_worker_is_not_told_what_others_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The source travels with its schema, and without the listing, however long."""
    monkeypatch.setattr(lines, "UNIT_NBYTES", 10)
    (tmp_path / "t.jsonl").write_text('{"x": 1}\n' * 5000)
    source = JsonLines(str(tmp_path), PLAIN)
    units, schema = source.units(), source.schema()
    assert len(units) == 2500
    travelled = pickle.dumps(source)
    assert len(travelled) < 5000
    (tmp_path / "t.jsonl").unlink()
    assert pickle.loads(travelled).schema() == schema  # noqa: S301  (our own)


SAMPLES = st.fixed_dictionaries(
    {"n": st.integers(-(2**63), 2**63 - 1), "t": TEXT, "l": st.lists(TEXT, max_size=3)},
    optional={"f": st.floats(allow_nan=False), "i": st.lists(st.integers(0, 2**64 - 1), max_size=3)},
)


@given(samples=st.lists(SAMPLES, min_size=1, max_size=6), plain=st.booleans())
def test_any_values_come_back(
    tmp_path_factory: pytest.TempPathFactory, samples: list[dict[str, object]], *, plain: bool
) -> None:
    """Escaped or not; a name that is absent is missing."""
    folder = tmp_path_factory.mktemp("jsonl")
    lines = [json.dumps(sample, ensure_ascii=plain) for sample in samples]
    (folder / "t.jsonl").write_bytes("\n".join(lines).encode())
    rows, bad = read(folder)
    assert not bad
    names = set().union(*samples)
    assert [{name: row[name] for name in names} for row in rows] == [
        {name: sample.get(name) for name in names} for sample in samples
    ]
