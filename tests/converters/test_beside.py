"""Test reading files that a table names in place of their bytes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from source_contract import rows_of

from datafeed.converters.beside import find
from datafeed.converters.encode import read_chunks
from datafeed.converters.files import Files
from datafeed.converters.options import SourceOptions
from datafeed.converters.parquet import Parquet
from datafeed.converters.source import Stamp
from datafeed.errors import BadItem

METADATA = {"huggingface": '{"info": {"features": {"img": {"_type": "Image"}, "n": {"_type": "Value"}}}}'}


@pytest.mark.parametrize(
    "name", ["../out", "/etc/passwd", "link", "folder/../../out", "file:///x", "memory://x", "zip://a::b", "a\0b", "."]
)
def test_names_that_lead_out_of_the_folder_are_never_opened(tmp_path: Path, name: str) -> None:
    """By dots, a link, an absolute path or a URL: a table that somebody else wrote names no file of yours."""
    (tmp_path / "data" / "folder").mkdir(parents=True)
    (tmp_path / "out").write_bytes(b"secret")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "out")
    found = find(Files(), str(tmp_path / "data" / "t.arrow"), name)
    assert isinstance(found, str)
    assert "is not in the folder of" in found


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "s3://b/x"])
def test_names_that_lead_out_of_a_url_are_never_opened(name: str) -> None:
    """As with local folders."""
    assert "is not in the folder of" in str(find(Files(), "memory://data/t.arrow", name))


def test_names_within_the_folder_are_found(tmp_path: Path) -> None:
    """Relative or absolute; one that is not there says so."""
    (tmp_path / "below").mkdir()
    file = tmp_path / "below" / "a.png"
    file.write_bytes(b"png")
    table = str(tmp_path / "t.arrow")
    for name in ("below/a.png", str(file), "below/../below/a.png"):
        assert find(Files(), table, name) == Stamp(str(file), 3, file.stat().st_mtime_ns)
    assert "cannot be read" in str(find(Files(), table, "gone.png"))


def test_many_files_are_read_a_few_mb_at_a_time(tmp_path: Path) -> None:
    """Beside rows that hold their bytes, in order, over several looks at the folder."""
    images: list[dict[str, object]] = []
    for number in range(300):
        name = f"{number % 7}.png"
        (tmp_path / name).write_bytes(bytes([number % 7]) * 2**20)
        images.append({"bytes": b"own", "path": name} if number % 50 == 1 else {"bytes": None, "path": name})
        if number >= 290:
            images[-1] = {"bytes": None, "path": None}
    kinds = pa.schema({"img": pa.struct({"bytes": pa.binary(), "path": pa.string()}), "n": pa.int64()}, METADATA)
    table = pa.table([pa.array(images, kinds.field(0).type), list(range(300))], schema=kinds)
    parquet.write_table(table, tmp_path / "t.parquet")
    source = Parquet(str(tmp_path / "t.parquet"), SourceOptions(columns=("img", "n")))
    start = 0
    bad: list[BadItem] = []
    for chunk in read_chunks(source, source.units(), bad.append):
        assert chunk.columns["img"].values.nbytes < 5 * 2**20
        for row, sample in enumerate(rows_of(source.schema().features, chunk), start):
            own = b"own" if row % 50 == 1 else bytes([row % 7]) * 2**20
            assert sample == {"img": None if row >= 290 else own, "n": row}
        assert chunk.where(0) == f"{tmp_path / 't.parquet'}:{start}"
        start += chunk.rows
    assert (start, bad) == (300, [])
