"""Test reading the documents of files."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from datafeed.converters.documents import SUFFIXES, documents_of, parts_of
from datafeed.converters.options import SourceOptions
from datafeed.errors import BadItem

PLAIN = SourceOptions()


def read(path: Path, asked: SourceOptions = PLAIN) -> tuple[list[tuple[str, str]], list[BadItem]]:
    """Read all documents of a file or folder: (line or row, text) of each, and the bad items."""
    bad: list[BadItem] = []
    parts = [part for file in asked.files.listed(str(path), SUFFIXES) for part in parts_of(asked, file)]
    found = [document for part in parts for document in documents_of(asked, part, bad.append)]
    return [(where.rpartition(":")[2], text) for where, text in found], bad


def write_parquet(path: Path, documents: Sequence[str | None], column: str = "text") -> None:
    """Write two documents a row group."""
    parquet.write_table(pa.table({"n": range(len(documents)), column: documents}), path, row_group_size=2)


def test_each_line_of_a_text_is_a_document(tmp_path: Path) -> None:
    """Blank ones are none; blanks within a line are kept, its end and a byte order mark are not."""
    (tmp_path / "a.txt").write_bytes("\ufeffa b\r\n\r\n \t\n  c\td \n\x0b\x85e\nf".encode())
    assert read(tmp_path / "a.txt") == ([("1", "a b"), ("4", "  c\td "), ("5", "\x0b\x85e"), ("6", "f")], [])


BAD = {
    '{"n": 1}': "expected a string under 'text', found none; there are n: --text names",
    '{"text": null}': "expected a string under 'text', found null",
    '{"text": 5}': "expected a string under 'text', found 5",
    '{"text": {"a": "x"}}': "found none; there are text.a",
    '{"text": "x"': "expected one JSON object",
}


@pytest.mark.parametrize("line", BAD)
def test_lines_without_a_text_are_bad_items(tmp_path: Path, line: str) -> None:
    """With file, line and bytes; an empty text is one."""
    (tmp_path / "a.jsonl").write_text(f'{{"text": "fox"}}\n{line}\n{{"text": ""}}\n')
    found, bad = read(tmp_path)
    assert found == [("1", "fox"), ("3", "")]
    assert [item.where for item in bad] == [f"{tmp_path / 'a.jsonl'}:2"]
    assert BAD[line] in bad[0].reason
    assert bad[0].data


def test_rows_and_files_without_a_text_are_bad_items(tmp_path: Path) -> None:
    """A null by its row, a file without the column or with one of numbers once, and the rest is read."""
    write_parquet(tmp_path / "a.parquet", ["fox", None, "dog"])
    write_parquet(tmp_path / "b.parquet", ["fox"] * 5, "other")
    parquet.write_table(pa.table({"text": [1, 2]}), tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_bytes(b"PAR1 no more")
    write_parquet(tmp_path / "e.parquet", ["jugs", ""])
    found, bad = read(tmp_path)
    assert found == [("0", "fox"), ("2", "dog"), ("0", "jugs"), ("1", "")]
    names = ("a.parquet:1", "b.parquet", "c.parquet", "d.parquet")
    assert [item.where for item in bad] == [str(tmp_path / name) for name in names]
    reasons = ("found null", "'text'", "'text' is int64", "no parquet file")
    assert all(reason in item.reason for reason, item in zip(reasons, bad, strict=True))
    assert all("--text names the column" in item.reason for item in bad[1:3])


def test_a_row_that_is_no_utf8_is_a_bad_item(tmp_path: Path) -> None:
    """The others of its row group are kept."""
    texts = pa.Array.from_buffers(pa.binary(), 2, pa.array([b"a", b"\xff"]).buffers()).view(pa.string())
    parquet.write_table(pa.table({"text": texts}), tmp_path / "a.parquet")
    found, bad = read(tmp_path)
    assert found == [("0", "a")]
    assert [item.where for item in bad] == [f"{tmp_path / 'a.parquet'}:1"]


def test_the_column_may_be_named(tmp_path: Path) -> None:
    """Also one within an object."""
    (tmp_path / "a.jsonl").write_text('{"text": 1, "a": {"b": "fox"}}\n')
    parquet.write_table(pa.table({"a": [{"b": "dog"}], "text": [1]}), tmp_path / "b.parquet")
    assert read(tmp_path, SourceOptions(text="a.b")) == ([("1", "fox"), ("0", "dog")], [])


@pytest.mark.parametrize("packed", [bytes, gzip.compress, zstandard.compress])
def test_content_tells_the_form_of_other_names(tmp_path: Path, packed: Callable[[bytes], bytes]) -> None:
    """A file that is named itself counts whatever its name."""
    (tmp_path / "objects").write_bytes(packed(b'\xef\xbb\xbf {"text": "fox"}\n'))
    (tmp_path / "prose").write_bytes(packed(b"fox\n"))
    write_parquet(tmp_path / "table", ["fox"])
    assert read(tmp_path / "objects") == read(tmp_path / "prose") == ([("1", "fox")], [])
    assert read(tmp_path / "table") == ([("0", "fox")], [])


@pytest.mark.parametrize("name", ["a.txt.gz", "a.jsonl.gz", "a"])
def test_f95_a_packed_file_that_is_cut_is_a_bad_item(tmp_path: Path, name: str) -> None:
    """What came before is kept."""
    lines = "".join(f'{{"text": "{n}"}}\n' for n in range(50_000))
    (tmp_path / name).write_bytes(gzip.compress(lines.encode())[:-100])
    found, bad = read(tmp_path / name)
    assert len(found) > 1000
    assert bad[-1].where == str(tmp_path / name)
    assert "the rest of it cannot be read" in bad[-1].reason
